"""dm-quadruped-walk: the Control Suite's four-legged robot, walking on a plane; the paper's AntWalk."""

import xml.etree.ElementTree as ET
from typing import Any

import numpy as np

from quell.tasks.base import Draws, State
from quell.tasks.control_suite.base import ControlSuiteTask, find, rise

OTHER_TASKS = {"wall_px", "wall_py", "wall_nx", "wall_ny", "ball", "target"}
INERTIAL, VELOCITY, FORCES = slice(0, 6), slice(6, 9), slice(9, 33)  # of sensordata


class Quadruped(ControlSuiteTask):
    """The robot, what it feels of itself, and a start in any orientation just above the ground.

    Directions and positions that the functions need are sensors, added behind the `sensors` readings that the
    model has already.
    """

    action_size = 12
    domain = "quadruped"
    frame_skip = 4
    in_sync = True
    sensors_once = True
    raise_until_free = 0.01
    fields = ("qpos", "qvel", "act", "sensordata")
    floor_size: int
    left_out = OTHER_TASKS
    sensors: int

    def adapt(self, mjcf: ET.Element) -> None:
        world, sensors = find(mjcf, "worldbody"), find(mjcf, "sensor")
        for section in (world, sensors):
            for child in list(section):
                if child.get("name") in self.left_out or child.tag in self.left_out:
                    section.remove(child)
        world[0].set("size", f"{self.floor_size} {self.floor_size} .5")
        ET.SubElement(sensors, "framezaxis", objtype="xbody", objname="torso")

    def draw(self, model: Any, rng: np.random.Generator) -> Draws:
        return (rng.standard_normal(4),)

    def initial(self, xp: Any, model: Any, draws: Draws) -> tuple[Any, Any]:
        """Any orientation: a normal draw over its own length."""
        orientation = draws[-1] / xp.linalg.norm(draws[-1])
        return xp.concatenate([xp.zeros(3), orientation, model.qpos0[7:]]), xp.zeros(model.nv)

    def observe(self, xp: Any, state: State) -> Any:
        sensed = state["sensordata"]
        joints = [state["qpos"][:, 7:], state["qvel"][:, 6:], state["act"]]
        torso = [sensed[:, VELOCITY], self.upright(state)[:, None], sensed[:, INERTIAL]]
        return xp.concatenate([*joints, *torso, xp.arcsinh(sensed[:, FORCES])], axis=1)

    def upright(self, state: State) -> Any:
        """Cosine of the torso's tilt."""
        return state["sensordata"][:, self.sensors + 2]


class QuadrupedWalk(Quadruped):
    name = "dm-quadruped-walk"
    summary = "four-legged robot, walk at 0.5 m/s (Control Suite; the paper's AntWalk)"
    obs_size = 78
    floor_size = 10
    left_out = OTHER_TASKS | {"terrain", "rangefinder"}
    sensors = 36

    def reward(self, xp: Any, before: State, action: Any, after: State, ended: Any) -> Any:
        speed = after["sensordata"][:, VELOCITY][:, 0]
        upright = rise(xp, self.upright(after), target=1, margin=2)
        return upright * rise(xp, speed, target=0.5, margin=0.5, at_margin=0.5)


TASKS = [QuadrupedWalk]
