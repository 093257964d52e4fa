"""The map of regimes and the law's points, from runs to the page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import advised
import law
import numpy as np
import pytest
from regimes import METHODS, Arguments, ablation, cells, config, main, mapped, plan, read_weights, share, table, weighed

from quell.config import changed
from quell.errors import require
from quell.runs import archive
from quell.runs.record import read_group

RESULTS = Path(__file__).parents[2] / "results" / "regimes"


def test_es_is_run_once_for_all_delays_and_nothing_twice() -> None:
    jobs = plan(Arguments(seeds=2))
    names = [job.record for job in jobs]
    assert len(set(names)) == len(names)
    assert sum("-es-" in str(name) for name in names) == 6 * 2 * 2
    assert {job.config.seed for job in jobs} == {220, 221}
    for job in jobs:
        assert job.config.estimator.needs.perturbed == ("-pg-" not in str(job.record))


def test_the_table_is_made_of_the_records_and_they_of_the_settings() -> None:
    records = read_group(RESULTS)
    tables = f"{table(records, read_weights())}\n{ablation(records)}"
    assert tables == (RESULTS / "table.md").read_text()
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
        assert record.config.seed >= 220


@pytest.mark.usefixtures("jobs_in_process")
def test_from_runs_to_table_and_map(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    require("plot", "this test")
    monkeypatch.setattr("regimes.ENOUGH", 1)
    few = Arguments(("swimmer",), ("linear",), (1, 1000), tuple(METHODS), 1, steps=3000, episodes=1)
    few.out, few.runs = tmp_path / "out", tmp_path / "runs"
    for _ in range(2):  # the second time there is nothing to do
        with pytest.raises(SystemExit) as ended:
            main(few)
        assert not ended.value.code
    assert len(archive.read(tmp_path / "out")) == 5
    weights = read_weights(tmp_path / "out")
    assert [one["delay"] for one in weights] == [1, 1000]
    assert all(0 <= one["share"] <= 1 for one in weights)
    assert (tmp_path / "out" / "map.png").exists()
    assert capsys.readouterr().out.count("| swimmer | linear |") == 4
    found = cells(read_group(tmp_path / "out"))
    assert found["swimmer", "linear", 1]["es"] == found["swimmer", "linear", 1000]["es"]


def test_what_is_said_of_all_cells_together() -> None:
    """CV at 0.9 of the better of two in one cell and 1.1 in another, which is ES in one and the policy gradient in
    the other; where all seeds are alike nothing varies, and where they are not the interval holds the mean."""
    even = {
        ("swimmer", "linear", 1): {"es": [50.0] * 4, "pg": [100.0] * 4, "cv": [90.0] * 4},
        ("swimmer", "linear", 1000): {"es": [10.0] * 4, "pg": [5.0] * 4, "cv": [11.0] * 4},
    }
    assert share(even).value == pytest.approx(1.0)
    assert share(even).low == pytest.approx(share(even).high)
    rng = np.random.default_rng(0)
    noisy = {cell: {name: list(rng.normal(100, 20, 8)) for name in METHODS} for cell in even}
    found = share(noisy)
    assert found.low < found.value < found.high
    assert 0.05 < found.high - found.low < 0.5
    assert set(mapped({("swimmer", "linear", 1): {"es": [1.0]}})) == set()


def test_advice_is_held_against_what_was_measured() -> None:
    said = {"task": "swimmer", "share": 0.95, "seconds": 9.0}
    advice = [
        {**said, "delay": delay, "verdict": verdict} for delay, verdict in ((1, "es"), (50, "both"), (1000, "es"))
    ]
    scores = {"es": [5.0, 7.0], "pg": [8.0, 9.0], "cv": [7.0]}
    found = {("swimmer", "linear", 1): scores, ("swimmer", "linear", 50): scores}
    first, second, third = advised.table(advice, found).splitlines()[2:]
    assert first == "| swimmer | 1 | 0.95 | 9 | es | 6 | 8 | 7 | no: policy gradient |"
    assert second.endswith("| either |")
    assert third.endswith("| not run | not run | not run |  |")


def test_a_weight_is_said_at_the_size_that_was_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """The law's ratio of noise goes as 1 / size: 4 at one nat is 2 at two."""
    weights = [{"task": "swimmer", "policy": "linear", "delay": 1, "seed": s, "share": 0.1} for s in (1, 2)]
    beside = [{"gamma": 0.995, "predicted": 4.0, "measured": {"value": 2.0}}, {"gamma": 1.0}]
    points = [{"task": "swimmer", "policy": "linear", "delay": 1, "nats": 1.0, "beside": beside}]
    assert weighed(weights, points).splitlines()[2] == "| swimmer | linear | 1 | 0.10 | 0.20 | 0.33 |"
    monkeypatch.setattr("regimes.NATS", 2.0)
    assert weighed(weights, points).splitlines()[2] == "| swimmer | linear | 1 | 0.10 | 0.33 | 0.50 |"


def test_the_law_is_shown_as_it_was_measured() -> None:
    points: list[dict[str, Any]] = json.loads((RESULTS / "law.json").read_text())
    assert len({(one["task"], one["policy"], one["delay"]) for one in points}) >= 12
    page = (RESULTS / "README.md").read_text()
    assert law.table(points) in page
