"""Worlds: tasks as pure functions of JAX arrays, all members at once.

A world is what a task is on an accelerator: no objects that remember, no Python per member. The engine calls `reset`
and `step` inside one compiled program, never inside a `vmap` of its own: a world has the members on the leading axis
of every array, so that whatever maps over them (MJX with Warp allows one level) is the world's business.
"""

from typing import Any, Protocol

from quell.errors import UsageError
from quell.tasks.arrays import ArrayTask
from quell.tasks.base import MujocoTask, Task
from quell.tasks.foreign.accelerated import AcceleratedTask
from quell.tasks.regimes import Regime
from quell.types import Array


class World(Protocol):
    """Episodes of one task, as functions of arrays."""

    obs_size: int
    action_size: int
    horizon: int
    can_terminate: bool
    bounds: tuple[Array, Array] | None
    """(lowest, highest) actions, where there are bounds."""

    def reset(self, keys: Any) -> tuple[Any, Any]:
        """(state, observations [m, obs_size]) of new episodes, given a JAX key each; a state has members in front."""

    def step(self, state: Any, actions: Any, last: Any = False) -> tuple[Any, Any, Any, Any]:
        """(state, observations [m, obs_size], rewards [m], terminated [m] bool) after actions [m, action_size]; `last`
        where all episodes end with this step, because their time is over.

        What becomes of an episode that has ended is nobody's concern; it may not disturb the others.
        """

    def trouble(self, state: Any) -> dict[str, Any]:
        """What went wrong so far, [m] by name: such as whether contacts found no room."""
        return {}


def make_world(task: Task, settings: Any) -> World:
    """The world of a task; a UsageError where there is none."""
    if isinstance(task, MujocoTask):
        from quell.rollout.device.worlds.mjx import MjxWorld

        return MjxWorld(task, settings)
    if isinstance(task, ArrayTask):
        from quell.rollout.device.worlds.arrays import ArrayWorld

        return ArrayWorld(task)
    if isinstance(task, AcceleratedTask):
        from quell.rollout.device.worlds.accelerated import AcceleratedWorld

        return AcceleratedWorld(task)
    if isinstance(task, Regime):
        from quell.rollout.device.worlds.regimes import RegimeWorld

        return RegimeWorld(task, make_world(task.inner, settings))
    raise UsageError(f"task {task.name!r} does not run on `engine=device`: use `engine=cpu`")
