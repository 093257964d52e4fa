"""Records: written, read in all their shapes, thinned."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_up import made_up

import quell
from quell.config import to_dict
from quell.errors import UsageError
from quell.runs import Run
from quell.runs.record import comparable, from_folder, read, read_group, thin, variance_ratio

RESULTS = Path(__file__).parents[2] / "results"
ROWS = [
    {"iteration": i + 1, "steps": 10 * (i + 1), "return/mean": float(i), "variance/es": 2.0, "variance/method": 1.0}
    for i in range(6)
]


def test_thin_curves_keep_the_mean() -> None:
    rows = [dict(row) for row in ROWS]
    rows[3] |= {"eval/return": 7.0, "eval/mean_action": 8.0}
    curve = thin(rows, points=3)
    assert curve["steps"] == [20, 40, 60]
    assert curve["return"] == [0.5, 2.5, 4.5]
    assert curve["ratio"] == [0.5, 0.5, 0.5]
    assert curve["evaluation"] == [None, 7.0, None]
    assert curve["mean_action"] == [None, 8.0, None]
    assert thin([])["steps"] == []


def measured(iteration: int, es: float | None, method: float | None, **more: float) -> dict[str, Any]:
    found = {"iteration": iteration, "steps": 10 * iteration, "return/mean": 0.0}
    return {**found, "variance/es": es, "variance/method": method, **{f"variance/{k}": v for k, v in more.items()}}


def test_the_variance_ratio_has_one_metric_and_no_flat_batches() -> None:
    """The sum of the method's variances over the sum of ES's: rows of the natural step's metric where there are any."""
    first = measured(1, 2.0, 1.8, in_step_metric=0.0)
    natural = [measured(2, 100.0, 0.1, in_step_metric=1.0), measured(3, 300.0, 0.7, in_step_metric=1.0)]
    flat = {**measured(4, 0.0, 5.0, in_step_metric=1.0), "trouble/flat": 1.0}
    unknown = [measured(5, None, None), measured(6, math.nan, math.nan, in_step_metric=1.0), {"iteration": 7}]
    rows = [first, *natural, flat, *unknown]
    assert comparable(rows) == natural
    assert variance_ratio(rows) == 0.8 / 400
    assert variance_ratio([first, {**flat, "variance/in_step_metric": 0.0}]) == 0.9
    for nothing in ([], [flat], unknown):
        assert variance_ratio(nothing) is None


def test_a_thinned_curve_keeps_to_the_metric_of_the_whole_run() -> None:
    rows = [measured(1, 2.0, 1.8), *(measured(i, 100.0, i / 10, in_step_metric=1.0) for i in (2, 3))]
    assert thin(rows)["ratio"] == [None, 0.002, 0.003]


def test_records_survive_a_round_trip(tmp_path: Path) -> None:
    run = made_up("swimmer", "cv", 3, 12.5)
    run.write(tmp_path / "a.json")
    assert to_dict(read(tmp_path / "a.json").config) == to_dict(run.config)
    assert read(tmp_path / "a.json") == run


def test_labels_tell_runs_of_one_method_apart(tmp_path: Path) -> None:
    run = replace(made_up("swimmer", "cv", 3, 12.5), label="auto", variance=0.5)
    run.write(tmp_path / "a.json")
    assert read(tmp_path / "a.json") == run
    assert (run.name, made_up("swimmer", "cv", 3, 12.5).name) == ("cv-auto", "cv")


def test_series_leave_out_what_is_missing() -> None:
    assert made_up("swimmer", "cv", 0, 8.0).series("evaluation") == ([20_000, 40_000], [4.0, 8.0])


def test_a_record_without_label_and_variance(tmp_path: Path) -> None:
    """As `quell paper` wrote them at first."""
    run = made_up("swimmer", "cv", 3, 12.5)
    run.write(tmp_path / "a.json")
    facts = json.loads((tmp_path / "a.json").read_text())
    del facts["label"], facts["variance"], facts["curve"]["mean_action"]
    (tmp_path / "a.json").write_text(json.dumps(facts))
    old = read(tmp_path / "a.json")
    assert replace(old, curve=run.curve) == run
    assert old.curve == {**run.curve, "mean_action": [None] * 4}


def test_a_record_with_its_whole_history(tmp_path: Path) -> None:
    """As benchmarks/learning.py wrote them at first."""
    config = made_up("swimmer", "cv", 0, 1.0).config
    facts = {
        "label": "auto",
        "config": to_dict(config),
        "versions": {},
        "final": {"sampled": [1.0, 3.0], "mean_action": [7.0]},
        "history": {name: [row[name] for row in ROWS] for name in ROWS[0]},
    }
    (tmp_path / "a.json").write_text(json.dumps(facts))
    run = read(tmp_path / "a.json")
    assert (run.name, run.label, run.untrained, run.variance) == ("cv-auto", "auto", [], 0.5)
    assert (run.return_sampled, run.return_mean_action) == (2.0, 7.0)
    assert run.curve == thin(ROWS)


def test_every_committed_record_can_be_read() -> None:
    for group in (RESULTS / "paper").glob("paper-*"):
        assert all(run.untrained and run.curve["steps"] for run in read_group(group))
    learned = read_group(RESULTS / "learning")
    assert {"custom-moments", "cv", "es"} <= {run.name for run in learned}


def test_a_folder_is_a_record_too(tmp_path: Path) -> None:
    small: dict[str, Any] = {"horizon": 20, "pairs": 2, "batch_steps": 0, "steps": 240, "eval_episodes": 1}
    small["eval_every"] = 1
    result = quell.train("lqr-302", method="cv", workers=1, out=tmp_path, name="a", progress=False, **small)
    run = from_folder(Run.open(result.path))
    assert (run.return_sampled, run.return_mean_action) == tuple(map(result.last, ("eval/return", "eval/mean_action")))
    assert run.curve["steps"] == [80, 160, 240]
    assert run.variance == variance_ratio(result.history)


def test_malformed_records_are_refused(tmp_path: Path) -> None:
    for text in ("{", "[]", '{"config": {}}', '{"config": {"task": "lqr"}, "final": {}}'):
        (tmp_path / "a.json").write_text(text)
        with pytest.raises(UsageError, match="is not the record of a run"):
            read(tmp_path / "a.json")
