"""What environments that are not ours have in common: facts known only once they are made, and ways to fail."""

import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from quell.errors import EnvironmentFailure, UsageError
from quell.tasks.base import Array, Task
from quell.tasks.foreign.spaces import ActionReader, observation_filler, unstacked


class NoTimeLimit(UsageError):
    """An environment's episodes end where its user says, who has not."""


@dataclass(frozen=True, kw_only=True)
class ForeignTask(Task):
    """A task with the spaces of another library's environment, which workers need not make to find them out."""

    can_terminate = True
    name: str
    horizon: int = 0  # which stands for the environment's own time limit
    time_limit: int | None = field(compare=False, repr=False)
    spaces: tuple[Any, Any] = field(compare=False, repr=False)  # of observations and of actions

    def __post_init__(self) -> None:
        if not self.horizon and not self.time_limit:
            raise NoTimeLimit(f"{self.name} has no time limit: set the length of an episode, e.g. `horizon=1000`")
        reader = ActionReader(self.spaces[1])
        vars(self).update(
            summary=f"{self.name}, as the environment's authors made it",
            horizon=self.horizon or self.time_limit,
            obs_size=observation_filler(self.spaces[0])[0],
            action_size=reader.size,
            discrete=reader.discrete,
            choices=reader.choices,
        )

    @property
    def bounds(self) -> tuple[Array, Array] | None:
        return ActionReader(self.spaces[1]).bounds

    def rows(self, obs: Any) -> tuple[Array, bool]:
        space, fill = self.spaces[0], observation_filler(self.spaces[0])[1]
        try:
            several = unstacked(space, obs)
            rows = np.zeros((1 if several is None else len(several), self.obs_size))
            for row, one in zip(rows, [obs] if several is None else several, strict=True):
                fill(row, one)
        except (ValueError, TypeError, KeyError, IndexError) as error:
            raise UsageError(f"this is no observation of {self.name}, {space}: {error}") from error
        return rows.astype(np.float32), several is None

    def as_given(self, actions: Array) -> Array:
        return ActionReader(self.spaces[1])(actions)

    def replay(self, seed: int) -> str:
        """How to start the episode with this seed again, as code."""
        raise NotImplementedError


def as_pairs(kwargs: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Keywords for the environment as a task holds them."""
    if "max_episode_steps" in kwargs:
        raise UsageError("the length of an episode is the setting `horizon`, not max_episode_steps")
    return tuple(sorted(kwargs.items()))


def episode_seed(rng: np.random.Generator) -> int:
    """The seed an environment is reset with: the first number a member's generator gives."""
    return int(rng.integers(2**31 - 1))


def describe(error: Exception) -> str:
    """What an environment raised, and where: the traceback itself does not leave a worker process."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({place.filename}:{place.lineno} in {place.name})"


class ForeignSimulator:
    """Book-keeping of members whose environments can end, or break, on their own.

    A member whose action is not finite is not stepped: it earns a NaN reward and is truncated.
    """

    def __init__(self, task: ForeignTask) -> None:
        self.task = task
        self._fill = observation_filler(task.spaces[0])[1]
        self._read = ActionReader(task.spaces[1])
        self.bounds = self._read.bounds
        self.truncated: Array = np.zeros(0, bool)

    def _begin(self, generators: Sequence[np.random.Generator]) -> list[int]:
        """Clear the books; returns one seed per episode."""
        count = len(generators)
        self._observations = np.zeros((count, self.task.obs_size))
        self._rewards = np.zeros(count)
        self._terminated = np.zeros(count, bool)
        self.truncated = np.zeros(count, bool)
        self._time = 0
        self._seeds = [episode_seed(rng) for rng in generators]
        return self._seeds

    def _running(self, actions: Array, active: Array) -> tuple[list[int], Array]:
        """Members to step now, and their actions as the environment wants them."""
        self._time += 1
        running = active & ~(self._terminated | self.truncated)
        self._rewards[:] = 0.0
        if np.isnan(actions).any():
            unsound = running & np.isnan(actions).any(axis=1)
            self._rewards[unsound] = np.nan
            self.truncated |= unsound
            running &= ~unsound
        return np.flatnonzero(running).tolist(), self._read(actions[running])

    def _record(self, member: int, observation: Any, reward: Any, terminated: Any, truncated: Any) -> None:
        self._fill(self._observations[member], observation)
        self._rewards[member] = reward.item() if isinstance(reward, np.ndarray) else float(reward)
        self._terminated[member] = bool(terminated)
        self.truncated[member] = bool(truncated) and not terminated

    def _checked(self) -> Array:
        """The observations, once they are known to be numbers."""
        if not np.isfinite(self._observations).all():
            member = int(np.flatnonzero(~np.isfinite(self._observations).all(axis=1))[0])
            values = np.flatnonzero(~np.isfinite(self._observations[member])).tolist()
            raise self._failure(member, f"observation is NaN or infinite at flat positions {values[:8]}")
        return self._observations

    def _failure(self, member: int, what: str | Exception) -> EnvironmentFailure:
        what = describe(what) if isinstance(what, Exception) else what
        seed = self._seeds[member]
        when = f"at step {self._time}" if self._time else "at reset"
        again = self.task.replay(seed) + (f", then the episode's first {self._time} actions" if self._time else "")
        return EnvironmentFailure(f"{self.task.name}, episode seed {seed}, {when}: {what}. To replay it: {again}")
