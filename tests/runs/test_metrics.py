"""metrics.jsonl: defined names only, JSON without NaN, and continued behind the last checkpoint."""

from __future__ import annotations

import csv
import json
import math
import tracemalloc
from pathlib import Path

import quell
from quell.runs.metrics import METRICS, Board, MetricsWriter


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


def test_going_on_takes_little_memory_however_long_the_history(tmp_path: Path) -> None:
    line = json.dumps(dict.fromkeys(METRICS, 1.0) | {"steps": 1})
    with (tmp_path / "metrics.jsonl").open("w") as file:
        file.writelines(line.replace('"iteration": 1.0', f'"iteration": {i}') + "\n" for i in range(1, 2001))
    size = (tmp_path / "metrics.jsonl").stat().st_size
    MetricsWriter(tmp_path, after=5000).close()  # import all there is to import
    tracemalloc.start()
    writer = MetricsWriter(tmp_path, after=5000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    writer.close()
    assert (tmp_path / "metrics.jsonl").stat().st_size == size > 1_500_000
    assert (tmp_path / "metrics.csv").read_text().count("\n") == 2001
    assert peak < size / 2


def test_rows_out_of_order_end_the_history(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text("".join(f'{{"iteration": {i}, "steps": 1}}\n' for i in (1, 2, 2, 3)))
    MetricsWriter(tmp_path, after=9).close()
    assert [row["iteration"] for row in rows(tmp_path)] == [1, 2]


def test_the_table_has_the_same_numbers_steps_first(tmp_path: Path) -> None:
    """Every metric has a column, empty where a row has none; a resumed run's table is that of an uninterrupted one."""
    for folder, after in ((tmp_path / "whole", [3]), (tmp_path / "resumed", [2, 3])):
        folder.mkdir()
        begin = 0
        for end in after:
            writer = MetricsWriter(folder, after=begin)
            for iteration in range(begin + 1, end + 1 + (end < 3)):  # one more than is kept
                value = math.inf if iteration == 2 else iteration / 8
                writer.write({"iteration": iteration, "steps": 10 * iteration, "eval/return": value})
            writer.close()
            begin = end
        with (folder / "metrics.csv").open(newline="") as file:
            table = list(csv.DictReader(file))
        assert next(iter(table[0])) == "steps"
        assert table[0].keys() == METRICS.keys()
        assert [row["steps"] for row in table] == ["10", "20", "30"]
        assert [row["eval/return"] for row in table] == ["0.125", "", "0.375"]
        assert [row["gradient/norm"] for row in table] == [""] * 3


def test_a_metric_that_nobody_defined_is_kept_where_columns_are_free(tmp_path: Path) -> None:
    writer = MetricsWriter(tmp_path, metrics={"steps": "", "own": ""})
    writer.write({"iteration": 1, "steps": 1, "own": 2.0, "undefined": 3.0})
    writer.close()
    assert rows(tmp_path) == [{"iteration": 1, "steps": 1, "own": 2.0, "undefined": 3.0}]
    assert (tmp_path / "metrics.csv").read_text().splitlines() == ["steps,own", "1,2.0"]


def test_tensorboards_file_is_what_tensorboardx_would_write(tmp_path: Path) -> None:
    """A record of the same bytes, with its checksums; a row is one event."""
    from tensorboardX.proto.event_pb2 import Event
    from tensorboardX.record_writer import RecordWriter

    board = Board(tmp_path, 0)
    board.write({"steps": 100, "speed": 1.5, "return/mean": math.nan, "return/std": 2.0})
    board.close()
    (path,) = tmp_path.iterdir()
    data, at, events = path.read_bytes(), 0, []
    other = RecordWriter(str(tmp_path / "other"))
    while at < len(data):
        length = int.from_bytes(data[at : at + 8], "little")
        events.append(Event.FromString(data[at + 12 : at + 12 + length]))
        other.write(data[at + 12 : at + 12 + length])
        at += 16 + length
    other.close()
    assert (tmp_path / "other").read_bytes() == data
    assert events[0].file_version == "brain.Event:2"
    assert {one.tag: one.simple_value for one in events[-1].summary.value} == {"speed": 1.5, "return/std": 2.0}
    assert events[-1].step == 100
