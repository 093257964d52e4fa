"""Tasks whose physics is array functions too, and their simulator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quell.tasks.base import Array, Draws, State, Task


class ArrayTask(Task):
    """A task that is all arrays: s_0, o_0 = initial(draws), then s_t+1, o_t+1, r_t = step(s_t, a_t).

    Episodes last for the whole horizon. `initial` and `step` take an array namespace `xp` (numpy or jax.numpy). A
    member's rows must not depend on the others', to the last bit.
    """

    action_limit: float | None = None
    """Actions count between minus this and this; None means all of them."""

    def draw(self, rng: np.random.Generator) -> Draws:
        """All that is random in one episode."""
        raise NotImplementedError

    def initial(self, xp: Any, draws: Draws) -> tuple[dict[str, Any], Any]:
        """(state, observations [m, obs_size]) at the start; the draws of m episodes are stacked, [m, ...] each."""
        raise NotImplementedError

    def step(self, xp: Any, state: State, action: Any) -> tuple[dict[str, Any], Any, Any]:
        """(state, observations [m, obs_size], rewards [m]) after the actions [m, action_size]."""
        raise NotImplementedError

    def simulator(self, members: int) -> ArraySimulator:
        return ArraySimulator(self)


class ArraySimulator:
    """Steps any number of episodes of an ArrayTask at once."""

    def __init__(self, task: ArrayTask) -> None:
        self.task = task
        self.bounds: tuple[Array, Array] | None = None
        if task.action_limit is not None:
            highest = np.full(task.action_size, task.action_limit, np.float32)
            self.bounds = (-highest, highest)

    def reset(self, generators: Sequence[np.random.Generator]) -> Array:
        draws = zip(*map(self.task.draw, generators), strict=True)
        self.state, observation = self.task.initial(np, tuple(map(np.stack, draws)))
        self._never = np.zeros(len(generators), bool)
        return observation

    def step(self, actions: Array, active: NDArray[np.bool_]) -> tuple[Array, Array, Array]:
        self.state, observation, reward = self.task.step(np, self.state, actions.astype(np.float64))
        return observation, reward, self._never
