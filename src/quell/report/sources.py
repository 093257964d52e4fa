"""What a report can be made of: run folders, summaries of `quell paper`, measurements of `quell variance`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from quell.config import Config, from_dict
from quell.errors import QuellError, UsageError
from quell.paper.summary import Summary, thin
from quell.runs import Run


@dataclass(frozen=True)
class Shown:
    """A run as the page shows it."""

    group: str
    config: Config
    curve: dict[str, list[float | None]]
    sampled: list[float]
    """Returns of the final policy, actions sampled (one mean where the episodes were not kept)."""
    mean_action: list[float]
    untrained: list[float]


@dataclass
class Sources:
    """Everything that was found."""

    runs: list[Shown] = field(default_factory=list)
    summaries: dict[str, list[Summary]] = field(default_factory=dict)
    """Results folder -> its summaries, from which tables are made."""
    measurements: list[dict[str, Any]] = field(default_factory=list)


def gather(paths: Iterable[Path]) -> Sources:
    """All runs and measurements in the given folders and files, however deep."""
    found = Sources()
    for path in paths:
        if not path.exists():
            raise UsageError(f"{str(path)!r} does not exist")
        for file in [path] if path.is_file() else sorted(path.rglob("*.json")):
            if "checkpoints" not in file.parts:
                _take(file, found)
    if not (found.runs or found.measurements):
        raise UsageError(
            f"no run, summary or measurement in {', '.join(map(str, paths))}; give run folders or a results folder"
        )
    found.runs.sort(key=lambda run: (run.group, run.config.task, run.config.method, run.config.seed))
    return found


def _take(file: Path, found: Sources) -> None:
    """Add one file, if it is something we know."""
    try:
        facts = json.loads(file.read_bytes())
        if not isinstance(facts, dict):
            return
        if file.name == "config.json":
            found.runs.append(_run_folder(Run.open(file.parent)))
        elif {"config", "final", "curve"} <= facts.keys():
            _add_summary(file, facts, found)
        elif {"config", "final", "history"} <= facts.keys():
            found.runs.append(_learning(file, facts))
        elif {"task", "at", "rows"} <= facts.keys():
            found.measurements.append(facts)
    except (OSError, ValueError, KeyError, TypeError, QuellError) as error:
        raise UsageError(f"{str(file)!r} cannot be read: {error}") from None


def _add_summary(file: Path, facts: dict[str, Any], found: Sources) -> None:
    group = file.parent.parent.name
    config = from_dict(facts["config"])
    run = Summary(config, facts["versions"], facts["final"], facts["untrained"], facts["curve"])
    found.summaries.setdefault(group, []).append(run)
    final = run.final
    found.runs.append(Shown(group, config, run.curve, final["sampled"], final["mean_action"], run.untrained))


def _run_folder(run: Run) -> Shown:
    history = list(run.metrics())
    last = [[row[name] for row in history if row.get(name) is not None][-1:] for name in _EVALUATED]
    return Shown("runs", run.config, thin(history), last[0], last[1], [])


def _learning(file: Path, facts: dict[str, Any]) -> Shown:
    """A file of benchmarks/learning.py."""
    columns: dict[str, Sequence[Any]] = facts["history"]
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    config = from_dict(facts["config"])
    final = facts["final"]
    return Shown(f"{file.parent.name}, {config.preset}", config, thin(rows), final["sampled"], final["mean_action"], [])


_EVALUATED = ("eval/return", "eval/mean_action")


def mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None
