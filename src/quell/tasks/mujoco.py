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

HISTORY_STEPS = 64  # whose rewards are computed at once, unless
HISTORY_BYTES = 256 << 10  # their states would crowd the physics out of the cache


class MujocoSimulator:
    """Steps up to `members` episodes of a MujocoTask.

    Rewards are computed for many steps at once (see `PaysLater`), from a history of states. One concatenate per field
    writes it, because a Python-level copy per member and field would cost as much as the policy itself.
    """

    def __init__(self, task: MujocoTask, members: int) -> None:
        self.task = task
        first = task.model()
        self.models = [first] + [copy.copy(first) if task.own_model else first for _ in range(members - 1)]
        self.data = [mujoco.MjData(model) for model in self.models]
        self._controls = [data.ctrl for data in self.data]
        self._advances = [self._advance(model, data) for model, data in zip(self.models, self.data, strict=True)]
        self._views = {field: [getattr(data, field).reshape(-1) for data in self.data] for field in task.fields}
        self._count = 0
        self._renderer: Any = None

    def _advance(self, model: Any, data: Any) -> Callable[[], None]:
        """One member's environment step, bound once: a lookup per member and step would show in the speed."""
        if type(self.task).advance is MujocoTask.advance:
            return partial(mujoco.mj_step, model, data, self.task.frame_skip)
        return partial(self.task.advance, model, data)

    def reset(self, generators: Sequence[np.random.Generator]) -> Array:
        if len(generators) != self._count:
            self._make_history(len(generators))
        for model, data, rng in zip(self.models, self.data, generators, strict=False):
            mujoco.mj_resetData(model, data)
            self.task.reset(model, data, rng)
            self.task.forward(model, data)
        self._steps = 0
        self._actions: list[Array] = []
        self._computed: list[Array] = []
        return self.task.observe(np, self._read())

    def step(self, actions: Array, active: NDArray[np.bool_]) -> tuple[Array, Array, Array]:
        obs, ended = self.advance(actions, active)
        return obs, self.rewards()[-1], ended

    def advance(self, actions: Array, active: NDArray[np.bool_]) -> tuple[Array, Array]:
        if self._steps == len(self._ended):
            self._compute_rewards()
        rows = zip(self._advances, self._controls, actions.astype(np.float64), active.tolist(), strict=False)
        for advance, control, action, running in rows:
            if running:
                control[:] = action
                advance()
        ended = self._ended[self._steps]
        self._actions.append(actions)
        self._steps += 1
        state = self._read()
        if self.task.can_terminate:
            ended[:] = self.task.terminated(np, state)
        return self.task.observe(np, state), ended

    def rewards(self) -> Array:
        self._compute_rewards()
        computed, self._computed = self._computed, []
        return np.concatenate(computed)

    def _make_history(self, count: int) -> None:
        """Room for the states and ends of `count` members."""
        self._count = count
        views = {field: views[:count] for field, views in self._views.items()}
        size = count * sum(view.nbytes for view, *_ in views.values())
        steps = max(1, min(HISTORY_STEPS, HISTORY_BYTES // size))
        shapes = {field: getattr(self.data[0], field).shape for field in views}
        self._history = {field: np.empty((steps + 1, count, *shape)) for field, shape in shapes.items()}
        self._states = [{field: past[k] for field, past in self._history.items()} for k in range(steps + 1)]
        self._sources = [[(views[f], part.reshape(-1)) for f, part in state.items()] for state in self._states]
        self._ended = np.zeros((steps, count), bool)

    def _read(self) -> dict[str, Array]:
        """The state now, written into its place in the history."""
        for views, place in self._sources[self._steps]:
            np.concatenate(views, out=place)
        return self._states[self._steps]

    def _compute_rewards(self) -> None:
        """Rewards of all steps in the history, of which only the last state remains."""
        steps, self._steps = self._steps, 0
        if not steps:
            return
        before = {field: _rows(past[:steps]) for field, past in self._history.items()}
        after = {field: _rows(past[1 : steps + 1]) for field, past in self._history.items()}
        rewards = self.task.reward(np, before, np.concatenate(self._actions), after, self._ended[:steps].reshape(-1))
        self._computed.append(np.reshape(rewards, (steps, self._count)))
        self._actions.clear()
        for past in self._history.values():
            past[0] = past[steps]

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


def _rows(past: Array) -> Array:
    """Steps and members on one axis, as the functions of a task take them."""
    return past.reshape(-1, *past.shape[2:])


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
    model.opt.disableflags |= idle_stages(model)
    return model


def idle_stages(model: Any) -> int:
    """Flags of the stages that cannot change a state of this model, to the last bit, and still take time.

    Bodies that hang together are one island wherever they touch; looking for more takes up to a tenth of a step. Where
    no two shapes may touch, looking for contacts takes up to a quarter.
    """
    flags = 0
    if model.ntree == 1:
        flags |= int(getattr(mujoco.mjtDisableBit, "mjDSBL_ISLAND", 0))  # older versions look for islands when asked
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
