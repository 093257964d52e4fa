"""Many runs: planned, run in processes of their own, stopped, killed and continued."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from quell.campaign.plan import Budget, Job
from quell.cli import main
from quell.commands.paper import Arguments, planned
from quell.runs import Run, archive
from quell.runs.record import read
from quell.training.methods import make_config

TINY = ["--budget", "0.0002", "--seeds", "1", "--episodes", "1", "--jobs", "2"]


def files(folder: Path) -> dict[str, bytes]:
    """Everything that must not depend on when and how often a command ran."""
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return {name: data for name, data in found.items() if not name.endswith("timings.jsonl")}


def test_budgets() -> None:
    assert Budget.parse(0.05, ()).of("swimmer", 20_000_000) == 1_000_000
    assert Budget.parse(0.05, ()).of("lqr", 4_000_000) == 200_000
    assert Budget.parse(0.05, ()).name == "0.05"
    mixed = Budget.parse(1.0, ("1e6", "dm-quadruped-escape=1e5"))
    assert (mixed.of("lqr", 1), mixed.of("dm-quadruped-escape", 1), mixed.name) == (1_000_000, 100_000, "1000000")


def test_jobs(tmp_path: Path) -> None:
    what: dict[str, Any] = {"tasks": ("lqr-302", "gym:CartPole-v1"), "methods": ("es", "cv"), "seeds": 2, "episodes": 3}
    jobs = planned(Arguments("table-es", **what, budget=0.5, out=tmp_path / "out", runs=tmp_path / "runs"))
    assert [job.title for job in jobs[:3]] == [
        "lqr-302 es paper seed 0",
        "lqr-302 cv paper seed 0",
        "gym:CartPole-v1 es paper seed 0",
    ]
    assert [job.config.steps for job in jobs[:3]] == [2_000_000, 2_000_000, 10_000_000]
    assert jobs[2].record == tmp_path / "out/paper-0.5/records/gym-CartPole-v1-es-0.json"
    assert jobs[2].timings == tmp_path / "out/paper-0.5/timings.jsonl"
    assert {job.config.seed for job in jobs[:4]} == {0}, "one seed of everything comes first"
    assert len({job.record for job in jobs}) == len({job.title for job in jobs}) == 8
    assert Job.decode(jobs[2].encode()) == jobs[2]
    labelled = Job(jobs[0].config, tmp_path, tmp_path / "learning/records/a.json", 3, label="auto")
    assert labelled.title == "lqr-302 es-auto paper seed 0"
    assert labelled.timings == tmp_path / "learning/timings.jsonl"
    assert Job.decode(labelled.encode()) == labelled


def command(tmp_path: Path, *more: str) -> list[str]:
    return ["paper", "table-es", *TINY, "--out", str(tmp_path / "out"), "--runs", str(tmp_path / "runs"), *more]


def test_a_failing_run_is_reported_and_stops_no_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = make_config("lqr-302", "es", "paper", {"steps": 800, "lr": 0.5})
    Run.create(other, tmp_path / "runs/paper-0.0002", "seed0").close()
    arguments = command(tmp_path, "--tasks", "lqr-302", "--methods", "es", "ortho")
    assert main(arguments) == 1
    told = capsys.readouterr()
    assert "FAILED  lqr-302 es paper seed 0:" in told.err
    assert "holds a run with another step.lr" in told.err
    group = tmp_path / "out/paper-0.0002"
    assert archive.read(group).keys() == {"lqr-302-ortho-0"}
    assert not (group / "records").exists()
    assert (tmp_path / "out/paper-0.0002/table-es.md").exists()
    run = read(archive.loose(group, "lqr-302-ortho-0"))
    assert run.config.preset == "paper"
    assert len(run.final["sampled"]) == len(run.untrained) == 1
    before = files(tmp_path / "out")
    assert main(command(tmp_path, "--tasks", "lqr-302", "--methods", "ortho")) == 0
    assert "1 runs, 1 of them done" in capsys.readouterr().out
    assert files(tmp_path / "out") == before


@pytest.mark.slow
def test_killed_at_random_moments_the_files_are_the_same(tmp_path: Path) -> None:
    more = ["--tasks", "lqr-302", "swimmer", "--methods", "es", "cv", "--steps", "30000"]

    def arguments(where: str) -> list[str]:
        tiny = [*TINY[2:], "--out", str(tmp_path / where), "--runs", str(tmp_path / f"{where}-runs")]
        return [sys.executable, "-m", "quell", "paper", "table-es", *tiny, *more]

    assert subprocess.run(arguments("whole"), capture_output=True).returncode == 0
    dice = random.Random(0)
    for attempt in range(8):
        running = subprocess.Popen(arguments("broken"), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        time.sleep(dice.uniform(0.5, 7))
        running.send_signal(signal.SIGKILL if attempt % 2 else signal.SIGTERM)
        assert running.wait(timeout=60) in (-signal.SIGKILL, -signal.SIGTERM, 130, 0)
    assert subprocess.run(arguments("broken"), capture_output=True).returncode == 0
    assert files(tmp_path / "whole") == files(tmp_path / "broken")
