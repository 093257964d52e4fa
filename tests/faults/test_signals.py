"""Stopping: exit codes, a second signal that does not wait, and no folder that nothing can be done with."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import quell
from quell.runs import checkpoint

CODES = [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)]


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "quell", "train", *arguments, "--workers", "1", "--method", "es", "--name", "x"]
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the child hears it also where the tests run under nohup
    try:
        return subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    finally:
        signal.signal(signal.SIGHUP, before)


def until(met: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not met() and time.monotonic() < end:
        time.sleep(0.05)


def until_begun(run: Path) -> None:
    until(lambda: checkpoint.iterations(run / "checkpoints"))


@pytest.mark.parametrize(("number", "code"), CODES)
def test_one_signal_saves_and_says_which(number: int, code: int, tmp_path: Path) -> None:
    run = tmp_path / "lqr" / "es" / "x"
    with start(tmp_path, "lqr", "--steps", "100000000", "--out", str(tmp_path)) as process:
        until(lambda: (run / "metrics.jsonl").exists() and (run / "metrics.jsonl").stat().st_size)
        process.send_signal(number)
        patience = threading.Timer(60, process.kill)
        patience.start()
        _, errors = process.communicate()
        patience.cancel()
    assert process.returncode == code
    assert "stopping: this iteration is finished (the " in errors
    assert "quell resume lqr/es/x" in errors
    saved = quell.load(run)
    assert saved.iteration == len(saved.history) > 0


@pytest.mark.parametrize(("number", "code"), CODES[:2])
def test_a_signal_stops_several_seeds_and_says_which(number: int, code: int, tmp_path: Path) -> None:
    arguments = ["lqr", "--steps", "100000000", "--seeds", "2", "--out", str(tmp_path)]
    folder = tmp_path / "seeds/x/runs/lqr/es"
    rows = folder / "seed0/metrics.jsonl"
    with start(tmp_path, *arguments) as process:
        until(lambda: rows.exists() and rows.stat().st_size)
        process.send_signal(number)
        patience = threading.Timer(60, process.kill)
        patience.start()
        _, errors = process.communicate()
        patience.cancel()
    assert process.returncode == code, errors
    assert "stopped; the same command continues" in errors
    run = quell.runs.Run(folder / "seed0")
    assert checkpoint.iterations(run.checkpoints)[-1] == len(list(run.metrics())) > 0
    assert not (folder / "seed1").exists(), "the next is not begun"


def check_ends(process: subprocess.Popen[str], number: int, code: int) -> None:
    """The first signal is answered and the second obeyed, each within a second, or longer under load."""
    limit = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    assert process.stderr is not None
    patience = threading.Timer(60, process.kill)  # rather than wait for ever
    patience.daemon = True
    patience.start()
    begun = time.monotonic()
    while "stopping: this iteration is finished" not in process.stderr.readline():
        assert process.poll() is None
    answered = time.monotonic() - begun
    begun = time.monotonic()
    process.send_signal(number)
    _, errors = process.communicate(timeout=20)
    ended = time.monotonic() - begun
    patience.cancel()
    assert process.returncode == code
    assert "Traceback" not in errors
    assert "`quell resume runs/" in errors
    assert answered < limit
    assert ended < limit


SLOW = """
import sys
sys.path.insert(0, {tests!r})
import faulty
def make():
    return faulty.make({folder!r}, pause=30.0)
"""


@pytest.mark.parametrize(("number", "code"), CODES[:1])
def test_a_second_signal_does_not_wait_for_the_environment(number: int, code: int, tmp_path: Path) -> None:
    (tmp_path / "tokens").mkdir()
    source = SLOW.format(tests=str(Path(__file__).parent), folder=str(tmp_path / "tokens"))
    (tmp_path / "slow.py").write_text(source)
    with start(tmp_path, "--trust-import", "slow:make", "--horizon", "10") as process:
        until_begun(tmp_path / "runs" / "slow-make" / "es" / "x")
        time.sleep(1)
        process.send_signal(number)
        check_ends(process, number, code)


@pytest.mark.parametrize("delay", [0.3, 1.0, 2.0])
def test_a_signal_before_the_first_iteration_leaves_no_dead_folder(delay: float, tmp_path: Path) -> None:
    run = tmp_path / "runs" / "swimmer" / "es" / "x"
    with start(tmp_path, "swimmer", "--steps", "100000000") as process:
        time.sleep(delay)
        process.terminate()
        _, errors = process.communicate(timeout=60)
    assert process.returncode in (143, -signal.SIGTERM)  # the latter while Python itself starts
    assert "Traceback" not in errors or process.returncode < 0
    assert not run.exists() or checkpoint.iterations(run / "checkpoints")


BUSY = """
import hashlib, sys
from quell.training.iteration import Trainer
Trainer.iterate = lambda *_: hashlib.pbkdf2_hmac("sha256", b"", b"", 1 << 30)  # one call, as compiling is
from quell.cli import main
sys.exit(main())
"""


@pytest.mark.parametrize(("number", "code"), CODES[1:2])
def test_a_driver_deep_in_a_computation_hears_signals(number: int, code: int, tmp_path: Path) -> None:
    arguments = ["train", "lqr", "--method", "es", "--workers", "1", "--name", "x"]
    command = [sys.executable, "-c", BUSY, *arguments]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        until_begun(tmp_path / "runs" / "lqr" / "es" / "x")
        time.sleep(1)
        process.send_signal(number)
        check_ends(process, number, code)


DAEMON = """
import sys, threading, time
from pathlib import Path
import quell
settings = dict(method="es", steps=10**9, horizon=50, checkpoint_every=10**6, out=sys.argv[1], name="x", workers=1)
threading.Thread(target=lambda: quell.train("lqr", progress=False, **settings), daemon=True).start()
rows = Path(sys.argv[1], "lqr/es/x/metrics.jsonl")
while not rows.exists() or rows.stat().st_size < 2000:
    time.sleep(0.05)
print("the program ends")
"""


def test_a_run_in_a_daemon_thread_is_saved_when_the_program_ends(tmp_path: Path) -> None:
    """Python would end the thread wherever it is, which amid compiled code is an abort (SIGABRT)."""
    done = subprocess.run(
        [sys.executable, "-c", DAEMON, str(tmp_path)], capture_output=True, text=True, timeout=120, cwd=tmp_path
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "the program ends\n", "")
    run = quell.runs.Run(tmp_path / "lqr/es/x")
    assert checkpoint.iterations(run.checkpoints)[-1] == len(list(run.metrics())) > 0


def test_nohup_keeps_a_run_from_hanging_up(tmp_path: Path) -> None:
    line = "trap '' HUP; exec \"$@\""
    command = [sys.executable, "-m", "quell", "train", "lqr", "--method", "es", "--workers", "1", "--name", "x"]
    with subprocess.Popen(["bash", "-c", line, "bash", *command, "--steps", "100000000"], cwd=tmp_path) as process:
        until_begun(tmp_path / "runs" / "lqr" / "es" / "x")
        process.send_signal(signal.SIGHUP)
        time.sleep(1)
        assert process.poll() is None
        process.kill()
