"""From summaries to the numbers of a table: scores per task and method, and what they add up to."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from quell.paper.published import LABELS
from quell.paper.summary import Summary
from quell.statistics import (
    Interval,
    MeanStd,
    area_under_curve,
    iqm_interval,
    mean_std,
    probability_of_improvement,
)

Grid = dict[str, dict[str, list[Summary]]]
"""task -> method -> its runs, by seed"""


@dataclass(frozen=True)
class Aggregate:
    """A method over all tasks that have runs of it and of ES."""

    method: str
    tasks: int
    iqm: Interval
    """Interquartile mean of scores on a common scale (see `scaled`)."""
    area: float
    """Mean area under the learning curve, on the same scale."""
    improvement: Interval
    """Probability that a run ends above one of ES."""
    wins: int
    ties: int
    losses: int
    """Tasks on which mean ± std lies above, overlaps, or lies below that of ES; a single seed ties."""


def grid(summaries: Iterable[Summary], tasks: Sequence[str] = (), methods: Sequence[str] = ()) -> Grid:
    """Runs by task and method: the paper's tasks in its order, then others; all unless some are named."""
    found: Grid = {}
    for run in sorted(summaries, key=lambda run: (_place(run.config.task), run.config.seed)):
        task, method = run.config.task, run.config.method
        if (not tasks or task in tasks) and (not methods or method in methods):
            found.setdefault(task, {}).setdefault(method, []).append(run)
    return found


def scores(runs: Iterable[Summary]) -> list[float]:
    return [run.score for run in runs]


def untrained(row: dict[str, list[Summary]]) -> float:
    """r_random of a task: the mean return of untrained policies, of the ES runs where there are any."""
    runs = row.get("es") or [run for several in row.values() for run in several]
    return float(np.mean([run.start for run in runs]))


def improvement(row: dict[str, list[Summary]], method: str) -> MeanStd | None:
    """(r - r_random) / (r_es - r_random), over seeds; None where ES ended no higher than it started."""
    start = untrained(row)
    span = mean_std(scores(row["es"])).mean - start
    if not span > 0:
        return None
    return mean_std([(score - start) / span for score in scores(row[method])])


def scaled(row: dict[str, list[Summary]], values: Sequence[float]) -> list[float]:
    """(r - r_random) / s, with s the largest |mean - r_random| of any method: the farthest method lies at 1 or -1."""
    start = untrained(row)
    span = max(abs(mean_std(scores(runs)).mean - start) for runs in row.values())
    return [(value - start) / span if span > 0 else 0.0 for value in values]


def aggregate(found: Grid, method: str) -> Aggregate | None:
    """A method against ES, on the tasks that have both."""
    both = {task: row for task, row in found.items() if method in row and "es" in row}
    if not both:
        return None
    own = {task: scaled(row, scores(row[method])) for task, row in both.items()}
    plain = {task: scaled(row, scores(row["es"])) for task, row in both.items()}
    areas = [area for task, row in both.items() for area in scaled(both[task], _areas(row[method]))]
    signs = [compare(mean_std(own[task]), mean_std(plain[task])) for task in both]
    return Aggregate(
        method,
        len(both),
        iqm_interval(own, np.random.default_rng(0)),
        float(np.mean(areas)) if areas else math.nan,
        probability_of_improvement(own, plain, np.random.default_rng(0)),
        *(signs.count(sign) for sign in (1, 0, -1)),
    )


def compare(a: MeanStd, b: MeanStd) -> int:
    """1 when a lies above b, -1 below, 0 when mean ± std overlap or one seed leaves no std to tell."""
    unknown = math.isnan(a.std) or math.isnan(b.std)
    return 0 if unknown or a.overlaps(b) else int(np.sign(a.mean - b.mean))


def _areas(runs: Iterable[Summary]) -> list[float]:
    """Area under each learning curve that has two points or more."""
    areas = []
    for run in runs:
        points = [(x, y) for x, y in zip(run.curve["steps"], run.curve["return"], strict=True) if None not in (x, y)]
        if len(points) > 1:
            areas.append(area_under_curve(*zip(*points, strict=True)))
    return areas


def _place(task: str) -> tuple[int, str]:
    known = list(LABELS)
    return (known.index(task) if task in known else len(known), task)
