"""dm-quadruped-escape: the Control Suite's four-legged robot climbs out of a bowl; the paper's AntEscape.

The terrain is new in every episode, and the robot sees it through twenty range finders. Casting their rays against
the whole height field takes ten times as long as the physics, so a ray is first cast against a copy of the ground
near the robot. What it hits there is what it would hit in the whole field; only a ray that hits nothing goes on.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from quell.tasks._control_suite import rise
from quell.tasks.base import Array, State
from quell.tasks.dm_quadruped import Quadruped

RADIUS = 30.0  # of the terrain, metres
BUMP_SIZE = 2  # metres
LOWEST_BUMP = 0.15
UPRIGHT_COSINE = float(np.cos(np.deg2rad(20)))
RANGES, ORIGIN, WORKSPACE = slice(36, 56), slice(59, 62), slice(62, 65)  # of sensordata
TERRAIN, NEAR = 1, 2  # geoms; as height fields 0 and 1
FINDERS = slice(3, 23)  # sites
CELL = 0.3  # metres between the terrain's points
CELLS = 20  # across the patch near the robot
HALF = CELLS * CELL / 2


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
        asset, world, sensors = (mjcf.find(name) for name in ("asset", "worldbody", "sensor"))
        assert asset is not None
        assert world is not None
        assert sensors is not None
        # The world's origin as seen from the torso, and a point in front of the robot as seen from the world.
        from_torso = {"objtype": "xbody", "objname": "world", "reftype": "xbody", "refname": "torso"}
        ET.SubElement(sensors, "framepos", from_torso)
        ET.SubElement(sensors, "framepos", {"objtype": "site", "objname": "workspace"})
        # A patch of the terrain with cells of the same size. It touches nothing, and nobody sees it.
        points, size = str(CELLS + 1), f"{HALF} {HALF} 5 .1"
        ET.SubElement(asset, "hfield", name="near", nrow=points, ncol=points, size=size)
        patch = {"name": "near", "type": "hfield", "hfield": "near", "rgba": "0 0 0 0"}
        ET.SubElement(world, "geom", patch | {"contype": "0", "conaffinity": "0"})

    def reset(self, model: Any, data: Any, rng: np.random.Generator) -> None:
        field(model, 0)[:] = bowl(model.hfield_nrow[0], rng)
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

    def reward(self, xp: Any, before: State, action: Any, after: State) -> Any:
        distance = xp.sqrt(xp.square(after["sensordata"][:, WORKSPACE]).sum(axis=1))
        upright = rise(xp, self.upright(after), target=UPRIGHT_COSINE, margin=1 + UPRIGHT_COSINE)
        return upright * rise(xp, distance, target=RADIUS, margin=RADIUS)


def bowl(resolution: int, rng: np.random.Generator) -> Array:
    """Heights in [0, 1]: a bowl with a rim half way out, times smooth random bumps."""
    from scipy import ndimage

    line = np.linspace(-1, 1, resolution)
    radius = np.clip(np.hypot(line[:, None], line), 0.04, 1)
    coarse = int(2 * RADIUS / BUMP_SIZE)
    bumps = ndimage.zoom(rng.uniform(LOWEST_BUMP, 1, (coarse, coarse)), resolution / coarse)
    return np.asarray((0.5 - np.cos(2 * np.pi * radius) / 2) * bumps)


def field(model: Any, index: int) -> Array:
    """The heights of one height field, [rows, columns], as a view."""
    start, rows, columns = model.hfield_adr[index], model.hfield_nrow[index], model.hfield_ncol[index]
    return np.asarray(model.hfield_data[start : start + rows * columns].reshape(rows, columns))


def look(model: Any, data: Any) -> None:
    """Complete the range finders, which so far measured all but the terrain: it was invisible to them."""
    import mujoco

    model.geom_rgba[TERRAIN, 3] = 1
    points, directions = data.site_xpos[FINDERS], data.site_xmat[FINDERS, 2::3].copy()  # each site's z axis
    rays = list(zip(points, directions, strict=True))
    centre = move_patch(model, data, points[0])
    ground = np.array([mujoco.mj_rayHfield(model, data, NEAR, point, vector) for point, vector in rays])
    # A hit counts if the ray runs inside the patch all the way, and so not if it is the patch's own edge.
    ends = np.stack([points, points + ground[:, None] * directions])[:, :, :2]
    inside = (np.abs(ends - centre) < HALF - 1e-6).all(axis=(0, 2)) & (ground >= 0)
    for i in np.flatnonzero(~inside).tolist():
        ground[i] = mujoco.mj_rayHfield(model, data, TERRAIN, *rays[i])
    measured = data.sensordata[RANGES]
    np.copyto(measured, ground, where=(ground >= 0) & ((measured < 0) | (ground < measured)))


def move_patch(model: Any, data: Any, point: Array) -> Array:
    """Put the patch under a point, aligned with the terrain's grid; returns its centre (x, y)."""
    terrain, patch = field(model, 0), field(model, 1)
    x, y = np.clip(np.rint((point[:2] + RADIUS) / CELL) - CELLS // 2, 0, len(terrain) - 1 - CELLS).astype(int)
    patch[:] = terrain[y : y + CELLS + 1, x : x + CELLS + 1]
    centre = np.array([x, y]) * CELL + HALF - RADIUS
    data.geom_xpos[NEAR, :2] = centre
    data.geom_xpos[NEAR, 2] = data.geom_xpos[TERRAIN, 2]
    return centre


TASKS = [QuadrupedEscape]
