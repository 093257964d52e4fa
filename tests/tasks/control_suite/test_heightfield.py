"""Our rays against MuJoCo's, which tests every triangle."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np
import pytest

from quell.tasks.base import Terrain
from quell.tasks.control_suite.heightfield import cast, roof_over
from quell.tasks.control_suite.quadruped import BUMPS, LOWEST_BUMP, bowl

POINTS = 15
HALF, TOP = 7.0, 3.0  # metres; points are one metre apart
MODEL = f"""
<mujoco>
  <asset><hfield name="rough" nrow="{POINTS}" ncol="{POINTS}" size="{HALF} {HALF} {TOP} .1"/></asset>
  <worldbody><geom type="hfield" hfield="rough"/></worldbody>
</mujoco>
"""


@pytest.fixture(scope="module")
def rough() -> tuple[Any, Any, Any]:
    """Very rough ground whose border is flat, because MuJoCo closes the sides with walls and we do not."""
    model = mujoco.MjModel.from_xml_string(MODEL)
    heights = np.zeros((POINTS, POINTS), np.float32)
    heights[1:-1, 1:-1] = np.random.default_rng(0).uniform(0, 1, (POINTS - 2, POINTS - 2))
    model.hfield_data[:] = heights.ravel()
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return model, data, heights


@pytest.mark.parametrize("kind", ["any", "flat", "along x", "along y", "diagonal", "straight down"])
def test_rays_meet_the_ground_where_mujoco_says(rough: tuple[Any, Any, Any], kind: str) -> None:
    model, data, heights = rough
    rng = np.random.default_rng(1)
    starts = rng.uniform([-9, -9, 0.2], [9, 9, 4], (1000, 3))  # some outside, some below a hill
    if kind in ("any", "straight down"):  # along an edge of triangles, MuJoCo's rays can slip through
        starts[::10, :2] = np.rint(starts[::10, :2])
    rays = rng.standard_normal((1000, 3))
    stretch: dict[str, list[float]] = {
        "any": [1, 1, 1],
        "flat": [1, 1, 0.05],
        "along x": [1, 0, 0.1],
        "along y": [0, 1, 0.1],
        "diagonal": [1, 1, 0.1],
        "straight down": [0, 0, 1],
    }
    rays *= stretch[kind]
    if kind == "diagonal":
        rays[:, 1] = rays[:, 0]
    rays /= np.linalg.norm(rays, axis=1, keepdims=True)
    expected = np.array([mujoco.mj_rayHfield(model, data, 0, p, v) for p, v in zip(starts, rays, strict=True)])
    # What MuJoCo finds at or below height zero is the solid base, which is no part of the surface.
    expected[(starts[:, 2] + expected * rays[:, 2] < 1e-9) & (expected >= 0)] = np.nan

    to_cells = np.array([1, 1, TOP])
    from_corner = (starts - np.array([-HALF, -HALF, 0])) / to_cells
    ours = cast(Terrain(heights, roof_over(heights)), from_corner, rays / to_cells, step=1.0, reach=40.0)
    known = np.isfinite(expected)
    np.testing.assert_allclose(ours[known], expected[known], rtol=0, atol=1e-7)
    assert (expected[known] > 0).sum() > 100
    assert (expected[known] < 0).sum() > 20 or kind == "straight down"


def test_hits_beyond_the_reach_do_not_count(rough: tuple[Any, Any, Any]) -> None:
    *_, heights = rough
    start, down = np.array([[7.0, 7.0, 5.0]]), np.array([[0.0, 0.0, -1.0]])
    distance = cast(Terrain(heights, roof_over(heights)), start, down, 1.0, 10.0)[0]
    assert distance == pytest.approx(5 - heights[7, 7])
    assert cast(Terrain(heights, roof_over(heights)), start, down, 1.0, distance - 0.01)[0] == -1


def test_bowl_rises_from_the_middle_to_a_rim() -> None:
    heights = bowl(np.random.default_rng(0).uniform(LOWEST_BUMP, 1, (BUMPS, BUMPS)))
    assert heights.shape == (201, 201)
    assert heights[90:111, 90:111].max() < 0.15
    assert heights[100, 40:60].max() > 0.15
    assert np.abs(heights[[0, -1]]).max() < 1e-9
