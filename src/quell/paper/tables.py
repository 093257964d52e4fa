"""A table as data: our score and the published one in each cell, and the summary below."""

from __future__ import annotations

import math
from dataclasses import dataclass

from quell.paper.plan import Entry
from quell.paper.published import LABELS, score
from quell.paper.scores import Aggregate, Grid, aggregate, scores
from quell.statistics import MeanStd, bold, mean_std


@dataclass(frozen=True)
class Cell:
    """Our score beside the paper's; either may be missing."""

    ours: MeanStd | None
    seeds: int
    bold: bool
    published: str | None

    @property
    def text(self) -> str:
        if self.ours is None:
            return "–"
        spread = "" if math.isnan(self.ours.std) else f" ± {number(self.ours.std)}"
        return number(self.ours.mean) + spread

    @property
    def reference(self) -> str:
        return self.published.replace("±", " ± ") if self.published else ""


@dataclass(frozen=True)
class Row:
    label: str
    steps: int
    cells: list[Cell]


@dataclass(frozen=True)
class Table:
    title: str
    methods: list[str]
    rows: list[Row]
    aggregates: list[Aggregate]
    missing: list[str]
    """Tasks of the paper's table without a run."""


def build(entry: Entry, found: Grid) -> Table:
    """The table of an entry from the runs there are."""
    methods = list(entry.methods)
    rows = []
    for task, row in found.items():
        results = {method: mean_std(scores(row[method])) for method in methods if method in row}
        best = bold(results)
        cells = [
            Cell(results.get(method), len(row.get(method, ())), method in best, score(task, method))
            for method in methods
        ]
        rows.append(Row(label(task), max(run.config.steps for runs in row.values() for run in runs), cells))
    summaries = [found_one for method in methods if (found_one := aggregate(found, method)) is not None]
    missing = [label(task) for task in entry.tasks if task not in found]
    return Table(entry.title, methods, rows, summaries, missing)


def label(task: str) -> str:
    """The paper's name of a task, else ours."""
    return LABELS.get(task, task)


def number(value: float) -> str:
    """As the paper prints: whole from 20 on, one decimal below; far out, with an exponent."""
    if abs(value) >= 1e6:
        return f"{value:.1e}".replace("e+0", "e").replace("e+", "e")
    return f"{value:.0f}" if abs(value) >= 20 else f"{value:.1f}"


def steps(count: int) -> str:
    """1e6, 2e7; 123,456 where that would round."""
    short = f"{count:.0e}".replace("e+0", "e").replace("e+", "e")
    return short if float(short) == count else f"{count:,}"


NOTES = (
    "mean ± std of the final policy's return over seeds (actions sampled, undiscounted); below it the paper's number.",
    "Bold: the highest mean of the row and all whose mean ± std overlaps it (the paper's rule).",
)
AGGREGATE_NOTES = (
    "Scores on one scale: (r - r_random) / s per task, s the largest |mean - r_random| of any method there.",
    "IQM and P(above ES) with 95% stratified bootstrap intervals over seeds; wins, ties and losses by mean ± std. "
    "Where there is one seed, intervals do not know its luck, and the task counts as a tie.",
)
AGGREGATE_HEAD = ("method", "tasks", "IQM", "area under curve", "P(above ES)", "wins / ties / losses against ES")


def aggregate_cells(a: Aggregate) -> list[str]:
    """One line of the summary."""
    area = "–" if math.isnan(a.area) else f"{a.area:.2f}"
    own = a.method == "es"
    return [
        a.method.upper(),
        str(a.tasks),
        f"{a.iqm.estimate:.2f} [{a.iqm.low:.2f}, {a.iqm.high:.2f}]",
        area,
        "" if own else f"{a.improvement.estimate:.2f} [{a.improvement.low:.2f}, {a.improvement.high:.2f}]",
        "" if own else f"{a.wins} / {a.ties} / {a.losses}",
    ]
