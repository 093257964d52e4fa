"""dm-quadruped-walk, dm-quadruped-escape: the Control Suite's four-legged robot; the paper's AntWalk and AntEscape.

It walks on a plane, or climbs out of a bowl. That terrain is new in every episode, and the robot sees it through twenty
range finders. In MuJoCo their rays take ten times as long as the physics; our own ray casting gives the same result.
"""

import xml.etree.ElementTree as ET
from typing import Any

import numpy as np

from quell.tasks.base import Array, Draws, State, Terrain
from quell.tasks.control_suite.base import ControlSuiteTask, rise
from quell.tasks.control_suite.heightfield import cast, roof_over

OTHER_TASKS = {"wall_px", "wall_py", "wall_nx", "wall_ny", "ball", "target"}
INERTIAL, VELOCITY, FORCES = slice(0, 6), slice(6, 9), slice(9, 33)  # of sensordata

RADIUS = 30.0  # of the terrain, metres
BUMPS = 30  # along each side, two metres apart
LOWEST_BUMP = 0.15
UPRIGHT_COSINE = float(np.cos(np.deg2rad(20)))
RANGES, ORIGIN, WORKSPACE = slice(36, 56), slice(59, 62), slice(62, 65)  # of sensordata
FINDERS = slice(3, 23)  # sites
POINTS = 201  # of the terrain along each side
CORNER = np.array([-RADIUS, -RADIUS, -0.01])  # where the terrain begins
CELL = 2 * RADIUS / (POINTS - 1)
UNITS = np.array([CELL, CELL, 5.0])  # metres per cell and per height
REACH = 19.1  # metres; from here on tanh is 1 to the last bit, as it is for nothing in sight


class Quadruped(ControlSuiteTask):
    """The robot, what it feels of itself, and a start in any orientation just above the ground. Directions and
    positions that the functions need are sensors, added behind the `sensors` readings that the model has already."""

    action_size = 12
    domain, frame_skip = "quadruped", 4
    in_sync = True
    sensors_once = True
    raise_until_free = 0.01
    fields = ("qpos", "qvel", "act", "sensordata")
    floor_size: int
    left_out = OTHER_TASKS
    sensors: int

    def adapt(self, mjcf: Any) -> None:
        world, sensors = mjcf.find("worldbody"), mjcf.find("sensor")
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


class QuadrupedEscape(Quadruped):
    name = "dm-quadruped-escape"
    summary = "four-legged robot, climb out of a bowl of random terrain (Control Suite; the paper's AntEscape)"
    obs_size = 101
    own_model = True
    unseen_geom = 1  # the terrain
    floor_size = 40
    sensors = 56

    def adapt(self, mjcf: Any) -> None:
        super().adapt(mjcf)
        sensors = mjcf.find("sensor")
        # The world's origin as seen from the torso, and a point in front of the robot as seen from the world.
        from_torso = {"objtype": "xbody", "objname": "world", "reftype": "xbody", "refname": "torso"}
        ET.SubElement(sensors, "framepos", from_torso)
        ET.SubElement(sensors, "framepos", {"objtype": "site", "objname": "workspace"})

    def draw(self, model: Any, rng: np.random.Generator) -> Draws:
        """The terrain's bumps, then the orientation."""
        return rng.uniform(LOWEST_BUMP, 1, (BUMPS, BUMPS)), *super().draw(model, rng)

    def terrain(self, draws: Draws) -> Terrain:
        heights = bowl(draws[0]).astype(np.float32)
        return Terrain(heights, roof_over(heights))

    def look(self, terrain: Terrain, site_xpos: Array, site_xmat: Array, sensordata: Array) -> None:
        """The terrain, where nearer than what MuJoCo found through it; its underside, below the floor, is left out."""
        starts = (site_xpos[FINDERS] - CORNER) / UNITS
        rays = site_xmat[FINDERS, 2::3] / UNITS  # along each site's z axis
        ground = cast(terrain, starts, rays, CELL, REACH)
        measured = sensordata[RANGES]
        np.copyto(measured, ground, where=(ground >= 0) & ((measured < 0) | (ground < measured)))

    def observe(self, xp: Any, state: State) -> Any:
        sensed = state["sensordata"]
        ranges = sensed[:, RANGES]
        seen = xp.where(ranges == -1, 1.0, xp.tanh(ranges))  # -1: nothing in sight
        return xp.concatenate([super().observe(xp, state), sensed[:, ORIGIN], seen], axis=1)

    def reward(self, xp: Any, before: State, action: Any, after: State, ended: Any) -> Any:
        distance = xp.sqrt(xp.square(after["sensordata"][:, WORKSPACE]).sum(axis=1))
        upright = rise(xp, self.upright(after), target=UPRIGHT_COSINE, margin=1 + UPRIGHT_COSINE)
        return upright * rise(xp, distance, target=RADIUS, margin=RADIUS)


def bowl(bumps: Array) -> Array:
    """Heights in [0, 1]: a bowl with a rim half way out, times the bumps [n, n], made smooth."""
    from scipy import ndimage

    line = np.linspace(-1, 1, POINTS)
    radius = np.clip(np.hypot(line[:, None], line), 0.04, 1)
    smooth = ndimage.zoom(bumps, POINTS / len(bumps))
    return np.asarray((0.5 - np.cos(2 * np.pi * radius) / 2) * smooth)


TASKS = [QuadrupedWalk, QuadrupedEscape]
