"""MuJoCo's models on MJX, with the observations, rewards and ends of the CPU engine's tasks.

`impl` jax runs anywhere, warp (MuJoCo Warp) on CUDA and, slowly, on CPUs. With jax the solver has 4 iterations and its
line search 8, of up to 100 and 50 that a model asks for: they cannot be left early for those members that are done, so
they would all be taken. Warp stops early, and has the model's own.

What a C step leaves behind is reproduced: bodies and sensors are those of the state before the last substep, or where a
task is `in_sync` those of the state after it, with forces of the last full substep.
"""

from __future__ import annotations

import dataclasses
import xml.etree.ElementTree as ET
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np

from quell.errors import UsageError, installed, require
from quell.keys import Traced
from quell.rollout.device.worlds import World
from quell.tasks.base import Array, MujocoTask, folder_of
from quell.tasks.mujoco import load_model

LIFTS = 200
"""Times that a body is raised until it is free, at most."""
ACCELERATION = int(mujoco.mjtStage.mjSTAGE_ACC)
ITERATIONS = 3 << 9
"""Of an overflow's bits, those that say that a solver ran to its last iteration: as it was meant to."""


def chosen(impl: str) -> str:
    """What simulates: warp where there is CUDA and warp-lang, if nothing else was asked for."""
    if impl != "auto":
        return impl
    cuda = any("cuda" in device.client.platform_version.lower() for device in jax.devices())
    return "warp" if cuda and installed("mjx-warp") else "jax"


class MjxWorld(World):
    """Any number of episodes of a MujocoTask."""

    def __init__(self, task: MujocoTask, settings: Any) -> None:
        require("mjx", f"task {task.name!r} with `engine=device`")
        self.task, self.impl = task, chosen(settings.impl)
        if self.impl == "warp":
            require("mjx-warp", "`impl=warp`")
        if task.own_model:
            raise UsageError(f"task {task.name!r} needs `engine=cpu`: its terrain is new in every episode")
        from mujoco import mjx

        self.mjx, self.room = mjx, settings.contacts
        self.c_model = self._model(settings)
        try:
            self.model = mjx.put_model(self.c_model, impl=self.impl)
        except NotImplementedError as error:
            other = "`impl=warp`, or " if self.impl == "jax" else ""
            raise UsageError(f"MJX cannot simulate task {task.name!r} ({error}): use {other}`engine=cpu`") from None
        self.obs_size, self.action_size, self.horizon = task.obs_size, task.action_size, task.horizon
        self.can_terminate, self.bounds = task.can_terminate, task.bounds
        self._late = sensors_of_forces(self.c_model)
        self._plain = not (task.in_sync or set(task.fields) - {"qpos", "qvel"})

    def _model(self, settings: Any) -> Any:
        """The task's model with a solver that MJX has."""
        felt = self.impl == "warp" and self.task.contact_forces
        model = with_accelerometer(self.task) if felt else self.task.model()
        if model.opt.solver == mujoco.mjtSolver.mjSOL_PGS:
            model.opt.solver = mujoco.mjtSolver.mjSOL_NEWTON
        if self.impl == "jax":
            for name in ("iterations", "ls_iterations"):
                most = getattr(settings, name)
                setattr(model.opt, name, min(getattr(model.opt, name), most) if most else getattr(model.opt, name))
        return model

    def reset(self, keys: Any) -> tuple[Any, Any]:
        model, task, data = self.c_model, self.task, self._bare(len(keys))
        if task.settling_steps and self.impl == "jax":
            data = self._all(self.mjx.forward)(data)  # as in C, the first step uses what follows from the default pose

        def start(key: Any) -> tuple[Any, Any]:
            qpos, qvel = task.initial(jnp, model, task.draw(model, Traced(key)))  # type: ignore[arg-type]
            return jnp.asarray(qpos, np.float32), jnp.asarray(qvel, np.float32)

        qpos, qvel = jax.vmap(start)(keys)
        data = self._settled(data.replace(qpos=qpos, qvel=qvel))
        return data, task.observe(jnp, self._state(data))

    def placed(self, qpos: Any, qvel: Any, act: Any) -> tuple[Any, Any]:
        """`reset` to given states [m, ...]."""
        state = {"qpos": qpos, "qvel": qvel, "act": act}
        data = self._bare(len(qpos)).replace(**{name: jnp.asarray(one, np.float32) for name, one in state.items()})
        data = self._followed(data)
        return data, self.task.observe(jnp, self._state(data))

    def _followed(self, data: Any) -> Any:
        """What follows from a state. MJX writes quaternions back at length 1; C MuJoCo leaves them as they were set."""
        return self._all(self.mjx.forward)(data).replace(qpos=data.qpos)

    def _bare(self, members: int) -> Any:
        """Data of so many members in the model's own pose."""
        room = {}
        if self.impl == "warp":
            room = {"naconmax": self.room * members, "njmax": rows_for(self.c_model, self.room)}
        return jax.vmap(lambda _: self.mjx.make_data(self.c_model, impl=self.impl, **room))(jnp.arange(members))

    def _settled(self, data: Any) -> Any:
        """Everything that follows from freshly set states."""
        if self.task.settling_steps:
            data = self._in_sync(data, self.task.settling_steps)
            data = data.replace(time=jnp.zeros_like(data.time))
        if self.task.raise_until_free:
            data = self._raised(data, self.task.raise_until_free)
        return data if self._plain else self._followed(data)

    def _raised(self, data: Any, climb: float) -> Any:
        """Free bodies lifted from height 0, `climb` metres at a time, until nothing touches."""

        def at(lifts: Any) -> Any:
            return data.replace(qpos=data.qpos.at[:, 2].set(lifts * np.float32(climb)))

        def going(carried: Any) -> Any:
            lifts, touching = carried
            return touching.any() & (lifts.max() < LIFTS)

        def higher(carried: Any) -> Any:
            lifts, touching = carried
            lifts = lifts + touching
            return lifts, self._touching(at(lifts))

        start = jnp.zeros(len(data.qpos))
        return at(jax.lax.while_loop(going, higher, (start, self._touching(at(start))))[0])

    def _touching(self, data: Any) -> Any:
        """[m] bool: whether anything touches anything."""
        data = self._all(self.mjx.collision)(self._all(self.mjx.kinematics)(data))
        if self.impl == "jax":
            contact = data._impl.contact
            return (contact.dist < contact.includemargin).any(axis=1)
        count, owner = data._impl.nacon.reshape(-1)[0], data._impl.contact__worldid.reshape(-1)
        own = jnp.where(jnp.arange(len(owner)) < count, owner, len(data.qpos))
        return jnp.bincount(own, length=len(data.qpos) + 1)[:-1] > 0

    def step(self, state: Any, actions: Any, last: Any = False) -> tuple[Any, Any, Any, Any]:
        task, data = self.task, state.replace(ctrl=actions.astype(np.float32))
        data = self._in_sync(data, task.frame_skip) if task.in_sync else self._steps(data, task.frame_skip)
        if task.contact_forces and self.impl == "jax":
            data = self._all(self.mjx.rne_postconstraint)(data)
        before, after = self._state(state), self._state(data)
        over = jnp.zeros(len(actions), bool)
        ended = task.terminated(jnp, after) if task.can_terminate else over
        rewards = task.reward(jnp, before, actions, after, ended)
        return data, task.observe(jnp, after), task.pace * rewards, ended

    def _steps(self, data: Any, count: int) -> Any:
        return jax.lax.fori_loop(0, count, lambda _, data: self._all(self.mjx.step)(data), data)

    def _in_sync(self, data: Any, count: int) -> Any:
        """Steps that leave bodies and sensors of the final state; those of forces from the last full step."""
        if self.impl == "warp":
            moved = self._steps(data, count)
            final = self._all(self.mjx.forward)(moved)
        else:
            moved = self._steps(self._all(self._second_half)(data), count - 1)
            final = self._all(self._first_half)(moved)
        if not len(self._late):
            return final
        return final.replace(sensordata=jnp.where(jnp.asarray(self._late), moved.sensordata, final.sensordata))

    def _first_half(self, model: Any, data: Any) -> Any:
        """What `mj_step1` does: all that follows from positions and velocities."""
        for stage in (self.mjx.fwd_position, self.mjx.sensor_pos, self.mjx.fwd_velocity, self.mjx.sensor_vel):
            data = stage(model, data)
        return data

    def _second_half(self, model: Any, data: Any) -> Any:
        """What `mj_step2` does: forces and accelerations, and the step of Euler's."""
        data = self.mjx.fwd_acceleration(model, self.mjx.fwd_actuation(model, data))
        if data._impl.efc_J.size:
            data = self.mjx.sensor_acc(model, self.mjx.solve(model, data))
        else:
            data = data.replace(qacc=data.qacc_smooth)
        return self.mjx.euler(model, data)

    def _all(self, function: Callable[..., Any]) -> Callable[[Any], Any]:
        """Of MJX's functions, for all members."""
        return lambda data: jax.vmap(function, in_axes=(None, 0))(self.model, data)

    def _state(self, data: Any) -> dict[str, Any]:
        """The arrays that the task reads."""
        common = {item.name for item in dataclasses.fields(data)}
        return {name: getattr(data if name in common else data._impl, name) for name in self.task.fields}

    def trouble(self, state: Any) -> dict[str, Any]:
        """Whether contacts or their rows found no room: Warp drops them."""
        if self.impl != "warp":
            return {}
        return {"overflow": (state._impl.overflow.reshape(-1) & ~ITERATIONS) != 0}


def with_accelerometer(task: Any) -> Any:
    """A task of Gymnasium's with a sensor that nobody reads: without one that needs them, Warp leaves out the external
    forces on bodies."""
    mjcf = ET.parse(folder_of("gymnasium") / "envs/mujoco/assets" / task.asset).getroot()
    sensors = mjcf.find("sensor")
    sensors = ET.SubElement(mjcf, "sensor") if sensors is None else sensors
    ET.SubElement(sensors, "framelinacc", objtype="body", objname="torso")
    return load_model(ET.tostring(mjcf, encoding="unicode"))


def sensors_of_forces(model: Any) -> Array:
    """[numbers] bool: which of the sensors' numbers need an acceleration; empty if none does."""
    late = np.zeros(model.nsensordata, bool)
    for stage, start, size in zip(model.sensor_needstage, model.sensor_adr, model.sensor_dim, strict=True):
        late[start : start + size] = stage == ACCELERATION
    return late if late.any() else late[:0]


def rows_for(model: Any, contacts: int) -> int:
    """Constraint rows of a member: four for each contact's cone, and one for every limit, friction and equality."""
    return int(4 * contacts + model.njnt + model.ntendon + model.nv + 6 * model.neq)
