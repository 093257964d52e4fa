"""What a campaign's command returns: a signal's code if one stopped it, 1 if a run failed, 0 if all is done."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from quell.campaign.plan import Job
from quell.campaign.runner import Outcome, Runner
from quell.cli import main

TINY = ["--steps", "400", "--episodes", "1", "--jobs", "1"]


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Every campaign is stopped by SIGTERM before its first run ends; how many jobs each had."""
    seen: list[int] = []

    def run(runner: Runner, jobs: Sequence[Job]) -> list[Outcome]:
        seen.append(len(jobs))
        runner.signal = signal.SIGTERM
        return [Outcome(job, "stopped") for job in jobs]

    monkeypatch.setattr(Runner, "run", run)
    return seen


@pytest.mark.parametrize(
    "command",
    [
        ["train", "lqr", "--method", "es", "--steps", "400", "--seeds", "2"],
        ["sweep", "lqr", "--method", "es", "--steps", "400", "--grid", "lr=0.1"],
        ["benchmark", "--tasks", "lqr", "--methods", "es", "--runs", "runs", *TINY],
        ["tune", "lqr", "--method", "es", "--trials", "2", "--runs", "runs", *TINY],
        ["paper", "table-es", "--tasks", "lqr", "--seeds", "1", "--runs", "runs", *TINY],
    ],
    ids=lambda words: words[0],
)
def test_a_signal_is_told_in_the_exit_code(
    command: list[str], stopped: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        code = main([*command, "--out", "out"])
    except SystemExit as end:
        code = int(str(end.code))
    assert code == 143
    assert len(stopped) == 1, "what comes next is not begun"


def test_exit_codes_of_outcomes() -> None:
    job = None
    runner = Runner(1, None)  # type: ignore[arg-type]
    for statuses, code in [(["done"], 0), (["done", "failed"], 1), (["failed", "stopped"], 130), ([], 0)]:
        assert runner.exit_code([Outcome(job, status) for status in statuses]) == code  # type: ignore[arg-type]
    runner.signal = signal.SIGTERM
    assert runner.exit_code([Outcome(job, "stopped")]) == 143  # type: ignore[arg-type]
    assert runner.exit_code([Outcome(job, "done")]) == 0, "it came too late"  # type: ignore[arg-type]
