"""A table as data: our score and the published one in each cell, and the summary below."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from quell.paper.published import SCORES, Entry, label
from quell.paper.scores import Aggregate, Grid, aggregate, scores
from quell.presets import title
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

    @property
    def text(self) -> str:
        if self.ours is None:
            return "–"
        spread = "" if math.isnan(self.ours.std) else f" ± {numbers.score(self.ours.std)}"
        return numbers.score(self.ours.mean) + spread + (f" {NO_REWARD}" if self.flat else "")


@dataclass(frozen=True)
class Row:
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
    rows: list[Row]
    aggregates: list[Aggregate]
    missing: list[str]  # tasks of the paper's table without a run

    @property
    def head(self) -> list[str]:
        return ["task", "steps", "seeds", *map(title, self.methods)]

    def body(self, text: Callable[[Cell], str]) -> list[list[str]]:
        """Lines under the head, with cells as `text` writes them."""
        return [[row.label, numbers.steps(row.steps), row.seeds, *map(text, row.cells)] for row in self.rows]

    @property
    def notes(self) -> list[str]:
        return [*NOTES, *([f"No runs yet on {', '.join(self.missing)}."] if self.missing else [])]


def build(entry: Entry, runs_by_task: Grid) -> Table:
    """The table of an entry from the runs there are."""
    methods = list(entry.methods)
    rows = []
    for task, row in runs_by_task.items():
        results = {method: mean_std(scores(row[method])) for method in methods if method in row}
        best = bold(results)
        flat = {method for method, runs in row.items() if all(run.flat for run in runs)}
        printed = {method: SCORES.get((task, method), "").replace("±", " ± ") for method in methods}
        cells = [Cell(results.get(m), len(row.get(m, ())), m in best, printed[m], m in flat) for m in methods]
        rows.append(Row(label(task), max(run.config.steps for runs in row.values() for run in runs), cells))
    aggregates = [total for method in methods if (total := aggregate(runs_by_task, method)) is not None]
    missing = [label(task) for task in entry.tasks if task not in runs_by_task]
    return Table(entry.title, methods, rows, aggregates, missing)


NOTES = (
    "mean ± std of the final policy's return over seeds (actions sampled, undiscounted); below it the paper's number.",
    "Bold: the highest mean of the row and all whose mean ± std overlaps it (the paper's rule).",
)
AGGREGATE_NOTES = (
    "IQM and area: on one scale, (r - r_random) / s per task, s the largest |mean - r_random| of any method there; "
    "P(above ES), wins, ties and losses: scores as they are.",
    "IQM with 95% stratified bootstrap intervals over seeds, which do not know the luck of a single one; P(above ES) "
    "with 95% intervals as of coin throws, one per seed; wins, ties and losses by mean ± std, single seeds as ties.",
)
AGGREGATE_HEAD = ("method", "tasks", "IQM", "area under curve", "P(above ES)", "wins / ties / losses against ES")


def aggregate_cells(a: Aggregate) -> list[str]:
    """One line of the summary."""
    area = "–" if math.isnan(a.area) else f"{a.area:.2f}"
    against = [f"{a.improvement:.2f}", f"{a.wins} / {a.ties} / {a.losses}"] if a.method != "es" else ["", ""]
    return [title(a.method), str(a.tasks), f"{a.iqm:.2f}", area, *against]
