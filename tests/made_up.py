"""Records of runs that never ran, for the tests of tables, figures and the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from quell.campaign.plan import record_path
from quell.paper.columns import label_of, settings_of
from quell.runs.record import Record
from quell.training.methods import make_config

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"


def made_up(task: str, method: str, seed: int, score: float, start: float = 0.0, **settings: Any) -> Record:
    """A run from `start` to `score` in four even steps."""
    config = make_config(task, method, "paper", {"seed": seed, "steps": 40_000, **settings})
    returns: list[float | None] = [start + (score - start) * share for share in (0.25, 0.5, 0.75, 1.0)]
    ratio: list[float | None] = [0.5 if method == "cv" else 1.0] * 4
    curve: dict[str, list[float | None]] = {
        "iteration": [1, 2, 3, 4],
        "steps": [10_000, 20_000, 30_000, 40_000],
        "return": returns,
        "ratio": ratio,
        "evaluation": [None, returns[1], None, returns[3]],
        "mean_action": [None, returns[1], None, returns[3]],
    }
    final = {"sampled": [score - 1, score + 1], "mean_action": [score, score]}
    return Record(config, {"python": "3", "packages": {}}, final, [start, start], curve)


def made_up_column(task: str, column: str, seed: int, score: float, **settings: Any) -> Record:
    """A run of a column of `quell.paper.columns`."""
    method, own = settings_of(column)
    run = made_up(task, method, seed, score, **own, **settings)
    return replace(run, label=label_of(column, run.config))


def write_group(out: Path, runs: list[Record], name: str = "paper-0.002") -> Path:
    """A results folder that holds them."""
    for run in runs:
        run.write(record_path(out / name, run.config))
    return out / name


def seeds_of(method: str, values: Sequence[float], runs: Path, *, task: str = "swimmer", **settings: Any) -> Path:
    """What `quell train TASK --method METHOD --seeds N` leaves."""
    folder = runs / "seeds" / f"{task}-{method}"
    for seed, value in enumerate(values):
        run = made_up(task, method, seed, value, **settings)
        run.write(folder / "records" / f"{task}-{method}-{seed}.json")
    return folder


def small_group(out: Path) -> Path:
    """Two tasks, three methods, two seeds."""
    scores = {"swimmer": {"es": 100, "cv": 200, "pg": -10}, "halfcheetah": {"es": 1000, "cv": 900, "pg": 5}}
    runs = [
        made_up(task, method, seed, score + 10 * seed)
        for task, row in scores.items()
        for method, score in row.items()
        for seed in (0, 1)
    ]
    return write_group(out, runs)
