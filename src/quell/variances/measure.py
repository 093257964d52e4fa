"""Repeat whole iterations at a fixed theta and keep every estimator's gradient of each.

First some iterations to warm up (eta, value functions), then the measured ones with all that was learned held fixed, so
that no estimator has seen the pairs it is measured on. Pairs within an iteration may depend on each other (orthogonal
directions, baselines); iterations do not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quell.variances.points import Point
from quell.variances.rows import Row
from quell.variances.session import Measured, Scale, Session

Array = NDArray[Any]
Tell = Callable[[str, int, int], None]
"""Called with (what, done, total)."""


@dataclass(frozen=True)
class Measurement:
    """Everything measured at one point."""

    point: Point
    rows: list[Measured]
    rollout_seconds: float  # per iteration of plain ES
    mean_return: float
    return_std: float
    scale: float  # what rewards were divided by; V[g] in units of reward is its square times that of `gradients`
    steps: int  # real environment steps spent

    def find(self, name: str) -> Measured:
        return next(measured for measured in self.rows if measured.row.name == name)


def measure(
    point: Point,
    rows: Sequence[Row],
    *,
    iterations: int,
    warmup: int,
    workers: int,
    others: int | None = None,
    tell: Tell | None = None,
) -> Measurement:
    """Measure all rows; those that share directions and action noise are measured on the same episodes.

    `others` is the number of iterations for samplings other than that of plain ES, if not `iterations`.
    """
    samplings = list(dict.fromkeys(row.sampling for row in rows))
    scale = Scale()
    parts: list[Measured] = []
    facts: list[tuple[float, Array, int]] = []
    for number, sampling in enumerate(samplings):
        chosen = [row for row in rows if row.sampling == sampling]
        learn = warmup if any(row.method != "es" for row in chosen) else 0
        label = sampling[0] + (" shared noise" if sampling[1] else "")
        turns = iterations if number == 0 or others is None else others

        def count(done: int, total: int = learn + turns, label: str = label) -> None:
            if tell is not None:
                tell(label, done, total)

        session = Session(point, chosen, scale, first=1 + number * 1_000_000, workers=workers)
        found, fact = session.run(learn, turns, count)
        parts += found
        facts.append(fact)
    order = {row.name: i for i, row in enumerate(rows)}
    seconds, returns, _ = facts[0]
    steps = sum(fact[2] for fact in facts)
    parts.sort(key=lambda measured: order[measured.row.name])
    return Measurement(point, parts, seconds, float(returns.mean()), _spread(returns), scale.value, steps)


def _spread(returns: Array) -> float:
    largest = float(np.abs(returns).max()) or 1.0  # squares of huge returns would overflow
    return float((returns / largest).std(ddof=1) * largest)
