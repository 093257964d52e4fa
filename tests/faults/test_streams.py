"""A lost terminal, a closed or full stderr, a clock that is set back: training goes on, and nothing of it is lost."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest

import quell
from quell.runs import checkpoint

COMMAND = [sys.executable, "-m", "quell", "train", "lqr", "--method", "es", "--horizon", "20", "--workers", "1"]
COMMAND += ["--steps", "4000", "--eval-episodes", "1", "--name", "x"]
ITERATIONS = 20


def check_run(folder: Path, task: str = "lqr") -> None:
    """All iterations are there, and files hold what they should."""
    run = folder / "runs" / task / "es" / "x"
    assert checkpoint.iterations(run / "checkpoints")[-1] == ITERATIONS
    assert len(list(quell.runs.Run(run).metrics())) == ITERATIONS
    assert (run / "lock").read_text().strip().isdecimal()


def quick_and_slow(quick: list[str], slow: list[str]) -> list[object]:
    return [*quick, *(pytest.param(name, marks=pytest.mark.slow) for name in slow)]


@pytest.mark.parametrize("streams", quick_and_slow(["2>&1 | head -1"], ["2>&1 >/dev/null | true", "| true"]))
def test_a_reader_that_goes_away_ends_no_run(streams: str, tmp_path: Path) -> None:
    line = f'"$@" {streams}; test ${{PIPESTATUS[0]}} -eq 0 -o ${{PIPESTATUS[0]}} -eq 141'
    done = subprocess.run(["bash", "-c", line, "bash", *COMMAND], cwd=tmp_path, capture_output=True, text=True)
    assert "Traceback" not in done.stderr
    assert done.returncode == 0, done
    check_run(tmp_path)


@pytest.mark.parametrize(
    "streams", quick_and_slow([">&- 2>&-", ">/dev/full 2>/dev/full"], ["2>&-", "<&- >&- 2>&-", "2>/dev/full"])
)
def test_closed_and_full_streams_end_no_run(streams: str, tmp_path: Path) -> None:
    subprocess.run(["bash", "-c", f'"$@" {streams}', "bash", *COMMAND], cwd=tmp_path, timeout=120)
    check_run(tmp_path)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_without_all_signs_costs_no_result(encoding: str, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    done = subprocess.run(COMMAND, cwd=tmp_path, capture_output=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert b"Traceback" not in done.stderr
    assert (b" +- " if encoding == "ascii" else b" \xb1 ") in done.stdout
    assert b"run folder" in done.stdout
    check_run(tmp_path)


TALKATIVE = """
import gymnasium
class Talkative(gymnasium.Wrapper):
    def step(self, action):
        print("step", flush=True)
        return super().step(action)
def make():
    return Talkative(gymnasium.make("CartPole-v1").unwrapped)
"""


def test_an_environment_may_talk_to_nobody(tmp_path: Path) -> None:
    (tmp_path / "talk.py").write_text(TALKATIVE)
    arguments = ["--trust-import", "talk:make", "--horizon", "5", "--steps", "500", "--method", "es", "--workers", "1"]
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "quell", "train", *arguments, "--name", "x"]
    done = subprocess.run(command, cwd=tmp_path, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert done.returncode == 141, done.stderr  # of the last table; the run is finished
    assert "repeated" not in done.stderr
    (run,) = (tmp_path / "runs").glob("*/es/x")
    assert quell.runs.Run(run).config.steps == 500
    assert list(quell.runs.Run(run).metrics())[-1]["steps"] >= 500


def test_a_clock_that_is_set_back_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"steps": 600, "horizon": 20, "eval_episodes": 1, "workers": 1, "progress": False, "method": "es"}
    whole = quell.train("lqr", out=tmp_path / "a", name="x", **{**settings, "steps": 1200})  # type: ignore[call-overload]
    now = [2e9]

    def backwards() -> float:
        now[0] -= 1000.0
        return now[0]

    monkeypatch.setattr(time, "time", backwards)
    run = quell.train("lqr", out=tmp_path / "b", name="x", **settings)  # type: ignore[call-overload]
    again = quell.resume(run.path, steps=1200, workers=1, progress=False)
    assert again.theta.tobytes() == whole.theta.tobytes()
    rows = list(quell.runs.Run(run.path).metrics())
    assert all(late["seconds"] > early["seconds"] for early, late in pairwise(rows))
    files = [path.name for path in sorted((run.path / "tensorboard").iterdir())]
    assert [name.partition(".out")[0] for name in files] == ["events.000000", "events.000001"]
    stamps = [name.split(".")[4] for name in files]
    assert stamps[0] > stamps[1], "the clock did go back"
