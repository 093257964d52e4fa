"""Episodes of several members in lockstep, in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quell.keys import Purpose, generator
from quell.perturb import Directions
from quell.policy import Policy
from quell.tasks.base import PaysLater, Simulator, Task
from quell.tasks.foreign import ForeignTask, episode_seed
from quell.types import Episodes

Array = NDArray[Any]
GROUP_BYTES = 64 << 20  # parameters of the members that step together; more would only strain the caches
NOISE_BLOCK = 64  # steps whose action noise is drawn at once
GROUP_MEMBERS = 128  # beyond this, batching gains nothing and simulators cost memory


@dataclass(frozen=True)
class Setting:
    """Everything about a run that a simulating process needs to know once."""

    task: Task
    policy: Policy
    directions: Directions

    @property
    def group(self) -> int:
        """How many members may step together."""
        return max(1, min(GROUP_MEMBERS, GROUP_BYTES // (4 * self.policy.dim)))


@dataclass(frozen=True)
class Results:
    """Where results go: arrays over all members of the request (see Rollouts for the meaning)."""

    obs: Array
    actions: Array
    rewards: Array
    steps: Array
    terminated: Array
    obs_sums: Array


class LocalSimulator:
    """Runs chosen members of a request and writes their rows of the results."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self._simulator: Simulator | None = None
        self._size = 0

    def run(
        self,
        theta: Array,
        episodes: Episodes,
        indices: Sequence[int],
        normaliser: tuple[Array, Array] | None,
        results: Results,
    ) -> None:
        for start in range(0, len(indices), self.setting.group):
            group = indices[start : start + self.setting.group]
            if self._simulator is None or self._size < len(group):
                self._simulator, self._size = self.setting.task.simulator(len(group)), len(group)
            _run_group(self.setting, self._simulator, theta, episodes, group, normaliser, results)


def member_theta(setting: Setting, theta: Array, episodes: Episodes, pair: int, sign: int) -> Array:
    """theta + sigma * eps of one member."""
    if sign == 0 or episodes.sigma == 0:
        return theta
    eps = setting.directions.member(episodes.iteration, pair, sign)
    return theta + np.float32(episodes.sigma) * eps


def _generators(seed: int, episodes: Episodes, pair: int, sign: int) -> tuple[np.random.Generator, np.random.Generator]:
    """(environment, action noise) of one member."""
    key = (episodes.iteration, pair)
    if episodes.evaluation:
        return generator(seed, Purpose.EVAL_ENVIRONMENT, *key), generator(seed, Purpose.EVAL_ACTION, *key)
    mark = int(sign < 0)
    environment = key if episodes.shared_reset else (*key, mark)
    noise = 0 if episodes.shared_noise else mark
    return generator(seed, Purpose.ENVIRONMENT, *environment), generator(seed, Purpose.ACTION, *key, noise)


def describe_members(setting: Setting, episodes: Episodes, indices: Sequence[int]) -> str:
    """Which episodes these are, in words, with what it takes to replay one."""
    members = [episodes.members[i] for i in indices]
    names = ", ".join(f"{pair}{'+' if sign > 0 else '-' if sign < 0 else ''}" for pair, sign in members)
    kind = "evaluation episodes" if episodes.evaluation else "pairs"
    text = f"running {kind} {names} of iteration {episodes.iteration}, seed {setting.directions.seed}"
    if isinstance(setting.task, ForeignTask):
        draws = [_generators(setting.directions.seed, episodes, *member)[0] for member in members]
        seeds = [episode_seed(rng) for rng in draws]
        text += f"; episode seeds {', '.join(map(str, seeds))}; to replay the first: {setting.task.replay(seeds[0])}"
    return text


def _run_group(
    setting: Setting,
    simulator: Simulator,
    theta: Array,
    episodes: Episodes,
    group: Sequence[int],
    normaliser: tuple[Array, Array] | None,
    results: Results,
) -> None:
    policy, horizon = setting.policy, setting.task.horizon
    members = [episodes.members[i] for i in group]
    thetas = np.stack([member_theta(setting, theta, episodes, *member) for member in members])
    act = policy.actor(thetas, mean_action=episodes.mean_action)
    environment, action_noise = zip(*(_generators(setting.directions.seed, episodes, *m) for m in members), strict=True)
    drawn = policy.stochastic and not episodes.mean_action
    noise = _noise(policy, action_noise, horizon) if drawn else repeat(np.zeros((1, 1), np.float32))

    count = len(group)
    raw = np.empty((horizon, count, policy.obs_size))
    actions = np.empty((horizon, count, policy.recorded_size), np.float32)
    rewards = np.empty((horizon, count))
    active = np.ones(count, bool)
    steps = np.full(count, horizon)
    terminated = np.zeros(count, bool)

    bounded = policy.to_environment(getattr(simulator, "bounds", None))
    late = simulator if isinstance(simulator, PaysLater) else None
    obs = simulator.reset(environment)
    t = 0
    # A wild member's numbers may overflow or turn NaN: that is data (counted by the trainer), not a warning.
    with np.errstate(all="ignore"):
        for t, noise_now in zip(range(horizon), noise, strict=False):
            raw[t] = obs
            action = act(_as_seen(obs, normaliser), noise_now)
            actions[t] = action
            if bounded:
                action = bounded(action)
            if late:
                obs, ended = late.advance(action, active)
            else:
                obs, rewards[t], ended = simulator.step(action, active)
            if not setting.task.can_terminate:
                continue
            cut = getattr(simulator, "truncated", None)  # some environments end an episode without terminating it
            over = ended if cut is None else ended | cut
            if over.any():
                steps[over & active] = t + 1
                terminated |= ended & active
                active &= ~over
                if not active.any():
                    break
        if late:
            rewards[: t + 1] = late.rewards()
    _store(results, group, t + 1, raw, actions, rewards, steps, terminated, normaliser, episodes.record)


def _noise(policy: Policy, generators: Sequence[np.random.Generator], horizon: int) -> Iterator[Array]:
    """Action noise of all members [m, a], step by step; drawn in blocks, because many episodes end early."""
    for start in range(0, horizon, NOISE_BLOCK):
        count = min(NOISE_BLOCK, horizon - start)
        yield from np.stack([policy.draw_noise(rng, count) for rng in generators], axis=1)


def _as_seen(obs: Array, normaliser: tuple[Array, Array] | None) -> Array:
    """Observations as the policy sees them: float32, normalised if it normalises."""
    seen = obs.astype(np.float32)
    return seen if normaliser is None else (seen - normaliser[0]) * normaliser[1]


def _store(
    results: Results,
    group: Sequence[int],
    length: int,
    raw: Array,
    actions: Array,
    rewards: Array,
    steps: Array,
    terminated: Array,
    normaliser: tuple[Array, Array] | None,
    record: bool,
) -> None:
    """Copy the group's episodes, cut at their real length and zero-padded, into the shared results."""
    sound = np.isfinite(actions[:length]).all()
    with np.errstate(all="ignore"):
        for j, row in enumerate(group):
            end = min(int(steps[j]), length)
            seen = raw[:end, j]
            results.steps[row], results.terminated[row] = end, terminated[j]
            results.rewards[row, :end], results.rewards[row, end:] = rewards[:end, j], 0.0
            if not sound and not np.isfinite(actions[:end, j]).all():
                results.rewards[row, :end] = np.nan  # an engine may take such an action for 0; its return means nothing
            results.obs_sums[row] = seen.sum(axis=0), np.square(seen).sum(axis=0)
            if record:
                results.obs[row, :end] = _as_seen(seen, normaliser)
                results.obs[row, end:] = 0.0
                results.actions[row, :end], results.actions[row, end:] = actions[:end, j], 0.0
