"""From runs to what the page shows: data for its script, its headline, and lines of its tables."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from quell.config import flatten
from quell.figures.style import BLACK, LOOKS, variants
from quell.presets import title
from quell.report.series import NO_RIVAL, NOT_FINISHED, OTHER_BUDGET, Series, against, setting_text, told_apart
from quell.report.sources import Sources
from quell.runs.find import Standing
from quell.runs.record import NO_REWARD
from quell.stats import TOO_FEW, UNRESOLVED
from quell.terminal import numbers

DASHES = {"-": "", "--": "7 3", "-.": "8 3 2 3", ":": "2 3"}
CURVE = ("steps", "return", "ratio", "mean_action", "evaluation")

Order = Sequence[str]
"""Names of tasks as they come on the page; others come after, in alphabetical order."""
Card = dict[str, Any]
FILMS = (".mp4", ".webm", ".gif")
WHY_NOT = {
    OTHER_BUDGET: "{} and ES were trained for different numbers of steps, so they are not compared.",
    NOT_FINISHED: "{} or ES has not spent its budget of steps yet, so they are not compared.",
    TOO_FEW: "{} and ES have too few seeds for a verdict; it takes four against four, or three against five.",
    NO_RIVAL: "there is no run of ES to compare {} with (--method es trains one).",
}
"""What stands in place of a verdict -> the sentence that says why."""


def chart_data(sources: Sources, series: Sequence[Series], order: Order, newest: Standing | None) -> dict[str, Any]:
    """What the script draws; it starts with the group of the newest run, or the first."""
    groups, shown = list(sources.groups), []
    own = [group for group, run in sources.runs if newest and run.config == newest.config]
    for one in series:
        runs = [{"seed": run.config.seed, **_known(run.curve)} for run in one.runs]
        shown.append({"group": groups.index(one.group), "task": one.task, "method": one.method, "runs": runs})
    return {
        "groups": groups,
        "sizes": [len(runs) for runs in sources.groups.values()],
        "start": groups.index(own[0]) if own else 0,
        "tasks": [{"name": name, "title": name} for name in _tasks(series, order)],
        "methods": [_methods([one for one in series if one.group == group]) for group in groups],
        "series": shown,
        "variance": _variances(sources.measurements),
    }


def _known(curve: Mapping[str, Sequence[float | None]]) -> dict[str, Sequence[float | None]]:
    """The columns that have any value."""
    return {name: curve[name] for name in CURVE if name == "steps" or any(value is not None for value in curve[name])}


def headline(sources: Sources, series: Sequence[Series], order: Order) -> list[Card]:
    """Per group: a sentence for each method that meets ES, and a card per task with intervals and verdicts."""
    found = []
    for number, group in enumerate(sources.groups):
        own = [one for one in series if one.group == group]
        looks = {method["name"]: method for method in _methods(own)}
        tallies: dict[str, dict[str, str]] = {}
        cards = []
        for task in _tasks(own, order):
            rivals = [one for one in own if one.task == task]
            cards.append({"title": task, "rows": _rows(rivals, looks, tallies)})
        sentences = [one for name, said in tallies.items() for one in _sentences(title(name), said)]
        contents = [_contents(one) for one in own]
        found.append({"group": number, "name": group, "sentences": sentences, "cards": cards, "contents": contents})
    return found


def run_rows(sources: Sources, series: Sequence[Series], page: Path) -> list[Card]:
    """One line per run: its group, its cells, and where its folder and its films lie, as seen from the page."""
    groups, rows = list(sources.groups), []
    for one in series:
        for run in one.runs:
            known = run.final["mean_action"], run.final["sampled"], run.untrained
            scores = [numbers.score(float(np.mean(values))) if values else "–" for values in known]
            scores[0] += f" {NO_REWARD}" if run.flat else ""
            variance = "–" if run.variance is None else f"{run.variance:.2g}"
            cells = [one.task, title(one.method), str(run.config.seed), *scores, variance, numbers.steps(one.steps)]
            links = _links(sources.folders.get(id(run)), page)
            rows.append({"group": groups.index(one.group), "cells": cells, "links": links})
    return rows


def _links(folder: Path | None, page: Path) -> list[dict[str, str]]:
    """To a run's folder and the films that lie in it; a colon in a name makes no other kind of address of them."""
    if folder is None:
        return []
    films = sorted(path for path in folder.iterdir() if path.suffix in FILMS and path.is_file())
    shown = [("folder", folder), *((path.name, path) for path in films)]
    return [{"name": name, "to": quote(os.path.relpath(path, page.parent)), "title": str(path)} for name, path in shown]


def settings(sources: Sources, series: Sequence[Series]) -> list[tuple[int, str, list[tuple[str, str]]]]:
    """(group, title, settings) per method: every setting, with its tasks where it differs between them."""
    several: dict[tuple[str, str], list[Series]] = {}
    for one in series:
        several.setdefault((one.group, one.method), []).append(one)
    groups = list(sources.groups)
    return [(groups.index(group), title(method), _settings(own)) for (group, method), own in several.items()]


def sentence(run: Standing) -> str:
    """A run in a line."""
    reached = "not evaluated yet" if run.score is None else f"return {numbers.score(run.score)} (mean action)"
    who = f"{run.config.task}, {title(run.config.combination)}, seed {run.config.seed}"
    return f"{who}: {reached} after {run.steps:,} steps, {run.state} ({run.path})"


def _tasks(series: Sequence[Series], order: Order) -> list[str]:
    names = {one.task for one in series}
    return [name for name in order if name in names] + sorted(names - set(order))


def _rows(rivals: Sequence[Series], looks: Mapping[str, Card], tallies: dict[str, dict[str, str]]) -> list[Card]:
    """A task's series, best first, with a place between 0 and 100 for dot and interval."""
    known = [(one, interval) for one in rivals if (interval := one.interval)]
    known.sort(key=lambda pair: -pair[1].value)
    low = min((interval.low for _, interval in known), default=0.0)
    span = max((interval.high for _, interval in known), default=0.0) - low
    rows = []
    for one, interval in known:
        chance, said = against(one, rivals)
        if said:
            tallies.setdefault(one.method, {})[one.task] = said
        place = {name: 100 * (value - low) / span if span > 0 else 50.0 for name, value in vars(interval).items()}
        row: Card = {"look": looks[one.method], "name": title(one.method), "place": place}
        row["runs"] = f"{len(one.runs)} seed{'s' * (len(one.runs) != 1)}, {numbers.steps(one.steps)}"
        row["runs"] += f", {one.unfinished} ended early" if one.unfinished else ""
        row["value"], *ends = (numbers.score(value) for value in (interval.value, interval.low, interval.high))
        row["interval"] = f"[{', '.join(ends)}]" if len(one.scores) > 1 else ""
        shown = {"above": "above ES", "below": "below ES", NO_RIVAL: ""}.get(said, said)
        row |= {"verdict": shown, "kind": said.partition(" ")[0]}
        row["chance"] = f"P {chance:.2f}" if chance else ""
        rows.append(row)
    return rows


def _contents(series: Series) -> str:
    """A series in a line: what was trained, with which seeds, how long."""
    seeds = sorted(run.config.seed for run in series.runs)
    together = len(seeds) > 2 and seeds == list(range(seeds[0], seeds[-1] + 1))
    told = f"{seeds[0]} to {seeds[-1]}" if together else ", ".join(map(str, seeds))
    which = f"seed{'s' * (len(seeds) > 1)} {told}"
    return f"{series.task}, {title(series.method)}: {which}, {numbers.steps(series.steps)} steps"


def _sentences(name: str, said: Mapping[str, str]) -> Iterator[str]:
    """What is said of a method on its tasks, and on which it cannot be compared, and why."""
    if compared := [words for words in said.values() if words not in WHY_NOT]:
        yield f"{name} against ES: {_tally(compared)}"
    for words, why in WHY_NOT.items():
        if apart := ", ".join(task for task, own in said.items() if own == words):
            yield f"{apart}: {why.format(name)}"


def _tally(said: Sequence[str]) -> str:
    """ "above on 7 tasks, cannot be distinguished on 2"."""
    times = {kind: said.count(kind) for kind in ("above", "below", UNRESOLVED) if kind in said}
    return ", ".join(f"{kind} on {count} task{'s' * (count != 1)}" for kind, count in times.items()) + "."


def _settings(own: Sequence[Series]) -> list[tuple[str, str]]:
    """Setting -> its value, or its values and where they are used."""
    configs = {one.task: flatten(one.runs[0].config) for one in own}
    shown = []
    for key in dict.fromkeys(key for config in configs.values() for key in config if key not in ("task", "seed")):
        where: dict[str, list[str]] = {}
        for task, config in configs.items():
            if key in config:
                where.setdefault(setting_text(key, config[key]), []).append(task)
        values = sorted(where, key=lambda value: -len(where[value]))
        rest = [f"{value} ({', '.join(where[value])})" for value in values[1:]]
        shown.append((key, "; ".join([values[0], *rest])))
    seeds = sorted({run.config.seed for one in own for run in one.runs})
    return [("tasks", ", ".join(configs)), ("seeds", ", ".join(map(str, seeds))), *shown]


def _methods(series: Sequence[Series]) -> list[dict[str, str]]:
    """Name, title, colour and dash of each method of a group; black is left to the page, which may be dark."""
    place = {name: number for number, name in enumerate(LOOKS)}
    ordered = sorted({one.method for one in series}, key=lambda name: (place.get(name.partition(" ")[0], 99), name))
    return [
        {"name": name, "title": title(name), "colour": look.colour.replace(BLACK, ""), "dash": DASHES[look.line]}
        for name, look in variants(ordered).items()
    ]


def _variances(measurements: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every measurement's ratios to ES with their intervals, under a title that no other has."""
    same: dict[str, list[dict[str, Any]]] = {}
    for one in measurements:
        policy = "untrained" if one["at"] == "init" else "trained"
        same.setdefault(f"{one['task']}, {policy}", []).append(one)
    found = []
    for name, own in same.items():
        differing = told_apart([_facts(one) for one in own])
        for one, label in zip(own, differing, strict=True):
            label = label if differing.count(label) == 1 else ", ".join(filter(None, (label, one["file"])))
            rows = [row for row in one["rows"] if row["name"] != "es"]
            used = variants(row["name"] for row in rows)
            shown = [{"name": row["name"], "colour": used[row["name"]].colour, **row["ratio"]} for row in rows]
            where = ", ".join(f"{key} {value}" for key, value in _facts(one).items())
            found.append({"title": f"{name}: {label}" if label else name, "where": where, "rows": shown})
    return found


def _facts(one: Mapping[str, Any]) -> dict[str, Any]:
    """What tells one measurement from another of the same policy."""
    pairs = one.get("iterations", 0) * one.get("pairs_per_iteration", 0)
    facts = {"preset": one.get("preset"), "pairs": pairs or None, "seed": one.get("seed"), "with": one.get("label")}
    return {key: value for key, value in facts.items() if value not in (None, "")}
