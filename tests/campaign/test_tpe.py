"""A search whose trials learn from each other, stopped and continued."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from pretended import pretend

from quell.campaign.tpe import TpeSearch
from quell.campaign.tune import search
from quell.cli import main
from quell.errors import EXTRAS, UsageError

has_optuna = pytest.mark.skipif(
    not __import__("importlib.util").util.find_spec("optuna"), reason="needs the extra tune"
)


class Ran:
    """Pretends to do jobs, whose scores are higher the nearer the learning rate is to 0.01; may be cut short."""

    def __init__(self, most: int = 10**6) -> None:
        self.most = most
        self.titles: list[str] = []

    def __call__(self, jobs: Any) -> None:
        for job in jobs:
            if len(self.titles) == self.most:
                raise KeyboardInterrupt
            self.titles.append(job.title)
            pretend(job, -abs(job.config.step.lr - 0.01) - job.config.seed * 1e-6)


def wanted(folder: Path, **more: Any) -> TpeSearch:
    settings: dict[str, Any] = {"halving": True, "together": 3, **more}
    return TpeSearch(("hopper",), "es", 13, 9000, folder / "out", folder / "runs", **settings)


@has_optuna
@pytest.mark.parametrize("pruner", ["halving", "median", "none"])
def test_trials_learn_from_each_other(pruner: str, tmp_path: Path) -> None:
    ran = Ran()
    searched = wanted(tmp_path, pruner=pruner, halving=pruner != "none")
    found = search(searched, ran)
    assert len(found["trials"]) == 13
    assert found["trials"][0]["seeds"] == 4
    states = {trial.state.name for trial in searched.study.get_trials()}
    assert states == ({"COMPLETE"} if pruner == "none" else {"COMPLETE", "PRUNED"})
    rates = [settings["step.lr"] for settings in searched.settings()[1:]]
    assert all(0.003 <= rate <= 0.1 for rate in rates)
    assert found["best"]["step.lr"] == min(rates, key=lambda rate: abs(rate - 0.01)) or pruner != "none"
    before = len(ran.titles)
    assert search(wanted(tmp_path, pruner=pruner, halving=pruner != "none"), ran) == found
    assert len(ran.titles) == before


@has_optuna
@pytest.mark.parametrize("stop", [1, 9])
def test_a_search_that_was_cut_short_goes_on(stop: int, tmp_path: Path) -> None:
    """Whatever was done is not done again, and trials that had begun are finished, no more of them than were asked."""
    first, second = Ran(stop), Ran()
    with pytest.raises(KeyboardInterrupt):
        search(wanted(tmp_path), first)
    begun = wanted(tmp_path).settings()
    found = search(wanted(tmp_path), second)
    assert not set(first.titles) & set(second.titles)
    assert len(first.titles) == stop
    assert len(found["trials"]) == 13
    assert wanted(tmp_path).settings()[: len(begun)] == begun
    assert "RUNNING" not in {trial.state.name for trial in wanted(tmp_path).study.get_trials()}


@has_optuna
@pytest.mark.slow
def test_a_search_that_was_killed_goes_on(tmp_path: Path) -> None:
    """kill -9 of the command in the midst of its runs; then the same command, to the end."""
    words = ["tune", "lqr-302", "--method", "es", "--sampler", "tpe", "--trials", "3", "--steps", "9060"]
    words += ["--episodes", "1", "--jobs", "2", "--out", str(tmp_path / "o"), "--runs", str(tmp_path / "r")]
    command = [sys.executable, "-m", "quell", *words]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as killed:
        while len(list((tmp_path / "o/es").glob("*.json*"))) < 4 and killed.poll() is None:
            time.sleep(0.05)
        os.kill(killed.pid, signal.SIGKILL)
    done = {path: path.stat().st_mtime_ns for path in (tmp_path / "r").rglob("metrics.jsonl")}
    finished = [path.name for path in (tmp_path / "o/es").glob("lqr-302-tpe*.json")]
    again = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "train with it: quell train lqr-302 --config" in again.stdout
    assert len([line for line in again.stdout.splitlines() if line.startswith("trial ")]) == 3
    assert done or finished


@has_optuna
def test_several_tasks_are_not_learned_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", "hopper", "swimmer", "--sampler", "tpe", "--out", str(tmp_path / "o")]) == 2
    assert "`--sampler tpe` cannot learn from the ranks" in capsys.readouterr().err
    assert not (tmp_path / "o").exists()


def test_without_the_extra_the_line_to_type_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(EXTRAS, "tune", "no_such_module_at_all")
    assert main(["tune", "hopper", "--sampler", "tpe", "--out", str(tmp_path / "o")]) == 2
    assert "pip install 'quell[tune]'" in capsys.readouterr().err
    assert main(["tune", "hopper", "--pruner", "median", "--out", str(tmp_path / "o")]) == 2
    assert "give --sampler tpe too" in capsys.readouterr().err
    with pytest.raises(UsageError):
        wanted(tmp_path)
