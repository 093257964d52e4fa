"""Methods side by side on many tasks, with their tuned settings, from records alone.

A score is the mean return of the final policy's mean actions over fresh episodes; a cell its mean and standard
deviation over seeds. P(above) compares raw scores seed by seed, with a bootstrap interval; a verdict needs one that
does not contain a half.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

import numpy as np

from quell.campaign.estimate import read_timings
from quell.runs.record import NO_REWARD, Record
from quell.stats import Interval, mean_std, probability_of_improvement
from quell.terminal.numbers import score, steps

Grid = dict[str, dict[str, list[Record]]]
"""task -> method -> its runs."""


def grid(records: Sequence[Record]) -> Grid:
    """Records by task and method, both in the order of their names."""
    found: Grid = {}
    for record in sorted(records, key=lambda r: (r.config.task, r.config.method, r.config.seed)):
        found.setdefault(record.config.task, {}).setdefault(record.config.method, []).append(record)
    return found


def scores(runs: Sequence[Record]) -> list[float]:
    return [float(np.mean(run.final["mean_action"])) for run in runs]


def above(row: Mapping[str, Sequence[Record]], method: str, other: str) -> Interval | None:
    """P(a seed of `method` ends above one of `other`); None where one of them has no two seeds."""
    if any(len(row.get(name, ())) < 2 for name in (method, other)):
        return None
    pair = [{"task": scores(row[name])} for name in (method, other)]
    return probability_of_improvement(pair[0], pair[1], np.random.default_rng(0))


def verdict(probability: Interval | None) -> str:
    """What the interval allows to say."""
    if probability is None:
        return "too few seeds"
    if probability.low > 0.5:
        return "above"
    return "below" if probability.high < 0.5 else "not resolved"


def table(
    found: Grid,
    methods: Sequence[str],
    *,
    seconds: Mapping[tuple[str, str], float],
    published: Mapping[str, Mapping[str, str]],
) -> str:
    """As Markdown: scores of the methods, the first against each other one, time, and what others have published."""
    first, *others = methods
    heads = ["task", "steps", "seeds", *(name.upper() for name in methods)]
    heads += [f"P({first.upper()} above {name.upper()})" for name in others] + ["seconds", *published]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for task, row in found.items():
        counts = sorted({len(row[name]) for name in methods if name in row})
        cells = [task, steps(max(run.config.steps for runs in row.values() for run in runs))]
        cells += [str(counts[0]) if len(counts) == 1 else f"{counts[0]}-{counts[-1]}"]
        cells += [_cell(row.get(name, ())) for name in methods]
        for name in others:
            chance = above(row, first, name)
            shown = "" if chance is None else f"{chance.value:.2f} [{chance.low:.2f}, {chance.high:.2f}], "
            cells.append(shown + verdict(chance) if name in row else "")
        times = [f"{seconds[task, name]:.0f}" if (task, name) in seconds else "–" for name in methods if name in row]
        lines.append(
            "| " + " | ".join([*cells, " / ".join(times), *(p.get(task, "") for p in published.values())]) + " |"
        )
    return "\n".join(lines) + "\n"


def _cell(runs: Sequence[Record]) -> str:
    if not runs:
        return ""
    found = mean_std(scores(runs))
    spread = f" ± {score(found.std)}" if len(runs) > 1 else ""
    return score(found.mean) + spread + (f" {NO_REWARD}" if all(run.flat for run in runs) else "")


def median_seconds(folder: Path) -> dict[tuple[str, str], float]:
    """(task, method) -> median seconds of training of one run on one core."""
    times: dict[tuple[str, str], list[float]] = {}
    for row in read_timings(folder / "timings.jsonl"):
        times.setdefault((row["task"], row["method"]), []).append(row["seconds"])
    return {key: median(values) for key, values in times.items()}
