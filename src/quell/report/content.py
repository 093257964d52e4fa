"""From runs to what the page shows: data for its script, and lines of its tables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from quell.config import flatten
from quell.figures.style import LOOKS, looks
from quell.report.sources import Sources
from quell.runs.record import NO_REWARD, Record
from quell.terminal import numbers

DASHES = {"-": "", "--": "7 3", "-.": "8 3 2 3", ":": "2 3"}
BLACK = "#000000"
CURVE = ("steps", "return", "ratio", "evaluation")

Labels = Mapping[str, str]
"""Name of a task -> what the page calls it, in the order of the page; others come after, by their own names."""


def chart_data(sources: Sources, labels: Labels) -> dict[str, Any]:
    """What the script draws."""
    groups, names = list(sources.groups), {run.config.task for _, run in sources.runs}
    tasks = [name for name in labels if name in names] + sorted(names - labels.keys())
    series: dict[tuple[str, str, str], list[Record]] = {}
    for group, run in sources.runs:
        series.setdefault((group, run.config.task, run.name), []).append(run)
    return {
        "groups": groups,
        "tasks": [{"name": name, "label": labels.get(name, name)} for name in tasks],
        "methods": _methods(sources),
        "series": [
            {"group": groups.index(group), "task": task, "method": method, "runs": list(map(_curve, runs))}
            for (group, task, method), runs in series.items()
        ],
        "variance": [_variance(one, labels) for one in sources.measurements],
    }


def run_rows(sources: Sources, labels: Labels) -> list[list[str]]:
    """One line per run."""
    return [
        [group, labels.get(run.config.task, run.config.task), run.name.upper(), str(run.config.seed)]
        + [numbers.steps(run.config.steps)]
        + [_score(run.final["sampled"]) + (f" {NO_REWARD}" if run.flat else "")]
        + [_score(values) for values in (run.final["mean_action"], run.untrained)]
        for group, run in sources.runs
    ]


def settings(sources: Sources) -> list[tuple[str, list[tuple[str, str]]]]:
    """Per group and method: every setting, with all values where runs differ."""
    several: dict[str, list[dict[str, Any]]] = {}
    for group, run in sources.runs:
        several.setdefault(f"{group}: {run.name.upper()}", []).append(flatten(run.config))
    return [
        (name, [(key, _values([c.get(key) for c in configs])) for key in configs[0]])
        for name, configs in several.items()
    ]


def _curve(run: Record) -> dict[str, Any]:
    return {"seed": run.config.seed, **{name: run.curve[name] for name in CURVE}}


def _values(values: list[Any]) -> str:
    distinct = list(dict.fromkeys(value if isinstance(value, str) else json.dumps(value) for value in values))
    return ", ".join(distinct[:20]) + (" …" if len(distinct) > 20 else "")


def _score(values: list[float]) -> str:
    return numbers.score(float(np.mean(values))) if values else "–"


def _methods(sources: Sources) -> list[dict[str, str]]:
    """Name, colour and dash of each method; black is left to the page, which may be dark."""
    names = {run.name for _, run in sources.runs}
    ordered = [name for name in LOOKS if name in names] + sorted(names - LOOKS.keys())
    return [
        {"name": name, "colour": "" if look.colour == BLACK else look.colour, "dash": DASHES[look.line]}
        for name, look in looks(ordered).items()
    ]


def _variance(one: dict[str, Any], labels: Labels) -> dict[str, Any]:
    """A measurement's ratios to ES with their intervals."""
    rows = [row for row in one["rows"] if row["name"] != "es"]
    used = looks(row["name"] for row in rows)
    policy = "untrained policy" if one["at"] == "init" else "trained policy"
    pairs = one.get("iterations", 0) * one.get("pairs_per_iteration", 0)
    facts = (policy, f"preset {one.get('preset', '?')}", f"{pairs} pairs" if pairs else "", one.get("label", ""))
    return {
        "task": labels.get(one["task"], one["task"]),
        "where": ", ".join(filter(None, facts)),
        "rows": [{"name": row["name"], "colour": used[row["name"]].colour, **row["ratio"]} for row in rows],
    }
