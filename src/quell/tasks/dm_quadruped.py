"""dm-quadruped-walk: the Control Suite's four-legged robot, walking on a plane; the paper's AntWalk."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from quell.tasks._control_suite import ControlSuiteTask, rise
from quell.tasks.base import State

OTHER_TASKS = {"wall_px", "wall_py", "wall_nx", "wall_ny", "ball", "target"}
INERTIAL, VELOCITY, FORCES = slice(0, 6), slice(6, 9), slice(9, 33)  # of sensordata
CLIMB = 0.01  # metres between the heights tried at reset


@dataclass(frozen=True, kw_only=True)
class Quadruped(ControlSuiteTask):
    """The robot, what it feels of itself, and a start in any orientation just above the ground.

    Directions and positions that the functions need are sensors, added behind the `sensors` readings that the
    model has already.
    """

    action_size: ClassVar[int] = 12
    domain: ClassVar[str] = "quadruped"
    frame_skip: ClassVar[int] = 4
    fields: ClassVar[tuple[str, ...]] = ("qpos", "qvel", "act", "sensordata")
    floor_size: ClassVar[int]
    left_out: ClassVar[set[str]] = OTHER_TASKS
    sensors: ClassVar[int]

    def adapt(self, mjcf: ET.Element) -> None:
        world, sensors = mjcf.find("worldbody"), mjcf.find("sensor")
        assert world is not None
        assert sensors is not None
        for section in (world, sensors):
            for child in list(section):
                if child.get("name") in self.left_out or child.tag in self.left_out:
                    section.remove(child)
        world[0].set("size", f"{self.floor_size} {self.floor_size} .5")
        ET.SubElement(sensors, "framezaxis", objtype="xbody", objname="torso")

    def reset(self, model: Any, data: Any, rng: np.random.Generator) -> None:
        """A random orientation, raised from the ground in small steps until nothing touches."""
        import mujoco

        orientation = rng.standard_normal(4)
        data.qpos[3:7] = orientation / np.linalg.norm(orientation)
        height = 0.0
        while True:
            data.qpos[:3] = 0, 0, height
            mujoco.mj_kinematics(model, data)
            mujoco.mj_collision(model, data)
            if data.ncon == 0:
                return
            height += CLIMB

    def advance(self, model: Any, data: Any) -> None:
        """step_in_sync, to the same result, but with sensors evaluated once: they outweigh the physics.

        Forces belong to the last substep, positions and velocities to the state after it.
        """
        import mujoco

        flags = model.opt.disableflags
        model.opt.disableflags = flags | int(mujoco.mjtDisableBit.mjDSBL_SENSOR)
        mujoco.mj_step2(model, data)
        mujoco.mj_step(model, data, self.frame_skip - 2)
        mujoco.mj_step1(model, data)
        model.opt.disableflags = flags
        mujoco.mj_step2(model, data)
        mujoco.mj_step1(model, data)

    def observe(self, xp: Any, state: State) -> Any:
        sensed = state["sensordata"]
        return xp.concatenate(
            [
                state["qpos"][:, 7:],
                state["qvel"][:, 6:],
                state["act"],
                sensed[:, VELOCITY],
                self.upright(state)[:, None],
                sensed[:, INERTIAL],
                xp.arcsinh(sensed[:, FORCES]),
            ],
            axis=1,
        )

    def upright(self, state: State) -> Any:
        """Cosine of the torso's tilt."""
        return state["sensordata"][:, self.sensors + 2]


@dataclass(frozen=True, kw_only=True)
class QuadrupedWalk(Quadruped):
    name: ClassVar[str] = "dm-quadruped-walk"
    summary: ClassVar[str] = "four-legged robot, walk at 0.5 m/s (Control Suite; the paper's AntWalk)"
    obs_size: ClassVar[int] = 78
    floor_size: ClassVar[int] = 10
    left_out: ClassVar[set[str]] = OTHER_TASKS | {"terrain", "rangefinder"}
    sensors: ClassVar[int] = 36

    def reward(self, xp: Any, before: State, action: Any, after: State, ended: Any) -> Any:
        speed = after["sensordata"][:, VELOCITY][:, 0]
        upright = rise(xp, self.upright(after), target=1, margin=2)
        return upright * rise(xp, speed, target=0.5, margin=0.5, at_margin=0.5)


TASKS = [QuadrupedWalk]
