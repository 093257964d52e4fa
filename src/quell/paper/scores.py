"""From records to the numbers of a table: scores per task and method, and what they add up to."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from quell.paper.columns import column_of
from quell.paper.published import LABELS
from quell.runs.record import Record
from quell.stats import (
    Interval,
    MeanStd,
    area_under_curve,
    iqm_interval,
    mean_over_tasks,
    mean_std,
    probability_of_improvement,
    share_won,
    t_interval,
)

Row = dict[str, list[Record]]  # method -> its runs, by seed
Grid = dict[str, Row]  # by task
Way = Callable[[Iterable[Record]], list[float]]  # how runs are scored
LOST = 1e6
"""A return below minus this is that of no task on which states are bounded."""


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


@dataclass(frozen=True)
class Paired:
    """A method less ES on one task, seed by seed: the same seed begins with the same policy, resets and directions."""

    method: str
    gaps: list[float]
    """By seed."""
    known: bool
    """Whether no run of either diverged: else a mean says nothing."""
    unit: float
    """What ES gained there; nan if it gained nothing."""

    @property
    def difference(self) -> Interval | None:
        """Mean and Student's 95% interval."""
        return t_interval(self.gaps) if self.known and len(self.gaps) > 1 else None

    @property
    def wins(self) -> list[float]:
        return [(1 + float(np.sign(gap))) / 2 for gap in self.gaps]

    def counted(self) -> tuple[int, int, int]:
        """Seeds won, tied and lost."""
        return tuple(self.wins.count(won) for won in (1.0, 0.5, 0.0))  # type: ignore[return-value]


@dataclass(frozen=True)
class PairedSum:
    """The same over all tasks."""

    method: str
    tasks: int
    chance: Interval  # that a seed's run ends above that of ES
    verdicts: tuple[int, int, int]  # tasks whose interval lies above 0, holds 0, lies below; a diverged method is below
    gain: Interval | None  # mean difference in units of what ES gained
    of: int  # tasks in that mean


def grid(records: Iterable[Record], methods: Sequence[str] = ()) -> Grid:
    """Runs by task and method: the paper's tasks in its order, then others; all methods unless some are named."""
    place = {task: number for number, task in enumerate(LABELS)}
    runs_by_task: Grid = {}
    for run in sorted(records, key=lambda run: (place.get(run.config.task, 99), run.config.task, run.config.seed)):
        if not methods or column_of(run) in methods:
            runs_by_task.setdefault(run.config.task, {}).setdefault(column_of(run), []).append(run)
    return runs_by_task


def scores(runs: Iterable[Record]) -> list[float]:
    """With actions sampled, as the paper has them."""
    return [run.return_sampled for run in runs]


def of_mean(runs: Iterable[Record]) -> list[float]:
    """With mean actions."""
    return [run.return_mean_action for run in runs]


def astray(row: Row, way: Way = scores) -> dict[str, int]:
    """How many runs of each method diverged: lost ten times what an untrained policy or the best method loses or gains.

    Where an untrained policy diverges too, as on LQR, what a run may lose is LOST.
    """
    best = max(mean_std(way(runs)).mean for runs in row.values())
    seen = [best, *(run.start for runs in row.values() for run in runs if not math.isnan(run.start))]
    limit = -min(LOST, 10 * max(map(abs, seen)))
    return {method: sum(score < limit for score in way(runs)) for method, runs in row.items()}


def paired(row: Row, method: str) -> Paired | None:
    """A method against ES on the seeds that both have; None if there are none."""
    own, plain = ({run.config.seed: run.return_sampled for run in row.get(name, ())} for name in (method, "es"))
    if not (seeds := sorted(own.keys() & plain.keys())):
        return None
    lost, span = astray(row), mean_std(scores(row["es"])).mean - untrained(row)
    known = not lost[method] and not lost["es"] and untrained(row) > -LOST
    return Paired(method, [own[s] - plain[s] for s in seeds], known, span if span > 0 else math.nan)


def paired_sum(runs_by_task: Grid, method: str) -> PairedSum | None:
    """Over the tasks that have runs of both; a task that diverged counts by who won, and is in no mean."""
    found = {task: pair for task, row in runs_by_task.items() if (pair := paired(row, method))}
    if not found:
        return None
    chance = share_won({task: pair.wins for task, pair in found.items()})
    signs = [_sign(pair, runs_by_task[task]) for task, pair in found.items()]
    learned = {
        task: [gap / pair.unit for gap in pair.gaps]
        for task, pair in found.items()
        if pair.known and len(pair.gaps) > 1 and not math.isnan(pair.unit)
    }
    gain = mean_over_tasks(learned) if learned else None
    return PairedSum(method, len(found), chance, _counted(signs), gain, len(learned))


def _sign(pair: Paired, row: Row) -> int:
    """1 if the interval of the difference lies above 0, -1 below; a method that diverged where ES did not is below."""
    lost = astray(row)
    if bool(lost[pair.method]) != bool(lost["es"]):
        return -1 if lost[pair.method] else 1
    found = pair.difference
    return 0 if found is None else int(found.low > 0) - int(found.high < 0)


def _counted(signs: Sequence[int]) -> tuple[int, int, int]:
    return signs.count(1), signs.count(0), signs.count(-1)


def untrained(row: Row) -> float:
    """r_random of a task: the mean return of untrained policies, of the ES runs where there are any."""
    runs = row.get("es") or [run for several in row.values() for run in several]
    return float(np.mean([run.start for run in runs]))


def improvements(row: Row) -> dict[str, MeanStd] | None:
    """(r - r_random) / (r_es - r_random) of each method, over seeds; None where that is no scale: where ES ended no
    higher than it started, or what it started from diverges.
    """
    start = untrained(row)
    span = mean_std(scores(row["es"])).mean - start
    if not span > 0 or start < -LOST:
        return None
    return {method: mean_std([(score - start) / span for score in scores(runs)]) for method, runs in row.items()}


def scaled(row: Row, values: Sequence[float]) -> list[float]:
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
    signs = [_against(row, method) for row in both.values()]
    iqm = iqm_interval({task: scaled(row, own[task]) for task, row in both.items()}, np.random.default_rng(0))
    improvement = probability_of_improvement(own, plain)
    area = float(np.mean(areas)) if areas else math.nan
    return Aggregate(method, len(both), iqm, area, improvement, *_counted(signs))


def _against(row: Row, method: str) -> int:
    """As `compare` has it, unless one of the two diverged: then it is below."""
    lost = astray(row)
    if bool(lost[method]) != bool(lost["es"]):
        return -1 if lost[method] else 1
    return compare(mean_std(scores(row[method])), mean_std(scores(row["es"])))


def compare(a: MeanStd, b: MeanStd) -> int:
    """1 when a lies above b, -1 below, 0 when mean ± std overlap or one seed leaves no std to tell."""
    return 0 if math.isnan(a.std + b.std) or a.overlaps(b) else int(np.sign(a.mean - b.mean))
