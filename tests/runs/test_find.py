"""Runs in a folder: which is the newest, and how each stands."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from quell.errors import UsageError
from quell.runs import Run
from quell.runs.find import newest, run_folders, standing
from quell.training.methods import make_config


def make(root: Path, task: str, name: str, *, wrote: float, rows: list[dict[str, float]]) -> Path:
    with Run.create(make_config(task, "es", overrides={"steps": 100}), root, name) as run:
        (run.path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        for file in ("metrics.jsonl", "config.json"):
            os.utime(run.path / file, (wrote, wrote))
        return run.path


def test_the_newest_is_the_one_that_wrote_last(tmp_path: Path) -> None:
    old = make(tmp_path, "hopper", "z", wrote=1000, rows=[])
    new = make(tmp_path, "hopper", "a", wrote=3000, rows=[])
    other = make(tmp_path, "lqr", "b", wrote=2000, rows=[])
    assert run_folders(tmp_path) == [new, other, old]
    assert newest(tmp_path) == (new, 3)
    assert newest(tmp_path / "lqr") == (other, 1)
    assert newest(old) == (old, 1), "a run itself"
    with pytest.raises(UsageError, match="is not a run folder, and none is below it"):
        newest(tmp_path / "nowhere")


def test_links_and_what_a_run_holds_are_not_looked_into(tmp_path: Path) -> None:
    elsewhere = make(tmp_path / "elsewhere", "hopper", "a", wrote=1000, rows=[])
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "link").symlink_to(elsewhere)
    (inside / "checkpoints").mkdir()
    (inside / "checkpoints/config.json").write_text("{}")
    assert run_folders(inside) == []


def test_how_a_run_stands(tmp_path: Path) -> None:
    rows: list[dict[str, float]] = [
        {"iteration": 1, "steps": 40, "eval/mean_action": 3.0},
        {"iteration": 2, "steps": 80},
    ]
    path = make(tmp_path, "hopper", "a", wrote=1000, rows=rows)
    seen = standing(path)
    assert seen is not None
    assert (seen.steps, seen.score, seen.state, seen.changed) == (80, 3.0, "interrupted", 1000)
    with Run.open(path) as run:
        run.lock()
        assert standing(path).state == "running"  # type: ignore[union-attr]
    assert standing(path).state == "interrupted"  # type: ignore[union-attr]
    with (path / "metrics.jsonl").open("a") as file:
        file.write('{"iteration": 3, "steps": 120}\n{"iteration": 4, "st')
    assert standing(path).state == "finished"  # type: ignore[union-attr]
    assert standing(make(tmp_path, "hopper", "b", wrote=1, rows=[])).score is None  # type: ignore[union-attr]
    (path / "config.json").write_text("[")
    assert standing(path) is None
