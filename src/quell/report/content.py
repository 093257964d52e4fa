"""From runs to what the page shows: data for its script, its headline, and lines of its tables."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from quell.config import flatten
from quell.figures.style import BLACK, LOOKS, variants
from quell.presets import title
from quell.report.series import Series, against, setting_text, told_apart
from quell.report.sources import Sources
from quell.runs.find import Standing
from quell.runs.record import NO_REWARD
from quell.stats import UNRESOLVED
from quell.terminal import numbers

DASHES = {"-": "", "--": "7 3", "-.": "8 3 2 3", ":": "2 3"}
CURVE = ("steps", "return", "ratio", "mean_action", "evaluation")

Labels = Mapping[str, str]
"""Name of a task -> what the page calls it, in the order of the page; others come after, by their own names."""
Card = dict[str, Any]


def chart_data(sources: Sources, series: Sequence[Series], labels: Labels, newest: Standing | None) -> dict[str, Any]:
    """What the script draws; it starts with the group of the newest run, or the first."""
    groups, shown = list(sources.groups), []
    own = [group for group, run in sources.runs if newest and run.config == newest.config]
    for one in series:
        runs = [{"seed": run.config.seed, **_known(run.curve)} for run in one.runs]
        shown.append({"group": groups.index(one.group), "task": one.task, "method": one.method, "runs": runs})
    return {
        "groups": groups,
        "start": groups.index(own[0]) if own else 0,
        "tasks": [{"name": name, "title": labels.get(name, name)} for name in _tasks(series, labels)],
        "methods": [_methods([one for one in series if one.group == group]) for group in groups],
        "series": shown,
        "variance": _variances(sources.measurements, labels),
    }


def _known(curve: Mapping[str, Sequence[float | None]]) -> dict[str, Sequence[float | None]]:
    """The columns that have any value."""
    return {name: curve[name] for name in CURVE if name == "steps" or any(value is not None for value in curve[name])}


def headline(sources: Sources, series: Sequence[Series], labels: Labels) -> list[Card]:
    """Per group: a sentence for each method that meets ES, and a card per task with intervals and verdicts."""
    found = []
    for number, group in enumerate(sources.groups):
        own = [one for one in series if one.group == group]
        looks = {method["name"]: method for method in _methods(own)}
        tallies: dict[str, dict[str, str]] = {}
        cards = []
        for task in _tasks(own, labels):
            rivals = [one for one in own if one.task == task]
            cards.append({"title": labels.get(task, task), "rows": _rows(rivals, looks, tallies)})
        sentences = [one for name, said in tallies.items() for one in _sentences(title(name), said, labels)]
        found.append({"group": number, "name": group, "sentences": sentences, "cards": cards})
    return found


def run_rows(sources: Sources, series: Sequence[Series], labels: Labels) -> list[tuple[int, list[str]]]:
    """(group, cells), one line per run."""
    groups, rows = list(sources.groups), []
    for one in series:
        for run in one.runs:
            who = [labels.get(one.task, one.task), title(one.method), str(run.config.seed)]
            known = run.final["mean_action"], run.final["sampled"], run.untrained
            scores = [numbers.score(float(np.mean(values))) if values else "–" for values in known]
            scores[0] += f" {NO_REWARD}" if run.flat else ""
            variance = "–" if run.variance is None else f"{run.variance:.2g}"
            rows.append((groups.index(one.group), [*who, *scores, variance, numbers.steps(one.steps)]))
    return rows


def settings(sources: Sources, series: Sequence[Series]) -> list[tuple[int, str, list[tuple[str, str]]]]:
    """(group, title, settings) per method: every setting, with its tasks where it differs between them."""
    several: dict[tuple[str, str], list[Series]] = {}
    for one in series:
        several.setdefault((one.group, one.method), []).append(one)
    groups = list(sources.groups)
    return [(groups.index(group), title(method), _settings(own)) for (group, method), own in several.items()]


def sentence(run: Standing, labels: Labels) -> str:
    """A run in a line."""
    reached = "not evaluated yet" if run.score is None else f"return {numbers.score(run.score)} (mean action)"
    who = f"{labels.get(run.config.task, run.config.task)}, {title(run.config.combination)}, seed {run.config.seed}"
    return f"{who}: {reached} after {run.steps:,} steps, {run.state} ({run.path})"


def _tasks(series: Sequence[Series], labels: Labels) -> list[str]:
    names = {one.task for one in series}
    return [name for name in labels if name in names] + sorted(names - labels.keys())


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
        row |= {"verdict": f"{said} ES" if said in ("above", "below") else said, "kind": said.partition(" ")[0]}
        row["chance"] = f"P {chance:.2f}" if chance else ""
        rows.append(row)
    return rows


def _sentences(name: str, said: Mapping[str, str], labels: Labels) -> Iterator[str]:
    """What is said of a method on its tasks, and on which it cannot be compared."""
    if compared := [words for words in said.values() if words != "other budget"]:
        yield f"{name} against ES: {_tally(compared)}"
    if apart := [labels.get(task, task) for task, words in said.items() if words == "other budget"]:
        where = ", ".join(apart)
        yield f"{where}: {name} and ES were trained for different numbers of steps, so they are not compared."


def _tally(said: Sequence[str]) -> str:
    """ "above on 7 tasks, cannot be distinguished on 2"."""
    kinds = ("above", "below", UNRESOLVED, "too few seeds", "not finished")
    times = {kind: said.count(kind) for kind in kinds if kind in said}
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


def _variances(measurements: Sequence[dict[str, Any]], labels: Labels) -> list[dict[str, Any]]:
    """Every measurement's ratios to ES with their intervals, under a title that no other has."""
    same: dict[str, list[dict[str, Any]]] = {}
    for one in measurements:
        policy = "untrained" if one["at"] == "init" else "trained"
        same.setdefault(f"{labels.get(one['task'], one['task'])}, {policy}", []).append(one)
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
