"""The measurement of tasks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from task_speed import COLUMNS, Arguments, main


def test_every_engine_that_has_the_task_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = tmp_path / "speeds.json"
    main(Arguments(("inverted-pendulum", "lqr-302"), seconds=0.05, workers=1, json=where))
    assert "physics" in capsys.readouterr().out
    rates = json.loads(where.read_text())
    pendulum, lqr = rates["inverted-pendulum"], rates["lqr-302"]
    assert tuple(pendulum) == COLUMNS
    assert all(value > 0 for value in pendulum.values())
    of_medians = pendulum["ours"] / max(pendulum["envpool"], pendulum["async"])  # the ratio is a median of ratios
    assert 0.25 < pendulum["ratio"] / of_medians < 4
    assert [name for name, value in lqr.items() if value is not None] == ["ours"]
