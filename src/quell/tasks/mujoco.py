"""MuJoCo members in lockstep: one MjData each, one batched call for observation and reward."""

import copy
import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np

from quell.tasks.base import Array, MujocoTask, Terrain

if TYPE_CHECKING:
    from quell.tasks.studio import Studio

HISTORY_STEPS = 256  # whose rewards are computed at once, unless
HISTORY_BYTES = 256 << 10  # their states would crowd the physics out of the cache
FEW = 8  # members whose states are copied one by one; beyond, one call for all of them is faster
NO_SENSORS = int(mujoco.mjtDisableBit.mjDSBL_SENSOR)


class Member:
    """One episode's model and data, with the calls of MuJoCo that the facts of its task ask for."""

    def __init__(self, task: MujocoTask, model: Any, data: Any) -> None:
        self.task, self.model, self.data = task, model, data
        self.terrain: Terrain | None = None
        self.show_unseen(False)
        step: Callable[..., None] = mujoco.mj_step
        if task.in_sync:
            step = step_in_sync_sensing_once if task.sensors_once and task.frame_skip > 1 else step_in_sync
        elif task.contact_forces:
            step = step_with_contact_forces
        self._step = partial(step, model, data, task.frame_skip)  # bound once: a lookup per step would show in speed
        self.advance = self._step if task.unseen_geom is None else self._step_and_look
        """One environment step of physics."""

    def _step_and_look(self) -> None:
        self._step()
        self._look()

    def start(self, rng: np.random.Generator) -> None:
        """Begin a new episode."""
        task, model, data = self.task, self.model, self.data
        mujoco.mj_resetData(model, data)
        draws = task.draw(model, rng)
        self.terrain = task.terrain(draws)
        if self.terrain is not None:
            model.hfield_data[:] = self.terrain.heights.ravel()
        if task.settling_steps:
            mujoco.mj_forward(model, data)  # dm_control's first step still uses what follows from the default pose
        data.qpos[:], data.qvel[:] = task.initial(np, model, draws)
        if task.settling_steps:
            step_in_sync(model, data, task.settling_steps)
            data.time = 0
        if task.raise_until_free:
            raise_until_free(model, data, task.raise_until_free)
        self.forward()

    def forward(self) -> None:
        """Everything that follows from a freshly set state."""
        mujoco.mj_forward(self.model, self.data)
        self._look()

    def _look(self) -> None:
        if self.terrain is not None:
            self.task.look(self.terrain, self.data.site_xpos, self.data.site_xmat, self.data.sensordata)

    def show_unseen(self, shown: bool) -> None:
        """Range finders look through what is transparent; a picture must not."""
        if self.task.unseen_geom is not None:
            self.model.geom_rgba[self.task.unseen_geom, 3] = float(shown)


def step_with_contact_forces(model: Any, data: Any, count: int) -> None:
    """`count` steps, then cfrc_ext of the last one."""
    mujoco.mj_step(model, data, count)
    mujoco.mj_rnePostConstraint(model, data)


def step_in_sync(model: Any, data: Any, count: int) -> None:
    """`count` Euler steps that leave the bodies' positions, velocities and sensors at the *final* state.

    A plain mj_step leaves them one step behind qpos. Finishing the step begun earlier and then beginning the
    next costs nothing extra. What needs an acceleration (forces, touch) still belongs to the last full step.
    """
    mujoco.mj_step2(model, data)
    if count > 1:
        mujoco.mj_step(model, data, count - 1)
    mujoco.mj_step1(model, data)


def step_in_sync_sensing_once(model: Any, data: Any, count: int) -> None:
    """`step_in_sync` of two steps or more, to the same result, for sensors that outweigh the physics."""
    flags = model.opt.disableflags
    model.opt.disableflags = flags | NO_SENSORS
    step_in_sync(model, data, count - 1)
    model.opt.disableflags = flags
    step_in_sync(model, data, 1)


def raise_until_free(model: Any, data: Any, climb: float) -> None:
    """Lift a free body from height 0, `climb` metres at a time, until nothing touches."""
    height = 0.0
    while True:
        data.qpos[2] = height
        mujoco.mj_kinematics(model, data)
        mujoco.mj_collision(model, data)
        if data.ncon == 0:
            return
        height += climb


class MujocoSimulator:
    """Steps up to `members` episodes of a MujocoTask.

    Rewards are computed for many steps at once (see `PaysLater`), from a history of states. Of many members, one
    concatenate per field writes it, because a Python-level copy per member and field would cost as much as the policy.
    """

    def __init__(self, task: MujocoTask, members: int) -> None:
        self.task = task
        first = task.model()
        self.models = [first] + [copy.copy(first) if task.own_model else first for _ in range(members - 1)]
        self.members = [Member(task, model, mujoco.MjData(model)) for model in self.models]
        self.data = [member.data for member in self.members]
        self._controls = [data.ctrl for data in self.data]
        self._advances = [member.advance for member in self.members]
        self._views = {field: [getattr(data, field).reshape(-1) for data in self.data] for field in task.fields}
        self._observe, self._can_terminate = task.observe, task.can_terminate
        self._count = 0
        self.steps_per_second = 1 / (first.opt.timestep * task.frame_skip)

    def reset(self, generators: Sequence[np.random.Generator]) -> Array:
        if len(generators) != self._count:
            self._make_history(len(generators))
        for member, rng in zip(self.members, generators, strict=False):
            member.start(rng)
        self._steps = 0
        self._actions: list[Array] = []
        self._computed: list[Array] = []
        return self.task.observe(np, self._read())

    def step(self, actions: Array, active: Array) -> tuple[Array, Array, Array]:
        obs, ended = self.advance(actions, active)
        return obs, self.rewards()[-1], ended

    def advance(self, actions: Array, active: Array) -> tuple[Array, Array]:
        if self._steps == len(self._ended):
            self._compute_rewards()
        if self._count == 1:  # alone a member is always running; what goes on around its physics shows in speed
            self._controls[0][:] = actions
            self._advances[0]()
        else:
            rows = zip(self._advances, self._controls, actions, active.tolist(), strict=False)
            for advance, control, action, running in rows:
                if running:
                    control[:] = action
                    advance()
        ended = self._ended[self._steps]
        self._actions.append(actions)
        self._steps += 1
        state = self._read()
        if self._can_terminate:
            ended[:] = self.task.terminated(np, state)
        return self._observe(np, state), ended

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
        self._singles = [
            [(part[k].reshape(-1), views[f][k]) for f, part in state.items() for k in range(count)]
            for state in (self._states if count <= FEW else [])
        ]
        self._ended = np.zeros((steps, count), bool)

    def _read(self) -> dict[str, Array]:
        """The state now, written into its place in the history."""
        if self._singles:
            for place, view in self._singles[self._steps]:
                place[:] = view
        else:
            for views, place in self._sources[self._steps]:
                np.concatenate(views, out=place)
        return self._states[self._steps]

    def _compute_rewards(self) -> None:
        """Rewards of all steps in the history, of which only the last state remains."""
        steps, self._steps = self._steps, 0
        if not steps:
            return
        shapes = {field: (-1, *past.shape[2:]) for field, past in self._history.items()}  # steps and members: one axis
        before = {field: self._history[field][:steps].reshape(shape) for field, shape in shapes.items()}
        after = {field: self._history[field][1 : steps + 1].reshape(shape) for field, shape in shapes.items()}
        rewards = self.task.reward(np, before, np.concatenate(self._actions), after, self._ended[:steps].reshape(-1))
        rewards = rewards if self.task.pace == 1 else self.task.pace * rewards
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

    def pose(self) -> Array:
        """What `pictures` needs to draw the first member as it is now."""
        return self.data[0].qpos.copy()

    @contextmanager
    def studio(self, poses: Sequence[Array], width: int, height: int) -> Iterator["Studio"]:
        """What draws the first member in the poses of one episode, step by step."""
        from quell.tasks.studio import Studio

        self.members[0].show_unseen(True)
        studio = Studio(self.models[0], poses, 1 / self.steps_per_second, width, height)
        self.members[0].show_unseen(False)
        with studio.renderer:
            yield studio

    def pictures(self, poses: Sequence[Array], per_second: float, width: int, height: int) -> Iterator[Array]:
        """The first member in these poses, seen by a camera that suits them all."""
        with self.studio(poses, width, height) as studio:
            yield from studio.pictures(per_second)


def load_model(source: str, *, assets: dict[str, bytes] | None = None) -> Any:
    """Compile MJCF from a path or an XML string, without the stages that its physics has no use for.

    MuJoCo reports deprecated attributes of other people's models by appending to a log file in the working
    directory; a user cannot act on those, so they are dropped while the model compiles.
    """
    previous = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda message: None)
    try:
        is_text = source.lstrip().startswith("<")
        model = (mujoco.MjModel.from_xml_string if is_text else mujoco.MjModel.from_xml_path)(source, assets)
    finally:
        mujoco.set_mju_user_warning(previous)
    model.opt.disableflags |= idle_stages(model)
    # Some models ask for the energy at every step; nothing reads it, and it does not touch the dynamics.
    model.opt.enableflags &= ~int(mujoco.mjtEnableBit.mjENBL_ENERGY)
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
