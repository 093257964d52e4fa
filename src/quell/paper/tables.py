"""A table as data: our score and the published one in each cell, and the summary below."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from quell.paper.columns import heading
from quell.paper.published import SCORES, Entry, label
from quell.paper.scores import (
    Aggregate,
    Grid,
    Paired,
    PairedSum,
    Row,
    Way,
    aggregate,
    astray,
    of_mean,
    paired,
    paired_sum,
    scores,
)
from quell.runs.record import NO_REWARD
from quell.stats import MeanStd, bold, mean_std
from quell.terminal import numbers


@dataclass(frozen=True)
class Cell:
    """Our score beside the paper's; either may be missing."""

    ours: MeanStd | None
    seeds: int
    bold: bool
    reference: str  # the paper's
    flat: bool = False  # whether no run saw a reward
    astray: int = 0  # how many runs diverged: of these a spread says nothing

    @property
    def text(self) -> str:
        """The number, and what is to be said of it."""
        return " ".join(filter(None, (self.number, self.said)))

    @property
    def number(self) -> str:
        if self.ours is None:
            return "–"
        hidden = self.astray or math.isnan(self.ours.std)
        return numbers.score(self.ours.mean) + ("" if hidden else f" ± {numbers.score(self.ours.std)}")

    @property
    def said(self) -> str:
        return f"({self.astray} of {self.seeds} diverged)" if self.astray else NO_REWARD if self.flat else ""


@dataclass(frozen=True)
class Line:
    label: str
    steps: int
    cells: list[Cell]

    @property
    def seeds(self) -> str:
        """'5', or '3-5' where methods differ."""
        counts = sorted({cell.seeds for cell in self.cells if cell.seeds})
        return str(counts[0]) if len(counts) == 1 else f"{counts[0]}-{counts[-1]}"


@dataclass(frozen=True)
class Table:
    title: str
    methods: list[str]
    rows: list[Line]
    aggregates: list[Aggregate]
    missing: list[str]  # tasks of the paper's table without a run
    pairs: dict[str, list[Paired | None]]  # by task, of the methods in `sums`
    sums: list[PairedSum]

    @property
    def head(self) -> list[str]:
        return ["task", "steps", "seeds", *map(heading, self.methods)]

    @property
    def paired_head(self) -> list[str]:
        return ["task", *(f"{heading(one.method)} - ES" for one in self.sums)]

    @property
    def paired_body(self) -> list[list[str]]:
        """A line per task, and three over all."""
        lines = [[name, *map(_paired_cell, cells)] for name, cells in self.pairs.items()]
        lines.append(["tasks above / not resolved / below", *(" / ".join(map(str, one.verdicts)) for one in self.sums)])
        lines.append(["P(seed above ES)", *(f"{one.chance:.2f}" for one in self.sums)])
        gains = [f"{one.gain:+.2f} ({one.of} tasks)" if one.gain else "–" for one in self.sums]
        return [*lines, ["mean, in gains of ES", *gains]]

    def body(self, text: Callable[[Cell], str]) -> list[list[str]]:
        """Lines under the head, with cells as `text` writes them."""
        return [[row.label, numbers.steps(row.steps), row.seeds, *map(text, row.cells)] for row in self.rows]

    @property
    def notes(self) -> list[str]:
        return [*NOTES, *([f"No runs yet on {', '.join(self.missing)}."] if self.missing else [])]


def build(entry: Entry, runs_by_task: Grid) -> Table:
    """The table of an entry from the runs there are."""
    rows, methods = [], [method for method in entry.methods if any(method in row for row in runs_by_task.values())]
    for task, row in runs_by_task.items():
        most, name = max(run.config.steps for runs in row.values() for run in runs), label(task)
        ways = {name: scores} if not task.startswith("lqr") else {f"{name}, sampled": scores, f"{name}, mean": of_mean}
        rows += [Line(words, most, _cells(task, methods, row, way)) for words, way in ways.items()]
    aggregates = [total for method in methods if (total := aggregate(runs_by_task, method)) is not None]
    missing = [label(task) for task in entry.tasks if task not in runs_by_task]
    sums = [found for method in methods if method != "es" and (found := paired_sum(runs_by_task, method)) is not None]
    pairs = {label(task): [paired(row, one.method) for one in sums] for task, row in runs_by_task.items()}
    return Table(entry.title, methods, rows, aggregates, missing, pairs, sums)


def _cells(task: str, methods: Sequence[str], row: Row, way: Way) -> list[Cell]:
    """A line's cells; what diverged is never bold."""
    results = {method: mean_std(way(row[method])) for method in methods if method in row}
    lost = astray(row, way)
    best = bold({method: result for method, result in results.items() if not lost[method]})
    flat = {method for method, runs in row.items() if all(run.flat for run in runs)}
    printed = {method: SCORES.get((task, method), "").replace("±", " ± ") for method in methods}
    return [
        Cell(results.get(m), len(row.get(m, ())), m in best, printed[m], m in flat, lost.get(m, 0)) for m in methods
    ]


def _paired_cell(pair: Paired | None) -> str:
    """+12 [-3, 27], 4/0/1"""
    if pair is None:
        return "–"
    counts = "/".join(map(str, pair.counted()))
    if not pair.known:
        return f"diverged, {counts}"
    found = pair.difference
    shown = f"{pair.gaps[0]:+.3g}" if found is None else numbers.difference(found.value, found.low, found.high)
    return f"{shown}, {counts}"


NOTES = (
    "mean ± std of the final policy's return over seeds (actions sampled, undiscounted); below it the paper's number.",
    "Bold: the highest mean of the row and all whose mean ± std overlaps it (the paper's rule), but nothing that "
    "diverged: a run that ended ten times as far below 0 as the best method or any untrained policy is from it, or "
    "below -1e6.",
)
PAIRED_NOTES = (
    "Mean difference of runs with the same seed, its 95% interval by Student's t, and seeds won/tied/lost. The "
    "interval holds in 95% of cases where differences are Gaussian, in more where their tails are heavy, in 88% where"
    " they are exponential.",
    "P: share of seeds that end above ES with the same seed, averaged over tasks, with Jeffreys' interval of coin "
    "throws. Last line: differences in units of what ES gained over the untrained policy, on tasks where it gained "
    "and nothing diverged; Welch's interval, for these tasks.",
)
AGGREGATE_NOTES = (
    "IQM and area: on one scale, (r - r_random) / s per task, s the largest |mean - r_random| of any method there; "
    "P(above ES), wins, ties and losses: scores as they are.",
    "IQM with 95% stratified bootstrap intervals over seeds, which do not know the luck of a single one; P(above ES) "
    "with 95% intervals as of coin throws, one per seed; wins, ties and losses by mean ± std, single seeds as ties, "
    "what diverged as a loss.",
)
AGGREGATE_HEAD = ("method", "tasks", "IQM", "area under curve", "P(above ES)", "wins / ties / losses against ES")


def aggregate_cells(a: Aggregate) -> list[str]:
    """One line of the summary."""
    area = "–" if math.isnan(a.area) else f"{a.area:.2f}"
    against = [f"{a.improvement:.2f}", f"{a.wins} / {a.ties} / {a.losses}"] if a.method != "es" else ["", ""]
    return [heading(a.method), str(a.tasks), f"{a.iqm:.2f}", area, *against]
