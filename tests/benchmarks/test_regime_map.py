"""The map of regimes and the law's points, from runs to the page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import law
import pytest
from regimes import METHODS, Arguments, cells, config, main, plan, table

from quell.config import changed
from quell.errors import require
from quell.runs import archive
from quell.runs.record import read_group

RESULTS = Path(__file__).parents[2] / "results" / "regimes"


def test_es_is_run_once_for_all_delays_and_nothing_twice() -> None:
    jobs = plan(Arguments(seeds=2))
    names = [job.record for job in jobs]
    assert len(set(names)) == len(names)
    assert sum("-es-" in str(name) for name in names) == 3 * 2 * 2
    assert {job.config.seed for job in jobs} == {200, 201}
    for job in jobs:
        assert job.config.estimator.needs.perturbed == ("-pg-" not in str(job.record))


def test_the_table_is_made_of_the_records_and_they_of_the_settings() -> None:
    records = read_group(RESULTS)
    assert table(records) == (RESULTS / "table.md").read_text()
    for record in records:
        policy, delay, method = record.label.split("-", 2)
        today = config(
            record.config.task,
            policy,
            int(delay.removeprefix("delay")),
            method,
            record.config.seed,
            record.config.steps,
        )
        assert changed(record.config, today) == [], (record.config.task, record.label)
        assert record.config.seed >= 200


@pytest.mark.usefixtures("jobs_in_process")
def test_from_runs_to_table_and_map(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    require("plot", "this test")
    few = Arguments(("swimmer",), ("linear",), (1, 1000), tuple(METHODS), 1, steps=3000, episodes=1)
    few.out, few.runs = tmp_path / "out", tmp_path / "runs"
    for _ in range(2):  # the second time there is nothing to do
        with pytest.raises(SystemExit) as ended:
            main(few)
        assert not ended.value.code
    assert len(archive.read(tmp_path / "out")) == 5
    assert (tmp_path / "out" / "map.png").exists()
    assert capsys.readouterr().out.count("| swimmer | linear |") == 4
    found = cells(read_group(tmp_path / "out"))
    assert found["swimmer", "linear", 1]["es"] == found["swimmer", "linear", 1000]["es"]


def test_the_law_is_shown_as_it_was_measured() -> None:
    points: list[dict[str, Any]] = json.loads((RESULTS / "law.json").read_text())
    assert len({(one["task"], one["policy"], one["delay"]) for one in points}) >= 12
    page = (RESULTS / "README.md").read_text()
    assert law.table(points) in page
