"""benchmarks/horizons.py: a campaign that is stopped goes on where it was, and what its table makes of the runs."""

from __future__ import annotations

import argparse
import gzip
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import horizons
import pytest

RUN: dict[str, Any] = {"task": "swimmer", "method": "es", "horizon": 200, "set": {}, "seed": 100, "steps": 90}
CURVE = [[30, 30, 310.0], [60, 60, 320.0], [90, 90, 100.0]]


def test_the_table_has_the_first_of_two_policies_that_reach_a_target_and_the_last_score() -> None:
    never = {**RUN, "seed": 101, "curve": [[90, 90, 200.0]]}
    also = {**RUN, "seed": 102, "curve": CURVE}
    found = horizons.table([{**RUN, "curve": CURVE}, never, also, {**RUN, "horizon": 0, "curve": CURVE}])
    assert "| swimmer | es | 200 | 3 | 300: 30 (2) | 133 ± 47 |" in found
    assert "| swimmer | es | full | 1 | 300: 30 (1) | 100 ± 0 |" in found


def test_settings_that_differ_are_a_row_of_their_own() -> None:
    found = horizons.table([{**RUN, "curve": CURVE}, {**RUN, "set": {"step.lr": 0.1}, "curve": CURVE}])
    assert "| es | 200 | 1 |" in found
    assert "| es, step.lr 0.1 | 200 | 1 |" in found


def test_a_campaign_runs_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, ran = tmp_path / "runs.jsonl.gz", []

    def run(command: list[str], **_: Any) -> SimpleNamespace:
        ran.append(json.loads(command[-1]))
        return SimpleNamespace(returncode=0, stdout=json.dumps({**ran[-1], "curve": CURVE}) + "\n")

    monkeypatch.setattr(horizons.subprocess, "run", run)
    with gzip.open(out, "wt") as file:
        file.write(json.dumps({**RUN, "curve": CURVE}) + "\n")
    given = argparse.Namespace(out=out, set="{}", tasks=["swimmer"], methods=["es"], horizons=[0, 200], jobs=1)
    given.first_seed, given.seeds, given.steps = 100, 2, 90
    for _ in range(2):
        horizons.campaign(given)
    assert [(case["horizon"], case["seed"]) for case in ran] == [(0, 100), (0, 101), (200, 101)]
    assert len(horizons.read(out)) == 4
