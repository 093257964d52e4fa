"""Runs that saw no reward: every summary ends well, and says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from quell.api import load
from quell.campaign.child import record_of
from quell.cli import main

pytestmark = pytest.mark.usefixtures("in_process")
TIMID = ["--init-std", "0.37", "--shared-reset"]
"""So little action noise, and so few places to begin in, that one batch of the control variate sees no reward."""
FEW = ["--pairs", "2", "--sigma", "0.02"]
"""So few episodes, and so alike, that one batch of ES sees none."""


@pytest.mark.parametrize("task", ["dm-pendulum-swingup", pytest.param("dm-hopper-hop", marks=pytest.mark.slow)])
def test_a_run_without_reward_says_so(task: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("dm_control")
    assert (
        main(["train", task, "--method", "natural-cv", *TIMID, "--steps", "1", "--out", str(tmp_path), "--name", "x"])
        == 0
    )
    assert "no reward was seen" in capsys.readouterr().out


def test_tables_figures_and_pages_of_such_runs_are_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("dm_control")
    pytest.importorskip("matplotlib")
    summaries = tmp_path / "results" / "tuned-1" / "records"
    for method in ("es", "natural-cv"):
        arguments = ["--method", method, "--steps", "1", "--out", str(tmp_path / "runs"), "--name", "x"]
        assert main(["train", "dm-pendulum-swingup", *arguments, *(TIMID if method == "natural-cv" else FEW)]) == 0
        path = tmp_path / "runs" / "dm-pendulum-swingup" / method / "x"
        record_of(load(path), 2, "").write(summaries / f"dm-pendulum-swingup-{method}-0.json")
        assert main(["eval", str(path), "--episodes", "2", "--workers", "1"]) == 0
        assert main(["report", str(path), "--out", str(tmp_path / f"{method}.html")]) == 0
    assert main(["paper", "render", "--out", str(tmp_path / "results")]) == 0
    assert "0.0 (no reward)" in (tmp_path / "es.html").read_text()
    assert "no reward was seen" in (tmp_path / "results" / "tuned-1" / "fig-curves.svg").read_text()
    assert "**0.0 (no reward)**" in (tmp_path / "results" / "tuned-1" / "table-es.md").read_text()
