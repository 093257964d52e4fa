"""What a finished run leaves behind: one small file, the same to the last byte however often the run was interrupted.

It holds the config, the versions, returns of fresh episodes of the final and of the untrained policy, and a thinned
curve. Tables, figures and the report are made of records alone. Times, machine and commit are in timings.jsonl.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from quell.config import Config, from_dict, to_dict
from quell.errors import UsageError
from quell.runs import archive, files
from quell.runs.folder import Run

POINTS = 100
"""Points of a thinned curve."""
CURVE = ("iteration", "steps", "return", "ratio", "evaluation", "mean_action")
VARIANCES = ("variance/method", "variance/es")
NO_REWARD = "(no reward)"
"""Beside the score of runs that are `flat`."""


@dataclass(frozen=True)
class Record:
    """A run, as it is shown and compared."""

    config: Config
    versions: dict[str, Any]
    final: dict[str, list[float]]
    """Returns of the final policy: "sampled" actions, and "mean_action" (one mean where episodes were not kept)."""
    untrained: list[float]
    """Returns of the policy the run started from, actions sampled; empty where they were not measured."""
    curve: dict[str, list[float | None]]
    """iteration, steps, return (mean of the members), ratio (gradient variance, ES = 1); the unperturbed policy's
    return, actions sampled (evaluation) and with its mean action (mean_action)."""
    label: str = ""
    """Told apart from other runs of the method by this, where settings differ."""
    variance: float | None = None
    """Gradient variance over the whole run, ES = 1."""

    @property
    def name(self) -> str:
        """The method, and the label if there is one."""
        return f"{self.config.method}-{self.label}" if self.label else self.config.method

    @property
    def return_mean_action(self) -> float:
        """The run's score, wherever nothing else is said: mean return of the final policy's mean actions."""
        return _of(self.final["mean_action"])

    @property
    def return_sampled(self) -> float:
        """The same with actions sampled, as in training; the paper's tables have this one."""
        return _of(self.final["sampled"])

    @property
    def start(self) -> float:
        """Mean return of the untrained policy."""
        return _of(self.untrained)

    @property
    def flat(self) -> bool:
        """Whether every return that is known, in training and after it, is the same: no reward was seen."""
        known = {*self.curve["return"], *self.untrained, *(value for values in self.final.values() for value in values)}
        return len(known - {None}) == 1

    def series(self, name: str) -> tuple[list[float], list[float]]:
        """(steps, values) of one line of the curve, where it has values."""
        points = zip(self.curve["steps"], self.curve[name], strict=True)
        known = [(float(x), float(y)) for x, y in points if x is not None and y is not None]
        return [x for x, _ in known], [y for _, y in known]

    def write(self, path: Path) -> None:
        """As JSON with sorted keys."""
        facts = {**vars(self), "config": to_dict(self.config)}
        parts = [f'"{name}": {json.dumps(value, sort_keys=True)}' for name, value in facts.items()]
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write_atomically(path, ("{\n" + ",\n".join(parts) + "\n}\n").encode())


def read(path: Path) -> Record:
    """The record that a run of a campaign left at `path`, loose or packed since; a UsageError if it is none."""
    with _named(path):
        return from_facts(archive.find(path))


def read_group(group: Path) -> list[Record]:
    """All records of a campaign's folder, in the order of their names."""
    return list(read_named(group).values())


def read_named(group: Path) -> dict[str, Record]:
    """Name -> record of a campaign's folder."""
    with _named(group):
        return {name: from_facts(facts) for name, facts in archive.read(group).items()}


@contextmanager
def _named(path: Path) -> Iterator[None]:
    try:
        yield
    except files.MALFORMED as error:
        raise UsageError(f"{str(path)!r} is not the record of a run: {error}") from None


def is_record(facts: Mapping[str, Any]) -> bool:
    """Whether the contents of a JSON file look like a record, of today or older."""
    return {"config", "final"} <= facts.keys() and bool({"curve", "history"} & facts.keys())


def from_facts(facts: Mapping[str, Any]) -> Record:
    """A record from its file's contents.

    Older ones lack `label`, `variance` and the curve of mean actions; the oldest have every iteration in `history`, and
    no untrained policy.
    """
    config = from_dict(facts["config"])
    if "history" in facts:
        columns: dict[str, Sequence[Any]] = facts["history"]
        rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
        facts = {**facts, "curve": thin(rows), "variance": variance_ratio(rows)}
    needed = {name: facts[name] for name in ("versions", "final", "curve")}
    needed["curve"] = {"mean_action": [None] * len(facts["curve"]["steps"]), **facts["curve"]}
    more = {"label": facts.get("label", ""), "variance": facts.get("variance")}
    return _checked(Record(config, untrained=facts.get("untrained", []), **needed, **more))


def from_folder(run: Run) -> Record:
    """A run as its folder has it so far: the newest evaluation stands for the final one."""
    history = list(run.metrics())
    final = {"sampled": known(history, "eval/return")[-1:], "mean_action": known(history, "eval/mean_action")[-1:]}
    return _checked(Record(run.config, {}, final, [], thin(history), variance=variance_ratio(history)))


def _checked(record: Record) -> Record:
    """The record, if it is made of what records are made of; a ValueError if not."""
    returns = {**record.final, "untrained": record.untrained}
    lengths = {len(record.curve[name]) for name in CURVE if name != "iteration"}
    if not {"sampled", "mean_action"} <= record.final.keys() or len(lengths) > 1 or None in record.curve["steps"]:
        raise ValueError("a column of its curve or returns is missing or cut short")
    for name, values in {**returns, **record.curve, "variance": [record.variance]}.items():
        if not isinstance(values, list) or not all(value is None or files.is_number(value) for value in values):
            raise ValueError(f"{name!r:.40} is no list of finite numbers")
    if None in [value for values in returns.values() for value in values] or not isinstance(record.label, str):
        raise ValueError("a return or the label is missing")
    return record


def thin(history: Sequence[Mapping[str, Any]], points: int = POINTS) -> dict[str, list[float | None]]:
    """A curve of at most `points` points: the mean over equal stretches of iterations; evaluations by their last."""
    stretches = np.array_split(np.arange(len(history)), min(points, max(1, len(history))))
    counted = {row["iteration"] for row in comparable(history)}
    curve: dict[str, list[float | None]] = {name: [] for name in CURVE}
    for rows in ([history[i] for i in part] for part in stretches if len(part)):
        curve["iteration"].append(rows[-1]["iteration"])
        curve["steps"].append(rows[-1]["steps"])
        curve["return"].append(short(_mean(rows, "return/mean")))
        curve["ratio"].append(variance_ratio([row for row in rows if row["iteration"] in counted]))
        for column, name in (("evaluation", "eval/return"), ("mean_action", "eval/mean_action")):
            curve[column].append(short([math.nan, *known(rows, name)][-1]))
    return curve


def comparable(history: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Rows whose variances can be added up: both known, of batches with a gradient, and all in one metric.

    That is the natural step's where any row has it: before the first step there is none yet. A batch whose returns were
    all the same says nothing of either variance.
    """
    found = [row for row in history if not row.get("trouble/flat") and _has_variances(row)]
    return [row for row in found if row.get("variance/in_step_metric")] or found


def variance_ratio(history: Sequence[Mapping[str, Any]]) -> float | None:
    """Gradient variance of a run, or of a part of it, plain ES on the same batches = 1; None where it is not known.

        sum of variance/method / sum of variance/es        over the rows that are `comparable`

    This is the one number that the screen, records, figures and the report show.
    """
    rows = comparable(history)
    own, plain = (math.fsum(row[name] for row in rows) for name in VARIANCES)
    return short(own / plain) if plain > 0 else None


def _has_variances(row: Mapping[str, Any]) -> bool:
    return all(row.get(name) is not None and math.isfinite(row[name]) for name in VARIANCES)


def short(value: float) -> float | None:
    """Six digits; None for what JSON has no number for."""
    return float(f"{value:.6g}") if math.isfinite(value) else None


def known(rows: Sequence[Mapping[str, Any]], name: str) -> list[Any]:
    """A metric's values, of the iterations that have it."""
    return [row[name] for row in rows if row.get(name) is not None]


def _of(returns: Sequence[float]) -> float:
    """Their mean; NaN where there is none."""
    return float(np.mean(returns)) if returns else math.nan


def _mean(rows: Sequence[Mapping[str, Any]], name: str) -> float:
    return float(np.mean(known(rows, name) or math.nan))
