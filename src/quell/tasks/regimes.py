"""Any task under other conditions: later rewards, faster or slower control, fewer or noisier observations.

    delay        r_t is 0 but on every K-th step, which pays the sum of the last K; or on the episode's last step alone
    frame_skip   physics steps in an environment step; the horizon and what a step pays follow, so that an episode
                 lasts as long in seconds, and a second earns as much
    hide         observations that the policy does not see
    obs_noise    standard deviation of what is added to each one that it does see

What an episode returns is the plain sum of its rewards in each of them, so a delay changes no return. The noise comes
from the member's own generator, after what the task draws: it is the same for any number of workers, and for both
members of a pair that share their reset.
"""

import copy
import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from quell.errors import UsageError
from quell.registry import COUNT
from quell.tasks.base import Array, MujocoTask, PaysLater, Task

BLOCK = 64  # steps whose noise is drawn at once
NEVER = np.iinfo(np.int64).max
FACTS = ("name", "summary", "engine", "extra", "action_size", "discrete", "can_terminate", "first_length", "horizon")


@dataclass(frozen=True, kw_only=True)
class Regime(Task):
    """A task whose rewards come later, or whose observations are hidden or noisy."""

    inner: Task
    delay: Annotated[int, COUNT] = 1
    hide: tuple[int, ...] = ()
    obs_noise: Annotated[float, COUNT] = 0.0

    def __post_init__(self) -> None:
        size, hidden = self.inner.obs_size, sorted(set(self.hide))
        if hidden and (min(hidden) < 0 or max(hidden) >= size or len(hidden) == size):
            raise UsageError(
                f"`hide={list(self.hide)}` must leave some of {self.inner.name}'s observations, 0 to {size - 1}"
            )
        vars(self).update({name: getattr(self.inner, name) for name in FACTS}, obs_size=size - len(hidden))

    @functools.cached_property
    def seen(self) -> Array:
        """Places of the observations that are not hidden."""
        return np.setdiff1d(np.arange(self.inner.obs_size), self.hide)

    @property
    def bare(self) -> Task:
        return self.inner

    @property
    def original(self) -> str | None:
        return None

    def simulator(self, members: int) -> "RegimeSimulator":
        return RegimeSimulator(self, members)

    def filmed(self) -> Task:
        return replace(self, inner=self.inner.filmed())

    @property
    def bounds(self) -> tuple[Array, Array] | None:
        return self.inner.bounds

    def rows(self, obs: Any) -> tuple[Array, bool]:
        rows, single = self.inner.rows(obs)
        return rows[:, self.seen], single

    def as_given(self, actions: Array) -> Array:
        return self.inner.as_given(actions)

    def notes(self) -> list[str]:
        return self.inner.notes()


class RegimeSimulator:
    """The inner task's simulator, with what it observes and pays as the regime has it; all else is the inner's."""

    def __init__(self, task: Regime, members: int) -> None:
        self._task, self._inner = task, task.inner.simulator(members)
        self._late = self._inner if isinstance(self._inner, PaysLater) else None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._inner, name)

    def reset(self, generators: Sequence[np.random.Generator]) -> Array:
        observation = self._inner.reset(generators)
        self._generators = generators
        self._steps, self._paid = 0, 0  # done, and of those that `rewards` has returned
        self._ends = np.full(len(generators), NEVER)  # each member's last step
        self._owed, self._own = np.zeros(len(generators)), list[Array]()
        return self._observed(observation)

    def step(self, actions: Array, active: Array) -> tuple[Array, Array, Array]:
        observation, ended = self.advance(actions, active)
        return observation, self._pay(over=self._steps >= self._task.horizon)[-1], ended

    def advance(self, actions: Array, active: Array) -> tuple[Array, Array]:
        if self._late:
            observation, ended = self._late.advance(actions, active)
        else:
            observation, reward, ended = self._inner.step(actions, active)
            self._own.append(np.array(reward, np.float64))
        over = np.asarray(ended | getattr(self._inner, "truncated", False)) & active
        self._ends[over & (self._ends == NEVER)] = self._steps
        self._steps += 1
        return self._observed(observation), ended

    def rewards(self) -> Array:
        """What is owed is paid on the last of these steps: none is read before the episodes are over."""
        return self._pay(over=True)

    def _pay(self, *, over: bool) -> Array:
        if self._late:
            rewards = self._late.rewards()
        else:
            rewards, self._own = np.array(self._own), []
        first, self._paid = self._paid, self._steps
        return rewards if self._task.delay == 1 else self._delayed(rewards, np.arange(first, self._steps), over)

    def _delayed(self, rewards: Array, steps: Array, over: bool) -> Array:
        """[n, k]: every sum on the step where it is due."""
        delay, paid = self._task.delay, np.zeros_like(rewards)
        regular = (steps + 1) % delay == 0 if delay else np.zeros(len(steps), bool)
        regular[-1] |= over
        for member, end in enumerate(self._ends):
            due = np.flatnonzero(regular | (steps == end))
            behind = due[-1] + 1 if len(due) else 0
            if len(due):
                starts = np.concatenate([[0], due[:-1] + 1])
                paid[due, member] = np.add.reduceat(rewards[:behind, member], starts)
                paid[due[0], member] += self._owed[member]
                self._owed[member] = 0.0
            self._owed[member] += rewards[behind:, member].sum()
        return paid

    def _observed(self, observation: Array) -> Array:
        task = self._task
        if task.hide:
            observation = observation[:, task.seen]
        if not task.obs_noise:
            return observation
        if self._steps % BLOCK == 0:
            shape = (BLOCK, task.obs_size)
            self._noise = np.stack([rng.standard_normal(shape) for rng in self._generators], axis=1)
        return np.asarray(observation + task.obs_noise * self._noise[self._steps % BLOCK])


def in_regime(
    task: Task,
    *,
    delay: int = 1,
    frame_skip: int = 0,
    hide: Sequence[int] = (),
    obs_noise: float = 0,
    horizon: int | None = None,
) -> Task:
    """The task under these conditions; the task itself where they are its own. A horizon that was asked for stays."""
    task = task.bare
    if frame_skip:
        task = paced(task, frame_skip, stays=horizon is not None)
    if delay == 1 and not hide and not obs_noise:
        return task
    return Regime(inner=task, delay=delay, hide=tuple(hide), obs_noise=obs_noise)


def paced(task: Task, frame_skip: int, *, stays: bool = False) -> Task:
    """A MuJoCo task that acts every so many physics steps; its horizon follows, unless it `stays`."""
    if not isinstance(task, MujocoTask):
        raise UsageError(f"`frame_skip={frame_skip}` is not read by {task.name}: it counts MuJoCo's steps")
    pace, fast = frame_skip / type(task).frame_skip, copy.copy(task)
    times = task.pace / pace
    vars(fast).update(frame_skip=frame_skip, pace=pace, first_length=max(1, round(task.first_length * times)))
    vars(fast).update(horizon=task.horizon if stays else max(1, round(task.horizon * times)))
    return fast
