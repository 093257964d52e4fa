"""dm-quadruped-escape: the Control Suite's four-legged robot climbs out of a bowl; the paper's AntEscape.

The terrain is new in every episode, and the robot sees it through twenty range finders. In MuJoCo their rays take
ten times as long as the physics, so the terrain is left to our own ray casting, to the same result.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from quell.tasks._control_suite import rise
from quell.tasks._heightfield import cast, roof_over
from quell.tasks.base import Array, State
from quell.tasks.dm_quadruped import Quadruped

RADIUS = 30.0  # of the terrain, metres
BUMP_SIZE = 2  # metres
LOWEST_BUMP = 0.15
UPRIGHT_COSINE = float(np.cos(np.deg2rad(20)))
RANGES, ORIGIN, WORKSPACE = slice(36, 56), slice(59, 62), slice(62, 65)  # of sensordata
TERRAIN = 1  # geom
FINDERS = slice(3, 23)  # sites
POINTS = 201  # of the terrain along each side
CORNER = np.array([-RADIUS, -RADIUS, -0.01])  # where the terrain begins
CELL = 2 * RADIUS / (POINTS - 1)
UNITS = np.array([CELL, CELL, 5.0])  # metres per cell and per height
REACH = 19.1  # metres; from here on tanh is 1 to the last bit, as it is for nothing in sight


@dataclass(frozen=True, kw_only=True)
class QuadrupedEscape(Quadruped):
    name: ClassVar[str] = "dm-quadruped-escape"
    summary: ClassVar[str] = (
        "four-legged robot, climb out of a bowl of random terrain (Control Suite; the paper's AntEscape)"
    )
    obs_size: ClassVar[int] = 101
    own_model: ClassVar[bool] = True
    floor_size: ClassVar[int] = 40
    sensors: ClassVar[int] = 56

    def adapt(self, mjcf: ET.Element) -> None:
        super().adapt(mjcf)
        sensors = mjcf.find("sensor")
        assert sensors is not None
        # The world's origin as seen from the torso, and a point in front of the robot as seen from the world.
        from_torso = {"objtype": "xbody", "objname": "world", "reftype": "xbody", "refname": "torso"}
        ET.SubElement(sensors, "framepos", from_torso)
        ET.SubElement(sensors, "framepos", {"objtype": "site", "objname": "workspace"})
        # Room for the terrain's roof, behind the terrain itself. MjData has room too, but MuJoCo clears that when
        # it restarts an unstable simulation.
        points = str(POINTS + 2)
        ET.SubElement(ET.SubElement(mjcf, "asset"), "hfield", name="roof", nrow=points, ncol=points, size="1 1 1 1")

    def reset(self, model: Any, data: Any, rng: np.random.Generator) -> None:
        heights, roof = terrain(model)
        heights[:] = bowl(rng)
        roof[:] = roof_over(heights)
        super().reset(model, data, rng)

    def forward(self, model: Any, data: Any) -> None:
        model.geom_rgba[TERRAIN, 3] = 0
        super().forward(model, data)
        look(model, data)

    def advance(self, model: Any, data: Any) -> None:
        model.geom_rgba[TERRAIN, 3] = 0
        super().advance(model, data)
        look(model, data)

    def observe(self, xp: Any, state: State) -> Any:
        sensed = state["sensordata"]
        ranges = sensed[:, RANGES]
        seen = xp.where(ranges == -1, 1.0, xp.tanh(ranges))  # -1: nothing in sight
        return xp.concatenate([super().observe(xp, state), sensed[:, ORIGIN], seen], axis=1)

    def reward(self, xp: Any, before: State, action: Any, after: State, ended: Any) -> Any:
        distance = xp.sqrt(xp.square(after["sensordata"][:, WORKSPACE]).sum(axis=1))
        upright = rise(xp, self.upright(after), target=UPRIGHT_COSINE, margin=1 + UPRIGHT_COSINE)
        return upright * rise(xp, distance, target=RADIUS, margin=RADIUS)


def bowl(rng: np.random.Generator) -> Array:
    """Heights in [0, 1]: a bowl with a rim half way out, times smooth random bumps."""
    from scipy import ndimage

    line = np.linspace(-1, 1, POINTS)
    radius = np.clip(np.hypot(line[:, None], line), 0.04, 1)
    coarse = int(2 * RADIUS / BUMP_SIZE)
    bumps = ndimage.zoom(rng.uniform(LOWEST_BUMP, 1, (coarse, coarse)), POINTS / coarse)
    return np.asarray((0.5 - np.cos(2 * np.pi * radius) / 2) * bumps)


def terrain(model: Any) -> tuple[Array, Array]:
    """Views of the terrain's heights and of its roof."""
    flat, end = model.hfield_data, POINTS * POINTS
    return flat[:end].reshape(POINTS, POINTS), flat[end:].reshape(POINTS + 2, POINTS + 2)


def look(model: Any, data: Any) -> None:
    """Complete the range finders, which so far measured all but the terrain: it was invisible to them.

    The terrain's underside is left out; it lies below the floor.
    """
    model.geom_rgba[TERRAIN, 3] = 1
    heights, roof = terrain(model)
    starts = (data.site_xpos[FINDERS] - CORNER) / UNITS
    rays = data.site_xmat[FINDERS, 2::3] / UNITS  # along each site's z axis
    ground = cast(heights, roof, starts, rays, CELL, REACH)
    measured = data.sensordata[RANGES]
    np.copyto(measured, ground, where=(ground >= 0) & ((measured < 0) | (ground < measured)))


TASKS = [QuadrupedEscape]
