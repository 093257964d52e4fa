"""metrics.jsonl: defined names only, JSON without NaN, and continued behind the last checkpoint."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

import quell
from quell.runs.metrics import METRICS, MetricsWriter


def rows(folder: Path) -> list[dict[str, float | None]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_the_definitions_are_public() -> None:
    assert quell.metrics.METRICS is METRICS


def test_rows_are_written_and_those_after_a_checkpoint_dropped(tmp_path: Path) -> None:
    writer = MetricsWriter(tmp_path)
    for iteration in (1, 2, 3):
        writer.write({"iteration": iteration, "steps": 10 * iteration, "return/mean": math.nan})
    writer.close()
    assert rows(tmp_path)[0] == {"iteration": 1, "steps": 10, "return/mean": None}
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"iteration": 4, "st')  # killed while writing
    writer = MetricsWriter(tmp_path, after=2)
    writer.write({"iteration": 3, "steps": 31})
    writer.close()
    assert [row["steps"] for row in rows(tmp_path)] == [10, 20, 31]


def test_a_metric_needs_a_definition(tmp_path: Path) -> None:
    writer = MetricsWriter(tmp_path)
    with pytest.raises(AssertionError, match="without a definition"):
        writer.write({"iteration": 1, "steps": 1, "retrun": 0.0})
    writer.close()
