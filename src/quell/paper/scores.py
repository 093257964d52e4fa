"""From records to the numbers of a table: scores per task and method, and what they add up to."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from quell.paper.published import LABELS
from quell.runs.record import Record
from quell.stats import Interval, MeanStd, area_under_curve, iqm_interval, mean_std, probability_of_improvement

Grid = dict[str, dict[str, list[Record]]]  # task -> method -> its runs, by seed


@dataclass(frozen=True)
class Aggregate:
    """A method over all tasks that have runs of it and of ES."""

    method: str
    tasks: int
    iqm: Interval  # interquartile mean of scores on a common scale (see `scaled`)
    area: float  # mean area under the learning curve, on the same scale
    improvement: Interval  # probability that a run ends above one of ES
    wins: int
    ties: int
    losses: int  # tasks on which mean ± std lies above, overlaps, or lies below that of ES; a single seed ties


def grid(records: Iterable[Record], methods: Sequence[str] = ()) -> Grid:
    """Runs by task and method: the paper's tasks in its order, then others; all methods unless some are named."""
    place = {task: number for number, task in enumerate(LABELS)}
    runs_by_task: Grid = {}
    for run in sorted(records, key=lambda run: (place.get(run.config.task, 99), run.config.task, run.config.seed)):
        if not methods or run.name in methods:
            runs_by_task.setdefault(run.config.task, {}).setdefault(run.name, []).append(run)
    return runs_by_task


def scores(runs: Iterable[Record]) -> list[float]:
    """With actions sampled, as the paper has them."""
    return [run.return_sampled for run in runs]


def untrained(row: dict[str, list[Record]]) -> float:
    """r_random of a task: the mean return of untrained policies, of the ES runs where there are any."""
    runs = row.get("es") or [run for several in row.values() for run in several]
    return float(np.mean([run.start for run in runs]))


def improvements(row: dict[str, list[Record]]) -> dict[str, MeanStd] | None:
    """(r - r_random) / (r_es - r_random) of each method, over seeds; None where ES ended no higher than it started."""
    start = untrained(row)
    span = mean_std(scores(row["es"])).mean - start
    if not span > 0:
        return None
    return {method: mean_std([(score - start) / span for score in scores(runs)]) for method, runs in row.items()}


def scaled(row: dict[str, list[Record]], values: Sequence[float]) -> list[float]:
    """(r - r_random) / s, with s the largest |mean - r_random| of any method: the farthest method lies at 1 or -1."""
    start = untrained(row)
    span = max(abs(mean_std(scores(runs)).mean - start) for runs in row.values())
    return [(value - start) / span if span > 0 else 0.0 for value in values]


def aggregate(runs_by_task: Grid, method: str) -> Aggregate | None:
    """A method against ES, on the tasks that have both.

    Comparisons are of scores as they are: on a common scale, where a method that fails by 37 orders of magnitude sets
    the unit, all others round to the same number.
    """
    both = {task: row for task, row in runs_by_task.items() if method in row and "es" in row}
    if not both:
        return None
    own = {task: scores(row[method]) for task, row in both.items()}
    plain = {task: scores(row["es"]) for task, row in both.items()}
    curves = {task: [run.series("return") for run in row[method]] for task, row in both.items()}
    averages = {t: [area_under_curve(x, y) for x, y in several if len(x) > 1] for t, several in curves.items()}
    areas = [area for task, row in both.items() for area in scaled(row, averages[task])]
    signs = [compare(mean_std(own[task]), mean_std(plain[task])) for task in both]
    iqm = iqm_interval({task: scaled(row, own[task]) for task, row in both.items()}, np.random.default_rng(0))
    improvement = probability_of_improvement(own, plain)
    wins, ties, losses = (signs.count(sign) for sign in (1, 0, -1))
    area = float(np.mean(areas)) if areas else math.nan
    return Aggregate(method, len(both), iqm, area, improvement, wins, ties, losses)


def compare(a: MeanStd, b: MeanStd) -> int:
    """1 when a lies above b, -1 below, 0 when mean ± std overlap or one seed leaves no std to tell."""
    return 0 if math.isnan(a.std + b.std) or a.overlaps(b) else int(np.sign(a.mean - b.mean))
