"""What an estimate is worth: the mean change of return after one step along it.

Total variance is not what learning feels: noise in directions the policy does not care about is harmless. So take the
step, and play episodes before and after it on the same randomness. Steps of given length are taken along the estimate
as it is ("raw"), along its sign as Adam's first step does ("sign"), or with a given KL divergence ("kl").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from quell.rollout import CpuEngine
from quell.stats import Interval
from quell.training.methods import make_directions
from quell.types import Episodes
from quell.variances.fisher import kl_length
from quell.variances.measure import Measurement
from quell.variances.points import Point

Array = NDArray[Any]
Kind = Literal["raw", "sign", "kl"]
BLOCK = 3 << 30  # iterations no training run reaches


@dataclass(frozen=True)
class Gain:
    """Mean change of return over steps along independent estimates."""

    name: str
    kind: Kind
    size: float
    gain: Interval
    over_es: Interval
    """The same less that of ES steps, on the same episodes."""


def step(kind: Kind, size: float, gradient: Array, point: Point, states: Array) -> Array:
    """raw: `size` long. sign: `size` per coordinate, as a learning rate of Adam. kl: a KL divergence of `size`."""
    g = gradient.astype(np.float64)
    length = float(np.linalg.norm(g))
    if length == 0:
        return np.zeros_like(gradient)
    if kind == "sign":
        return (size * np.sign(g)).astype(np.float32)
    if kind == "raw":
        return (size * g / length).astype(np.float32)
    unit = (g / length).astype(np.float32)
    reach = kl_length(point.policy, point.theta, states, unit)
    return (np.sqrt(2 * size) / reach * unit).astype(np.float32) if reach > 0 else np.zeros_like(unit)


def gains(
    measurement: Measurement,
    names: Sequence[str],
    steps: Sequence[tuple[Kind, float]],
    states: Array,
    *,
    estimates: int,
    episodes: int,
    workers: int,
    tell: Callable[[str, int, int], None] | None = None,
) -> list[Gain]:
    """The gain of each kind of step along the first `estimates` gradients of each row."""
    point = measurement.point
    directions = make_directions(point.config, point.policy)
    jobs = [(name, kind, size) for kind, size in steps for name in names]
    changes = {job: np.zeros(estimates) for job in jobs}
    with CpuEngine(point.task, point.policy, directions, workers=workers, members=episodes) as engine:

        def mean_return(theta: Array, block: int) -> float:
            request = Episodes.of_evaluation(BLOCK + block, episodes, mean_action=False)
            return float(engine.rollout(theta, request, point.obs_stats).returns.mean())

        for m in range(estimates):
            before = mean_return(point.theta, m)
            for name, kind, size in jobs:
                moved = point.theta + step(kind, size, measurement.find(name).gradients[m], point, states)
                changes[name, kind, size][m] = mean_return(moved, m) - before
            if tell is not None:
                tell("steps", m + 1, estimates)
    return [
        Gain(name, kind, size, _mean(changes[job]), _mean(changes[job] - changes.get(("es", kind, size), np.nan)))
        for job in jobs
        for name, kind, size in [job]
    ]


def _mean(values: Array) -> Interval:
    """Mean and its 95% t interval."""
    from scipy.stats import t

    mean = float(values.mean())
    half = float(t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))
    return Interval(mean, mean - half, mean + half)
