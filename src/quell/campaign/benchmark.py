"""Methods side by side on many tasks, with their tuned settings, from records alone.

A score is the mean return of the final policy's mean actions over fresh episodes; a cell its mean and standard
deviation over seeds. Verdicts compare raw scores, seed against seed (`quell.stats.verdict`), task by task and pooled
over tasks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

import numpy as np

from quell.campaign.plan import read_timings
from quell.presets import title
from quell.runs.record import NO_REWARD, Record
from quell.stats import POWER, UNRESOLVED, mean_std, probability_of_improvement, verdict
from quell.terminal.numbers import score, steps
from quell.terminal.tables import markdown_lines

APART = ("lqr", "lqr-302")
"""Tasks that are not pooled: the control variate's preset is plain ES there, to the last bit."""

Grid = dict[str, dict[str, list[Record]]]
"""task -> method -> its runs."""


def grid(records: Sequence[Record]) -> Grid:
    """Records by task and method, both in the order of their names; of runs that are the same only one.

    Combinations that have no name are distinguished by their parts, as `Config.combination` has them.
    """
    by_task: Grid = {}
    for record in sorted(records, key=lambda r: (r.config.task, r.config.combination, r.config.seed)):
        runs = by_task.setdefault(record.config.task, {}).setdefault(record.config.combination, [])
        if not any((other.config, other.final) == (record.config, record.final) for other in runs):
            runs.append(record)
    return by_task


def scores(runs: Sequence[Record]) -> list[float]:
    return [run.return_mean_action for run in runs]


def table(
    found: Grid,
    methods: Sequence[str],
    *,
    seconds: Mapping[tuple[str, str], float],
    published: Mapping[str, Mapping[str, str]],
) -> str:
    """As Markdown: scores, beside what others published; the first method against each other one; seconds."""
    parts = [_scores(found, methods, published), _chances(found, methods), _seconds(found, methods, seconds)]
    return "\n".join(parts)


def _scores(found: Grid, methods: Sequence[str], published: Mapping[str, Mapping[str, str]]) -> str:
    """The best of several in bold, with those whose seeds overlap and no test tells from it; last, mean ranks."""
    rows = []
    for task, row in found.items():
        known = {name: scores(row[name]) for name in methods if name in row}
        best = leaders(known) if len(known) > 1 else set()
        cells = [task, steps(max(run.config.steps for runs in row.values() for run in runs))]
        for name in methods:
            text = _cell(known.get(name, [])) + (f" {NO_REWARD}" if _flat(row.get(name, ())) else "")
            cells.append(f"**{text}**" if name in best else text)
        rows.append([*cells, *(other.get(task, "") for other in published.values())])
    ranks = mean_ranks(found, methods)
    rows.append(["mean rank", "", *(f"{ranks[name]:.1f}" if name in ranks else "" for name in methods)])
    rows[-1] += [""] * len(published)
    return _markdown(["task", "steps", *map(title, methods), *published], rows)


def leaders(known: Mapping[str, Sequence[float]]) -> set[str]:
    """The method of the best mean, and all whose seeds overlap with its and that no test tells from it."""
    best = known[max(known, key=lambda name: float(np.mean(known[name])))]
    return {name for name, own in known.items() if min(best) <= max(own) and verdict(best, own)[1] != "above"}


def _chances(found: Grid, methods: Sequence[str]) -> str:
    first, *others = methods
    rows = []
    for task, row in found.items():
        cells = [task]
        for name in others:
            if first in row and name in row:
                chance, said = verdict(scores(row[first]), scores(row[name]))
                told = [f"{chance:.2f}"] if chance is not None else []
                cells.append(", ".join(told + [said] * (said != UNRESOLVED)))
            else:
                cells.append("")
        rows.append(cells)
    rows.append(["all tasks" + (f" but {', '.join(left)}" if (left := [t for t in APART if t in found]) else "")])
    rows[-1] += [_pooled(found, first, name) for name in others]
    heads = [f"P({title(first)} above ...)", *map(title, others)]
    return f"{_markdown(heads, rows)}\nA number alone: the two {UNRESOLVED}. {POWER}\n"


def _pooled(found: Grid, first: str, other: str) -> str:
    """P averaged over the tasks that both have been run on, and how many these are."""
    both = {task: row for task, row in found.items() if task not in APART and first in row and other in row}
    if not both:
        return ""
    own, theirs = ({task: scores(row[name]) for task, row in both.items()} for name in (first, other))
    return f"{probability_of_improvement(own, theirs):.2f} ({len(both)})"


def _seconds(found: Grid, methods: Sequence[str], seconds: Mapping[tuple[str, str], float]) -> str:
    rows = [[task, *(f"{seconds[task, m]:.0f}" if (task, m) in seconds else "" for m in methods)] for task in found]
    return _markdown(["task", *(f"{title(name)}, s" for name in methods)], rows)


def mean_ranks(found: Grid, methods: Sequence[str]) -> dict[str, float]:
    """1 is best, ties share; over the tasks that all of the methods there are have been run on."""
    from scipy.stats import rankdata

    present = [name for name in methods if any(name in row for row in found.values())]
    complete = [row for row in found.values() if all(name in row for name in present)]
    if not complete:
        return {}
    ranks = [rankdata([-np.mean(scores(row[name])) for name in present]) for row in complete]
    return dict(zip(present, np.mean(ranks, axis=0), strict=True))


def _flat(runs: Sequence[Record]) -> bool:
    return bool(runs) and all(run.flat for run in runs)


def _cell(values: Sequence[float]) -> str:
    if not values:
        return ""
    found = mean_std(values)
    return score(found.mean) + (f" ± {score(found.std)} ({len(values)})" if len(values) > 1 else "")


def _markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(markdown_lines(heads, rows)) + "\n"


def median_seconds(folder: Path) -> dict[tuple[str, str], float]:
    """(task, method) -> median seconds of training of one run on one core."""
    times: dict[tuple[str, str], list[float]] = {}
    for row in read_timings(folder / "timings.jsonl"):
        times.setdefault((row["task"], row["method"]), []).append(row["seconds"])
    return {key: median(values) for key, values in times.items()}
