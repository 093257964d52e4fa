"""Rays against a height field, for a few rays at a time.

MuJoCo tests a ray against every triangle in the rectangle that the ray spans. Here a ray is walked one cell at a
time, and meets triangles only where it dips below the highest point around; usually that is a handful.
"""

import numpy as np

from quell.tasks.base import Array, Terrain

SLACK = 1e-9  # cells; a ray through the edge of two triangles must not slip between them
AROUND = np.array([[-1, 0, -1, 0], [-1, -1, 0, 0]])
AT_ONCE = 6  # places looked at before asking whether the ray has ended already


def roof_over(heights: Array) -> Array:
    """The highest point within one cell of each, and around all a border that no ray is below."""
    from scipy import ndimage

    return np.pad(ndimage.maximum_filter(heights, 3, mode="nearest"), 1, constant_values=-np.inf)


def cast(terrain: Terrain, starts: Array, rays: Array, step: float, reach: float) -> Array:
    """Time at which start + time * ray first meets the surface, [k], or -1 for none up to time `reach`.

    Point (row, column) of the heights lies at x = column, y = row, z = its height; `starts` and `rays`, [k, 3],
    are in these units. A ray must not cross more than one cell in the time `step`.
    """
    heights, roof = terrain
    size, times = len(heights), np.arange(0, reach + step, step)
    x, y, z = (start[:, None] + times * ray[:, None] for start, ray in zip(starts.T, rays.T, strict=True))
    column, row = (np.clip(np.rint(position), -1, size).astype(np.intp) for position in (x, y))
    lowest = z - 0.5 * step * np.abs(rays[:, 2:])  # between half a step before and half a step after
    suspect = lowest <= roof.ravel()[(row + 1) * (size + 2) + column + 1]
    rank = suspect.cumsum(axis=1)
    found = np.full(len(rays), np.inf)
    most = rank[:, -1].max()
    for looked_at in range(0, most, AT_ONCE):
        now = suspect & (rank > looked_at) & (rank <= looked_at + AT_ONCE) & np.isinf(found)[:, None]
        owner, when = now.nonzero()
        if not owner.size:
            break
        # The ray is within one cell of the nearest point, so it can only meet the four cells around that point.
        near = column[owner, when], row[owner, when]
        left, below = (np.clip(near[i][:, None] + AROUND[i], 0, size - 2) for i in range(2))
        np.minimum.at(found, owner, _first_hit(heights, left, below, starts[owner], rays[owner]))
    return np.where(found <= reach, found, -1.0)


def _first_hit(heights: Array, x: Array, y: Array, starts: Array, rays: Array) -> Array:
    """When each ray [n, 3] first hits one of its own cells [n, c], named by their lowest corners; else infinity."""
    flat, size = heights.ravel(), len(heights)
    index = y * size + x
    low, right, up, far = (flat[index + step].astype(np.float64) for step in (0, 1, size, size + 1))
    # A cell is two triangles along its diagonal, each a plane: height = low + a u + b v with u, v in [0, 1].
    a, b = np.stack([right - low, far - up]), np.stack([far - right, up - low])
    u, v = starts[:, :1] - x, starts[:, 1:2] - y
    du, dv, dz = rays[:, :1], rays[:, 1:2], rays[:, 2:]
    with np.errstate(divide="ignore", invalid="ignore"):  # a ray in a triangle's plane does not hit it
        time = (low + a * u + b * v - starts[:, 2:]) / (dz - a * du - b * dv)
        u, v = u + time * du, v + time * dv
    larger, smaller = np.stack([u[0], v[1]]), np.stack([v[0], u[1]])  # below the diagonal u is, above it v
    hit = (time >= 0) & (smaller >= -SLACK) & (larger <= 1 + SLACK) & (smaller - larger <= SLACK)
    return np.asarray(np.where(hit, time, np.inf).min(axis=(0, 2)))
