"""What an estimate is worth: the mean change of return after one step along it.

Total variance is not what learning feels: noise in directions the policy does not care about is harmless. So take the
step, and play episodes before and after it on the same randomness. Steps of given length are taken along the estimate
as it is ("raw"), along its sign as Adam's first step does ("sign"), or with a given KL divergence, along the estimate
("kl") or along the natural gradient ("natural").
"""

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from quell.errors import UsageError
from quell.keys import Stream
from quell.measure.fisher import Geometry
from quell.measure.session import Measurement, Session
from quell.perturb import Unperturbed
from quell.stats import Interval, t_interval
from quell.types import Array, Episodes

Kind = Literal["raw", "sign", "kl", "natural"]


@dataclass(frozen=True)
class Gain:
    """Mean change of return over steps along independent estimates."""

    name: str
    kind: Kind
    size: float
    gain: Interval
    over_es: Interval  # the same less that of ES steps, on the same episodes
    changes: list[float]  # of every step: those of two rows are on the same episodes, and can be subtracted


def parse_step(word: str) -> tuple[Kind, float]:
    """kind:size."""
    kind, _, size = word.partition(":")
    with contextlib.suppress(ValueError):
        if kind in get_args(Kind) and 0 < float(size) < math.inf:
            return kind, float(size)  # type: ignore[return-value]
    takes = "raw:NORM, sign:RATE, kl:DIVERGENCE or natural:DIVERGENCE, a positive number"
    raise UsageError(f"`gain={word!r}` must be {takes}")


def step(kind: Kind, size: float, gradient: Array, geometry: Geometry) -> Array:
    """raw: `size` long. sign: `size` per coordinate, as a learning rate of Adam. kl, natural: that divergence."""
    g = gradient.astype(np.float64)
    if kind == "natural":
        g = geometry.kronecker.apply(g, -1)
    length = float(np.linalg.norm(g))
    if length == 0:
        return np.zeros_like(gradient)
    if kind in ("sign", "raw"):
        return (size * np.sign(g) if kind == "sign" else size * g / length).astype(np.float32)
    unit = (g / length).astype(np.float32)
    reach = geometry.kl_length(unit)
    return (np.sqrt(2 * size) / reach * unit).astype(np.float32) if reach > 0 else np.zeros_like(unit)


def gains(
    session: Session,
    measurement: Measurement,
    names: Sequence[str],
    steps: Sequence[tuple[Kind, float]],
    geometry: Geometry,
    estimates: int,
    episodes: int,
) -> list[Gain]:
    """The gain of each kind of step along the first `estimates` gradients of each row."""
    point = session.point
    jobs = [(name, kind, size) for kind, size in steps for name in names]
    changes = {job: np.zeros(estimates) for job in jobs}
    with session.compute.make(point.task, point.problem(Unperturbed()), members=episodes) as engine:

        def mean_return(theta: Array, estimate: int) -> float:
            request = Episodes.unperturbed(estimate, episodes, Stream.GAIN)
            return float(engine.rollout(theta, request, point.obs_stats).returns.mean())

        for m in range(estimates):
            before = mean_return(point.theta, m)
            for job in jobs:
                name, kind, size = job
                moved = point.theta + step(kind, size, measurement.find(name).gradients[m], geometry)
                changes[job][m] = mean_return(moved, m) - before
            session.tell("steps", m + 1, estimates)
    over_es = {job: own - changes.get(("es", *job[1:]), np.full(estimates, np.nan)) for job, own in changes.items()}
    return [
        Gain(*job, gain=t_interval(own), over_es=t_interval(over_es[job]), changes=own.tolist())
        for job, own in changes.items()
    ]
