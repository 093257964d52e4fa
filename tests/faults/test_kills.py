"""Killed at any moment, a run goes on as if it had not been; and no system call of a save is one too many."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from quell.api import load

SETTINGS = ["--horizon", "20", "--pairs", "2", "--batch-steps", "0", "--eval-episodes", "1", "--eval-every", "7"]
SETTINGS += ["--workers", "1", "--checkpoint-every", "3", "--steps", str(80 * 2000)]
KILLS = 50


def command(*arguments: str, folder: Path) -> subprocess.Popen[bytes]:
    line = [sys.executable, "-m", "quell", *arguments]
    return subprocess.Popen(line, cwd=folder, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


@pytest.mark.slow
def test_the_same_bits_after_50_kills_of_the_driver(tmp_path: Path) -> None:
    """With the default method; every fifth kill hits the start, the others some iterations."""
    begin = ["train", "inverted-pendulum", *SETTINGS, "--name"]
    with command(*begin, "calm", folder=tmp_path) as calm:
        pass
    assert calm.returncode == 0
    home = tmp_path / "runs/inverted-pendulum/natural-cv"
    rng, rough, metrics = random.Random(0), home / "rough", home / "rough/metrics.jsonl"
    for kill in range(KILLS):
        begun = (rough / "config.json").exists()
        arguments = ["resume", str(rough), "--workers", "1"] if begun else [*begin, "rough"]
        if rough.exists() and not begun:
            shutil.rmtree(rough)
        with command(*arguments, folder=tmp_path) as process:
            if kill % 5 == 0:
                time.sleep(rng.uniform(0.0, 5.0))
            else:
                at = metrics.stat().st_size if metrics.exists() else 0
                more = rng.uniform(0.0, 12_000)  # bytes, about 500 a row
                while process.poll() is None and (not metrics.exists() or not 0 < more < metrics.stat().st_size - at):
                    at = min(at, metrics.stat().st_size) if metrics.exists() else 0
                    time.sleep(0.002)
            assert process.poll() is None, "it was finished before it was killed often enough"
            process.kill()
    with command("resume", str(rough), "--workers", "1", folder=tmp_path) as last:
        pass
    assert last.returncode == 0
    one, other = load(home / "calm"), load(rough)
    assert one.theta.tobytes() == other.theta.tobytes()
    timed = ("seconds", "speed")
    rows = [[{k: v for k, v in row.items() if k not in timed} for row in run.history] for run in (one, other)]
    assert rows[0] == rows[1]


TRACED = """
import os, re, signal, subprocess, sys, time
from pathlib import Path
import numpy as np
from quell.runs import checkpoint
folder, rewrite, log = Path(sys.argv[1]), sys.argv[2] == "rewrite", sys.argv[3]

def save(iteration, value):
    theta = np.full(3, value, np.float32)
    return checkpoint.save(folder, iteration, {"theta": theta}, {"iteration": iteration}, keep=2)

def traced(options):
    # A save in a child that strace attaches to: how it ended, once something else has tidied up.
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    for iteration in (1, 2, 3):
        save(iteration, 0.0)
    child = os.fork()
    if child == 0:
        os.kill(os.getpid(), signal.SIGSTOP)
        save(3 if rewrite else 4, 1.0)
        os._exit(0)
    os.waitpid(child, os.WUNTRACED)
    tracer = subprocess.Popen(["strace", "-qq", "-o", log, "-p", str(child), *options], stderr=subprocess.PIPE)
    while "TracerPid:\\t0\\n" in Path(f"/proc/{child}/status").read_text():
        if tracer.poll() is not None:
            os.kill(child, signal.SIGKILL)
            sys.exit("strace cannot attach: " + tracer.stderr.read().decode())
        time.sleep(0.002)
    os.kill(child, signal.SIGCONT)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    tracer.wait()
    saved = checkpoint.load_newest(folder)
    assert saved is not None and saved[1]["iteration"] in ((3,) if rewrite else (3, 4)), (options, saved)
    assert saved[0]["theta"][0] in (0.0, 1.0)
    save(5, 2.0)  # and the next save tidies up
    assert not [path for path in folder.iterdir() if path.name.startswith(".")], options
    return code

assert traced([]) == 0
calls = re.findall(r"^(\\w+)\\(", Path(log).read_text(), re.MULTILINE)
names = [name for name in dict.fromkeys(calls) if name not in ("exit_group", "rt_sigreturn", "restart_syscall")]
killed = 0
for name in names:
    for number in range(1, calls.count(name) + 1):
        killed += traced(["-e", f"trace={name}", "-e", f"inject={name}:signal=KILL:when={number}"]) == -9
print(killed, len(calls))
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["new", "rewrite"])
def test_a_kill_at_any_system_call_of_a_save_loses_nothing(how: str, tmp_path: Path) -> None:
    if shutil.which("strace") is None:
        pytest.skip("there is no strace on this system")
    (tmp_path / "x").mkdir()
    line = [sys.executable, "-W", "error", "-c", TRACED, str(tmp_path / "x"), how, str(tmp_path / "log")]
    done = subprocess.run(line, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    if "strace cannot attach" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    killed, calls = map(int, done.stdout.split())
    assert killed > 40, done.stdout
    assert killed >= 0.9 * calls  # the last few, of leaving, are not asked for
