"""Runs that differ in their seed alone, and what such series are called beside each other."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

from quell.config import flatten
from quell.report.sources import Sources
from quell.runs.record import Record
from quell.stats import Interval, t_interval, verdict
from quell.terminal import numbers

NO_RIVAL, OTHER_BUDGET, NOT_FINISHED = "no ES", "other budget", "not finished"
"""Why a series is not compared with ES."""
SHOWN = 3
"""Settings that a label spells out; the rest are counted."""


@dataclass(frozen=True)
class Series:
    """Runs of one config, one per seed."""

    group: str
    task: str
    method: str
    """What was trained, its label, and the settings in which its series on a task differ: "cv lr 0.03"."""
    runs: list[Record]

    @property
    def steps(self) -> int:
        return self.runs[0].config.steps

    @property
    def unfinished(self) -> int:
        """Runs that have not spent their budget."""
        return sum(not run.curve["steps"] or (run.curve["steps"][-1] or 0) < self.steps for run in self.runs)

    @property
    def scores(self) -> list[float]:
        """Mean return of each final policy's mean actions, of those that were evaluated."""
        return [run.return_mean_action for run in self.runs if run.final["mean_action"]]

    @property
    def plain(self) -> bool:
        """Whether it is plain ES, whatever it is called."""
        return self.runs[0].config.method == "es"

    @property
    def interval(self) -> Interval | None:
        """Their mean, with an interval from two seeds on."""
        own = self.scores
        if len(own) < 2:
            return Interval(own[0], own[0], own[0]) if own else None
        return t_interval(own)


def all_series(sources: Sources) -> list[Series]:
    """Every run in exactly one series; of runs that are the same to the last number only the first."""
    families: dict[tuple[str, str, str], dict[tuple[str, int], list[Record]]] = {}
    for group, run in sources.runs:
        label = re.sub(r"(?:\w+\.)*([a-z_]+)=", r"\1 ", run.label).replace(",", ", ")  # a sweep's: step.lr=0.1,pairs=5
        name = f"{run.config.combination} {label}".strip()
        family = families.setdefault((group, run.config.task, name), {})
        settings = json.dumps(_without_seed(run), sort_keys=True)
        for repeat in count():  # the same seed again, with another outcome, is no further seed
            series = family.setdefault((settings, repeat), [])
            same = [other for other in series if other.config.seed == run.config.seed]
            if not same:
                series.append(run)
            if not same or (same[0].curve, same[0].final) == (run.curve, run.final):
                break
    found = []
    for (group, task, name), family in families.items():
        labels = told_apart([_without_seed(runs[0]) for runs in family.values()])
        for (_, repeat), label, runs in zip(family, labels, family.values(), strict=True):
            again = f"again {repeat}" if repeat else ""
            found.append(Series(group, task, " ".join(filter(None, (name, label, again))), runs))
    return found


def told_apart(configs: Sequence[dict[str, Any]]) -> list[str]:
    """For each config the settings in which they differ: "lr 0.03, steps 1e5"; empty for all when none does."""
    texts = [{key: setting_text(key, value) for key, value in config.items()} for config in configs]
    keys = list(dict.fromkeys(key for text in texts for key in text))
    differing = [key for key in keys if len({text[key] for text in texts if key in text}) > 1]
    for shown in (SHOWN, len(differing)):
        labels = [_label([(key, text[key]) for key in differing if key in text], shown, keys) for text in texts]
        if len(set(labels)) == len(set(map(str, texts))):
            break
    return labels


def against(series: Series, rivals: Sequence[Series]) -> tuple[Interval | None, str]:
    """P(a seed of `series` ends above one of its rival), and what the seeds allow to say of it.

    The rival is the plain ES of the same budget that has most seeds, of several the best.
    """
    plain = [one for one in rivals if one.plain and one.scores]
    if series.plain or not series.scores:
        return None, ""
    if not plain:
        return None, NO_RIVAL
    plain = [one for one in plain if one.steps == series.steps]
    if not plain:
        return None, OTHER_BUDGET
    plain = [one for one in plain if not one.unfinished]
    if series.unfinished or not plain:
        return None, NOT_FINISHED
    return verdict(series.scores, max((one.scores for one in plain), key=lambda scores: (len(scores), np.mean(scores))))


def setting_text(key: str, value: Any) -> str:
    """A setting's value as the page shows it."""
    if key == "steps":
        return numbers.steps(value)
    return value if isinstance(value, str) else json.dumps(value)


def _without_seed(run: Record) -> dict[str, Any]:
    return {key: value for key, value in flatten(run.config).items() if key != "seed"}


def _label(settings: list[tuple[str, str]], shown: int, keys: list[str]) -> str:
    ends = [key.rpartition(".")[2] for key in keys]
    parts = []
    for key, text in settings[:shown]:
        end = key.rpartition(".")[2]
        parts.append(f"{end if ends.count(end) == 1 else key} {text}")
    more = len(settings) - len(parts)
    return ", ".join(parts) + (f", +{more} more" if more else "")
