"""MuJoCo members in lockstep: one MjData each, one batched call for observation and reward."""

from __future__ import annotations

import copy
import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from quell.tasks.base import Array, MujocoTask


class MujocoSimulator:
    """Steps up to `members` episodes of a MujocoTask.

    Two state buffers alternate as "before" and "after", each filled by one concatenate per field, because a
    Python-level copy per member and field would cost as much as the policy itself.
    """

    def __init__(self, task: MujocoTask, members: int) -> None:
        self.task = task
        first = task.model()
        self.models = [first] + [copy.copy(first) if task.own_model else first for _ in range(members - 1)]
        self.data = [mujoco.MjData(model) for model in self.models]
        self._controls = [data.ctrl for data in self.data]
        self._advances = [self._advance(model, data) for model, data in zip(self.models, self.data, strict=True)]
        self._views = {field: [getattr(data, field).reshape(-1) for data in self.data] for field in task.fields}
        self._shapes = {field: getattr(self.data[0], field).shape for field in task.fields}
        self._never = np.zeros(members, bool)
        self._count = 0
        self._buffers: tuple[dict[str, Array], dict[str, Array]] = ({}, {})
        self._current = 0
        self._renderer: Any = None

    def _advance(self, model: Any, data: Any) -> Callable[[], None]:
        """One member's environment step, bound once: a lookup per member and step would show in the speed."""
        if type(self.task).advance is MujocoTask.advance:
            return partial(mujoco.mj_step, model, data, self.task.frame_skip)
        return partial(self.task.advance, model, data)

    def reset(self, generators: Sequence[np.random.Generator]) -> Array:
        count = len(generators)
        if count != self._count:
            self._count = count
            self._buffers = tuple(  # type: ignore[assignment]
                {field: np.empty((count, *shape)) for field, shape in self._shapes.items()} for _ in range(2)
            )
        for model, data, rng in zip(self.models, self.data, generators, strict=False):
            mujoco.mj_resetData(model, data)
            self.task.reset(model, data, rng)
            self.task.forward(model, data)
        return self.task.observe(np, self._read())

    def step(self, actions: Array, active: NDArray[np.bool_]) -> tuple[Array, Array, Array]:
        before = self._buffers[self._current]
        rows = zip(self._advances, self._controls, actions.astype(np.float64), active.tolist(), strict=False)
        for advance, control, action, running in rows:
            if running:
                control[:] = action
                advance()
        after = self._read()
        never = self._never[: self._count]
        ended = self.task.terminated(np, after) if self.task.can_terminate else never
        return self.task.observe(np, after), self.task.reward(np, before, actions, after, ended), ended

    @cached_property
    def bounds(self) -> tuple[Array, Array]:
        """(lowest, highest) control of every actuator, infinite where the model sets no limit."""
        model = self.models[0]
        limited = model.actuator_ctrllimited.astype(bool)
        low, high = model.actuator_ctrlrange.astype(np.float32).T
        return np.where(limited, low, -np.inf), np.where(limited, high, np.inf)

    @property
    def steps_per_second(self) -> float:
        """Environment steps in a second of simulated time."""
        return 1 / (self.models[0].opt.timestep * self.task.frame_skip)

    def picture(self, width: int, height: int) -> NDArray[np.uint8]:
        """What the first member looks like now, seen by a camera that follows it."""
        if self._renderer is None:
            self._renderer = mujoco.Renderer(self.models[0], height, width)
            self._camera = mujoco.MjvCamera()
            mujoco.mjv_defaultFreeCamera(self.models[0], self._camera)
            if self.models[0].nbody > 1:
                self._camera.type, self._camera.trackbodyid = mujoco.mjtCamera.mjCAMERA_TRACKING, 1
        self._renderer.update_scene(self.data[0], self._camera)
        return self._renderer.render()

    def _read(self) -> dict[str, Array]:
        self._current = 1 - self._current
        state = self._buffers[self._current]
        for field, views in self._views.items():
            np.concatenate(views[: self._count], out=state[field].reshape(-1))
        return state


def load_model(source: str, *, assets: dict[str, bytes] | None = None) -> Any:
    """Compile MJCF from a path or an XML string, without the stages that its physics has no use for.

    MuJoCo reports deprecated attributes of other people's models by appending to a log file in the working
    directory; nobody running a task can act on those, so they are dropped while the model compiles.
    """
    previous = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda message: None)
    try:
        if source.lstrip().startswith("<"):
            model = mujoco.MjModel.from_xml_string(source, assets)
        else:
            model = mujoco.MjModel.from_xml_path(source, assets)
    finally:
        mujoco.set_mju_user_warning(previous)
    model.opt.disableflags |= _idle_stages(model)
    return model


def _idle_stages(model: Any) -> int:
    """Flags of the stages that cannot change a state of this model, to the last bit, and still take time.

    Bodies that hang together are one island wherever they touch; looking for more takes up to a tenth of a step. Where
    no two shapes may touch, looking for contacts takes up to a quarter.
    """
    flags = 0
    if model.ntree == 1:
        flags |= int(mujoco.mjtDisableBit.mjDSBL_ISLAND)
    may_touch = model.geom_contype[:, None] & model.geom_conaffinity
    if not may_touch.any() and model.npair == 0:
        flags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
    return flags


@contextmanager
def without_clock() -> Iterator[None]:
    """Keep MuJoCo from timing every stage of every step, for all of this process.

    Its Python package installs a clock for the profiler of its viewer, and reading it takes up to a third of a
    step of a small model. The package cannot remove it (its `set_mjcb_time(None)` puts it back), so this clears the
    library's public variable `mjcb_time`; where that is not found, steps are as slow as before.
    """
    try:
        library = next(Path(mujoco.__file__).parent.glob("*mujoco.*"))
        clock = ctypes.c_void_p.in_dll(ctypes.CDLL(str(library)), "mjcb_time")
    except (StopIteration, OSError, ValueError):
        yield
        return
    previous, clock.value = clock.value, None
    try:
        yield
    finally:
        clock.value = previous
