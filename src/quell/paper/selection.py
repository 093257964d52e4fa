"""How much is selection? CV has nine settings and is shown with the best one, task by task; ES has one.

Nine sets of seeds, disjoint: in set k, CV with its k-th setting and ES run from the same seeds. So the best of nine
means of CV stands beside the best of nine of ES, which differ by nothing but luck. If all nine are equally good, the
best of nine means of n seeds each is expected to lie above their mean by

    E max(Z_1, ..., Z_9) s / sqrt(n),    1.485 s / sqrt(n)

s the standard deviation of seeds: within a set, pooled over the nine, or that of the nine where each is a single seed.
"""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from quell.paper.columns import SELECTION
from quell.paper.published import SCORES, label
from quell.paper.scores import grid
from quell.runs.record import Record
from quell.stats import Interval, expected_best, spread, t_interval
from quell.terminal import numbers

HEAD = (
    *("task", "steps", "seeds a set", "ES: mean of nine", "best of nine", "expected of equal ones"),
    *("CV: mean of nine settings", "best of nine", "expected of equal ones", "CV - ES, same seeds"),
    *("best CV - mean ES (as printed)", "best CV - best ES (alike)", "paper's gain", "of it selection, at most luck's"),
)
NOTES = (
    "Nine disjoint sets of seeds; in each, ES and one of CV's nine settings: eta's rate 1e-3, 1e-4 or 1e-5, gamma's "
    "rate 1e-4, 1e-5 or 0. Best of nine: of the means of the sets.",
    "Expected of equal ones: mean + 1.485 s / sqrt(seeds a set), s the spread of seeds within a set (of the nine, "
    "where a set is one seed): what the best of nine would be if all nine were the same method.",
    "CV - ES, same seeds: mean over all seeds of all nine settings, with Student's 95% interval.",
    "Paper's gain: CV - ES as printed. Last column: 1.485 std(CV) / sqrt(5), by the paper's own spread, as a share of"
    " its gain: what choosing among nine equal methods with five seeds each explains.",
)


@dataclass(frozen=True)
class Nine:
    """One method's nine sets of one task."""

    sets: list[list[float]]

    @property
    def means(self) -> list[float]:
        return [float(np.mean(one)) for one in self.sets]

    @property
    def mean(self) -> float:
        return float(np.mean(self.means))

    @property
    def best(self) -> float:
        return max(self.means)

    @property
    def expected(self) -> float:
        """Of the best, were all sets alike; where a set is a single seed, by the spread of the sets."""
        if (count := len(self.sets[0])) == 1:
            return self.mean + expected_best(len(self.sets)) * spread(self.means, ddof=1)
        squares = [spread(one, ddof=1) ** 2 for one in self.sets]
        return self.mean + expected_best(len(self.sets)) * math.sqrt(float(np.mean(squares)) / count)


@dataclass(frozen=True)
class Line:
    """A task."""

    task: str
    steps: int
    es: Nine
    cv: Nine
    difference: Interval
    """CV less ES with the same seed, over all settings."""

    @property
    def seeds(self) -> int:
        return len(self.es.sets[0])

    @property
    def paper(self) -> tuple[float, float] | None:
        """What the paper prints: CV less ES, and what of it luck explains; None where it prints no gain."""
        (cv, std), (es, _) = (map(float, SCORES[self.task, method].split("±")) for method in ("cv", "es"))
        return (cv - es, luck(std, 5) / (cv - es)) if cv > es else None


def luck(std: float, seeds: int, sets: int = len(SELECTION)) -> float:
    """By how much the best of so many equal methods is expected to lie above one of them."""
    return expected_best(sets) * std / math.sqrt(seeds)


def holds(records: Iterable[Record]) -> bool:
    """Whether these are runs of the experiment."""
    return any(f"{run.config.method}-{run.label}" in SELECTION for run in records)


def lines(records: Iterable[Record]) -> list[Line]:
    """A line for every task of which all nine sets are there, each with as many seeds."""
    return [line for task, row in grid(records).items() if (line := _line(task, row)) is not None]


def _line(task: str, row: dict[str, list[Record]]) -> Line | None:
    by_seed = {run.config.seed: run.return_sampled for run in row.get("es", ())}
    own = [row.get(column, []) for column in SELECTION]
    seeds = [[run.config.seed for run in runs if run.config.seed in by_seed] for runs in own]
    count = min(map(len, seeds))
    if count == 0:
        return None
    sets = [sorted(one)[:count] for one in seeds]
    found = [{run.config.seed: run.return_sampled for run in runs} for runs in own]
    es = Nine([[by_seed[seed] for seed in one] for one in sets])
    cv = Nine([[known[seed] for seed in one] for known, one in zip(found, sets, strict=True)])
    gaps = [a - b for own_set, plain in zip(cv.sets, es.sets, strict=True) for a, b in zip(own_set, plain, strict=True)]
    return Line(task, max(run.config.steps for runs in own for run in runs), es, cv, t_interval(gaps))


def cells(line: Line) -> list[str]:
    score, paper = numbers.score, line.paper
    return [
        *(label(line.task), numbers.steps(line.steps), str(line.seeds)),
        *(score(x) for nine in (line.es, line.cv) for x in (nine.mean, nine.best, nine.expected)),
        numbers.difference(line.difference.value, line.difference.low, line.difference.high),
        *(f"{line.cv.best - other:+.3g}" for other in (line.es.mean, line.es.best)),
        *((f"{paper[0]:+g}", f"{paper[1]:.0%}") if paper else ("none", "–")),
    ]


def by_setting(found: Sequence[Line]) -> list[list[str]]:
    """A line per setting: CV less ES with the same seeds, task by task."""
    rows = []
    for number, column in enumerate(SELECTION):
        row = []
        for line in found:
            gaps = np.subtract(line.cv.sets[number], line.es.sets[number])
            one = t_interval(gaps) if len(gaps) > 1 else None
            row.append(numbers.difference(one.value, one.low, one.high) if one else f"{gaps[0]:+.3g}")
        rows.append([re.sub(r"^cv-eta(.*)-gamma(.*)$", r"eta \1, gamma \2", column), *row])
    return rows
