"""Episodes of several members in lockstep, in this process."""

from collections.abc import Iterator, Sequence
from itertools import repeat

import numpy as np

from quell.estimate import Problem
from quell.keys import generator
from quell.perturb import draw_of
from quell.policy.act import Actor, Normaliser, actor, as_seen, to_environment
from quell.policy.network import Policy
from quell.tasks.base import PaysLater, Simulator, Task
from quell.tasks.foreign.base import ForeignTask, episode_seed
from quell.types import Array, Episodes, Factored, Rollouts

Generators = Sequence[np.random.Generator]
GROUP_BYTES = 64 << 20  # parameters of the members that step together; more would only strain the caches
NOISE_BLOCK = 64  # steps whose action noise is drawn at once
GROUP_MEMBERS = 128  # beyond this, batching gains nothing and simulators cost memory


class LocalSimulator:
    """Runs chosen members of a request and writes their rows of the results."""

    def __init__(self, task: Task, problem: Problem, pulse: memoryview | None = None) -> None:
        """`pulse[0]` counts steps, so that others see that it goes on."""
        self.task, self.problem = task, problem
        self._pulse = memoryview(bytearray(8)).cast("q") if pulse is None else pulse
        self._simulator: Simulator | None = None
        self._size = 0

    @property
    def together(self) -> int:
        """The most members that step together."""
        numbers = self.problem.directions.numbers(self.problem.policy)
        return max(1, min(GROUP_MEMBERS, GROUP_BYTES // (4 * numbers)))

    def run(
        self, theta: Array, episodes: Episodes, indices: Sequence[int], normaliser: Normaliser, results: Rollouts
    ) -> None:
        task, problem, policy = self.task, self.problem, self.problem.policy
        for start in range(0, len(indices), self.together):
            group = indices[start : start + self.together]
            if self._simulator is None or self._size < len(group):
                self._simulator, self._size = task.simulator(len(group)), len(group)
            members = [episodes.members[i] for i in group]
            thetas = member_parameters(problem, theta, episodes, members)
            act = actor(policy, thetas, normaliser, mean_action=episodes.mean_action)
            environment, drawn = zip(*(_generators(problem.seed, episodes, *m) for m in members), strict=True)
            noisy = policy.stochastic and not episodes.mean_action
            horizon = min(task.horizon, episodes.longest or task.horizon)
            noise = _noise(policy, drawn, horizon, act) if noisy else repeat(np.zeros((1, 1), np.float32))
            played = _Played(task, policy, len(group), horizon, normaliser)
            # A wild member's numbers may overflow or turn NaN: that is data (counted by the trainer), not a warning.
            with np.errstate(all="ignore"):
                played.play(self._simulator, act, environment, noise, self._pulse)
                played.store(results, group)


def member_parameters(
    problem: Problem, theta: Array, episodes: Episodes, members: Sequence[tuple[int, int]]
) -> Array | Factored:
    """What some members act with: theta + sigma eps, or theta itself."""
    draw = draw_of(problem.policy, problem.seed, episodes)
    return problem.directions.members(theta, draw, members, episodes.shape)


def _generators(seed: int, episodes: Episodes, pair: int, sign: int) -> tuple[np.random.Generator, np.random.Generator]:
    """(environment, action noise) of one member."""
    environment, action, _ = episodes.stream.value
    reset = noise = (episodes.iteration, *episodes.block, pair)
    if sign:
        mark = int(sign < 0)
        reset = reset if episodes.shared_reset else (*reset, mark)
        noise = (*noise, 0 if episodes.shared_noise else mark)
    return generator(seed, environment, *reset), generator(seed, action, *noise)


def describe_members(task: Task, seed: int, episodes: Episodes, indices: Sequence[int]) -> str:
    """Which episodes these are, in words, with what it takes to replay one."""
    members = [episodes.members[i] for i in indices]
    names = ", ".join(f"{pair}{'+' if sign > 0 else '-' if sign < 0 else ''}" for pair, sign in members)
    kind = "pairs" if episodes.paired else "evaluation episodes"
    text = f"running {kind} {names} of iteration {episodes.iteration}, seed {seed}"
    if isinstance(task := task.bare, ForeignTask):
        seeds = [episode_seed(_generators(seed, episodes, *member)[0]) for member in members]
        text += f"; episode seeds {', '.join(map(str, seeds))}; to replay the first: {task.replay(seeds[0])}"
    return text


class _Played:
    """A group's episodes while they are played, time in front."""

    def __init__(self, task: Task, policy: Policy, count: int, horizon: int, normaliser: Normaliser) -> None:
        self.task, self.policy, self.normaliser = task, policy, normaliser
        self.length = horizon  # of the longest
        self.raw = np.empty((horizon, count, self.policy.obs_size))  # observations as the environment gave them
        self.actions = np.empty((horizon, count, self.policy.recorded_size), np.float32)
        self.rewards = np.empty((horizon, count))
        self.steps = np.full(count, horizon)
        self.terminated = np.zeros(count, bool)

    def play(
        self, simulator: Simulator, actor: Actor, resets: Generators, noise: Iterator[Array], pulse: memoryview
    ) -> None:
        """From reset until all have ended or the horizon is reached. What is done here for one member is done at every
        step of a run: it calls no more than it must."""
        active, act, can_terminate = np.ones(len(self.steps), bool), actor.act, self.task.can_terminate
        bounded = to_environment(self.policy, getattr(simulator, "bounds", None))
        late = simulator if isinstance(simulator, PaysLater) else None
        obs = simulator.reset(resets)
        t = 0
        for t, (raw, action, added) in enumerate(zip(self.raw, self.actions, noise, strict=False)):
            pulse[0] += 1
            raw[:] = obs
            act(raw, added, action)
            if bounded:
                action = bounded(action)
            if late:
                obs, ended = late.advance(action, active)
            else:
                obs, self.rewards[t], ended = simulator.step(action, active)
            if not can_terminate:
                continue
            cut = getattr(simulator, "truncated", None)  # some environments end an episode without terminating it
            over = ended if cut is None else ended | cut
            if True in over.tolist():
                self.steps[over & active] = t + 1
                self.terminated |= ended & active
                active &= ~over
                if not active.any():
                    break
        if late:
            self.rewards[: t + 1] = late.rewards()
        self.length = t + 1

    def store(self, results: Rollouts, group: Sequence[int]) -> None:
        """Copy the episodes, cut at their real length and zero-padded, into the results."""
        sound = np.isfinite(self.actions[: self.length]).all()
        for j, row in enumerate(group):
            end = min(int(self.steps[j]), self.length)
            seen, actions = self.raw[:end, j], self.actions[:end, j]
            results.steps[row], results.terminated[row] = end, self.terminated[j]
            results.rewards[row, :end], results.rewards[row, end:] = self.rewards[:end, j], 0.0
            if not sound and not np.isfinite(actions).all():
                results.rewards[row, :end] = np.nan  # an engine may take such an action for 0; its return means nothing
            results.obs_sums[row] = seen.sum(axis=0), np.square(seen).sum(axis=0)
            if results.states is not None:
                results.states[row] = as_seen(seen[spread_over(end, results.states.shape[1])], self.normaliser)
            if paths := results.trajectories:
                paths.obs[row, :end], paths.obs[row, end:] = as_seen(seen, self.normaliser), 0.0
                paths.actions[row, :end], paths.actions[row, end:] = actions, 0.0


def spread_over(steps: int, count: int) -> Array:
    """`count` of an episode's steps, evenly spread from its first to its last."""
    return (steps - 1) * np.arange(count) // max(count - 1, 1)


def _noise(policy: Policy, generators: Generators, horizon: int, act: Actor) -> Iterator[Array]:
    """What action noise adds, of all members [m, a], step by step; drawn in blocks, because many episodes end early."""
    for start in range(0, horizon, NOISE_BLOCK):
        count = min(NOISE_BLOCK, horizon - start)
        yield from act.added(np.stack([policy.draw_noise(rng, count) for rng in generators], axis=1))
