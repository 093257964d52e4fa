"""Shared by the tests of the variances: a point that costs nothing to measure at, and measurements there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from quell.estimate import Estimator
from quell.measure.fisher import Geometry
from quell.measure.points import Point, find_point
from quell.measure.rows import Row, find_rows
from quell.measure.session import Measurement, Session
from quell.rollout.cpu import Cpu

SETTINGS: dict[str, Any] = {
    **{"horizon": 5, "policy.hidden": (), "policy.init_std": 0.5, "policy.output_scale": 0.1, "sigma": 0.05},
    "task_settings": {"noise": 0.3, "x0_std": 0.3},  # little noise: light tails, so that 400 pairs say something
}


def point(**settings: Any) -> Point:
    return find_point("lqr-302", "init", preset="paper", seed=0, settings={**SETTINGS, **settings})


def run(
    methods: Sequence[str | Row | Estimator],
    *,
    iterations: int = 60,
    warmup: int = 20,
    workers: int = 1,
    where: Point | None = None,
) -> Measurement:
    where = where or point()
    rows = find_rows(methods, where.sigma)
    return Session(where, Cpu(workers=workers)).measure(rows, iterations, warmup)


def shape(where: Point) -> Geometry:
    """Metrics over states that nobody visited."""
    states = np.random.default_rng(0).standard_normal((20, where.task.obs_size)).astype(np.float32)
    return Geometry(where.policy, where.theta, states)
