"""Tasks whose physics is array functions too, and their simulator."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from quell.errors import UsageError
from quell.tasks.base import Array, Draws, State, Task

PAPER, INK, BLUE, ORANGE = (250, 250, 247), (70, 78, 84), (0, 114, 178), (213, 94, 0)


class Shape(NamedTuple):
    """A rectangle or ellipse of a picture, by its centre and half its size."""

    x: float
    y: float
    width: float
    height: float
    colour: tuple[int, int, int] = INK
    round: bool = False


class ArrayTask(Task):
    """A task that is all arrays: s_0, o_0 = initial(draws), then s_t+1, o_t+1, r_t = step(s_t, a_t).

    Episodes last for the whole horizon. `initial` and `step` take an array namespace `xp` (numpy or jax.numpy). A
    member's rows must not depend on the others', to the last bit.
    """

    action_limit: float | None = None  # actions count between minus this and this; None means all of them
    view: tuple[float, float] = (1.0, 1.0)  # what a picture shows: from minus these to these, to the right and upwards
    steps_per_second: float = 25.0  # of a film

    def draw(self, rng: np.random.Generator) -> Draws:
        """All that is random in one episode."""
        raise NotImplementedError

    def initial(self, xp: Any, draws: Draws) -> tuple[dict[str, Any], Any]:
        """(state, observations [m, obs_size]) at the start; the draws of m episodes are stacked, [m, ...] each."""
        raise NotImplementedError

    def step(self, xp: Any, state: State, action: Any) -> tuple[dict[str, Any], Any, Any]:
        """(state, observations [m, obs_size], rewards [m]) after the actions [m, action_size]."""
        raise NotImplementedError

    def scene(self, state: State) -> list[Shape]:
        """The first member as a picture, back to front; empty if there is none."""
        return []

    def simulator(self, members: int) -> "ArraySimulator":
        return ArraySimulator(self)


class ArraySimulator:
    """Steps any number of episodes of an ArrayTask at once."""

    def __init__(self, task: ArrayTask) -> None:
        self.task, self.steps_per_second = task, task.steps_per_second
        self.bounds: tuple[Array, Array] | None = None
        if task.action_limit is not None:
            highest = np.full(task.action_size, task.action_limit, np.float32)
            self.bounds = (-highest, highest)

    def reset(self, generators: Sequence[np.random.Generator]) -> Array:
        draws = zip(*map(self.task.draw, generators), strict=True)
        self.state, observation = self.task.initial(np, tuple(map(np.stack, draws)))
        self._never = np.zeros(len(generators), bool)
        return observation

    def step(self, actions: Array, active: Array) -> tuple[Array, Array, Array]:
        self.state, observation, reward = self.task.step(np, self.state, actions.astype(np.float64))
        return observation, reward, self._never

    def picture(self, width: int, height: int) -> Array:
        """What the first member looks like now."""
        shapes = self.task.scene(self.state)
        if not shapes:
            raise UsageError(f"task {self.task.name!r} has nothing to show: it has no pictures")
        scale = min(width / self.task.view[0], height / self.task.view[1]) / 2
        across = (np.arange(width) + 0.5 - width / 2) / scale
        up = (height / 2 - 0.5 - np.arange(height))[:, None] / scale
        image = np.full((height, width, 3), PAPER, np.uint8)
        for x, y, half, half_up, colour, round_ in shapes:
            right, above = np.abs(across - x) / half, np.abs(up - y) / half_up
            image[right**2 + above**2 <= 1 if round_ else np.maximum(right, above) <= 1] = colour
        return image
