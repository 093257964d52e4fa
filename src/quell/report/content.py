"""From runs to what the page shows: data for its script, and tables."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from quell.config import flatten
from quell.paper.formats import html
from quell.paper.plan import ENTRIES
from quell.paper.render import runs_of
from quell.paper.tables import build, label, number, steps
from quell.plot import METHOD_COLOURS
from quell.report.sources import Shown, Sources, mean

MORE_COLOURS = ("#8C6BB1", "#B5893B", "#44AA99", "#C2477F", "#7A8B99", "#A65628", "#6A9A3B", "#5B7FD1")
DASHES = ("", "7 3", "2 3", "8 3 2 3", "4 2", "1 2")
NO_COLOUR = "#000000"
CURVE = ("steps", "return", "ratio", "evaluation")


@dataclass(frozen=True)
class Block:
    """A heading with a table, as safe HTML."""

    title: str
    html: str


def chart_data(found: Sources) -> dict[str, Any]:
    """What the script draws."""
    groups = sorted({run.group for run in found.runs}, key=lambda name: (name not in found.summaries, name))
    series: dict[tuple[str, str, str], list[Shown]] = {}
    for run in found.runs:
        series.setdefault((run.group, run.config.task, run.config.method), []).append(run)
    return {
        "groups": groups,
        "tasks": [{"name": name, "label": label(name)} for name in _tasks(found)],
        "methods": _methods(found),
        "series": [
            {
                "group": groups.index(group),
                "task": task,
                "method": method,
                "runs": [{"seed": run.config.seed, **{name: run.curve[name] for name in CURVE}} for run in runs],
            }
            for (group, task, method), runs in series.items()
        ],
        "variance": [_variance(one) for one in found.measurements],
    }


def paper_tables(found: Sources) -> list[Block]:
    """The paper's tables, for every results folder that has runs of one."""
    blocks = []
    for group, summaries in found.summaries.items():
        for name, entry in ENTRIES.items():
            runs = runs_of(entry, summaries)
            if name.startswith("table") and runs:
                blocks.append(Block(f"{group}: {entry.title}", html(build(entry, runs))))
    return blocks


def run_rows(found: Sources) -> list[list[str]]:
    """One line per run."""
    return [
        [run.group, label(run.config.task), run.config.method.upper(), str(run.config.seed), steps(run.config.steps)]
        + [_score(values) for values in (run.sampled, run.mean_action, run.untrained)]
        for run in found.runs
    ]


def settings(found: Sources) -> list[tuple[str, list[tuple[str, str]]]]:
    """Per group and method: every setting, with all values where runs differ."""
    several: dict[str, list[dict[str, Any]]] = {}
    for run in found.runs:
        several.setdefault(f"{run.group}: {run.config.method.upper()}", []).append(flatten(run.config))
    return [
        (name, [(key, _values([c[key] for c in configs])) for key in configs[0]]) for name, configs in several.items()
    ]


def _values(values: list[Any]) -> str:
    distinct = list(dict.fromkeys(value if isinstance(value, str) else json.dumps(value) for value in values))
    return ", ".join(distinct[:20]) + (" …" if len(distinct) > 20 else "")


def _score(values: list[float]) -> str:
    average = mean(values)
    return "–" if average is None else number(average)


def _tasks(found: Sources) -> list[str]:
    from quell.paper.published import LABELS

    names = {run.config.task for run in found.runs}
    return [name for name in LABELS if name in names] + sorted(names - LABELS.keys())


def _methods(found: Sources) -> list[dict[str, str]]:
    """Name, colour and dash of each method; black is left to the page, which may be dark."""
    names = {run.config.method for run in found.runs}
    ordered = [name for name in METHOD_COLOURS if name in names] + sorted(names - METHOD_COLOURS.keys())
    found_methods = []
    for place, name in enumerate(ordered):
        colour = METHOD_COLOURS.get(name, MORE_COLOURS[place % len(MORE_COLOURS)])
        dash = "" if name in ("es", "cv") else DASHES[place % len(DASHES)]
        found_methods.append({"name": name, "colour": "" if colour == NO_COLOUR else colour, "dash": dash})
    return found_methods


def _variance(one: dict[str, Any]) -> dict[str, Any]:
    """A measurement's ratios to ES with their intervals."""
    rows = [{"name": row["name"], **row["ratio"]} for row in one["rows"] if row["name"] != "es"]
    policy = "untrained policy" if one["at"] == "init" else "trained policy"
    pairs = one.get("iterations", 0) * one.get("pairs_per_iteration", 0)
    facts = (policy, f"preset {one.get('preset', '?')}", f"{pairs} pairs" if pairs else "", one.get("label", ""))
    return {"task": label(one["task"]), "where": ", ".join(filter(None, facts)), "rows": rows}
