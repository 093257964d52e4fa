"""The CPU engine: whatever befalls a worker, the same bits; and nobody is left behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import faulty
import numpy as np
import pytest

import quell
from quell.errors import EngineFailure, EnvironmentFailure, QuellError
from quell.keys import Stream
from quell.rollout.cpu import Cpu
from quell.rollout.cpu.engine import CpuEngine
from quell.runs import Run, checkpoint
from quell.tasks import from_env
from quell.training.callbacks import Callback
from quell.training.methods import make_config, make_problem
from quell.types import Episodes

PAIRS = 4
LAST_WORDS = {"raise": "one of those days", "kill": "killed by signal 9"}


@contextmanager
def engine_over(
    folder: Path, *, workers: int = 2, timeout: float = 120.0, env: Any = faulty.make, **settings: Any
) -> Iterator[CpuEngine]:
    folder.mkdir(exist_ok=True)
    task = from_env(env, horizon=10, folder=str(folder), **settings)
    problem = make_problem(make_config(task.name, "es", "paper", {}, task), task)
    with CpuEngine(task, problem, Cpu(workers=workers, worker_timeout=timeout), members=2 * PAIRS) as engine:
        yield engine


def play(engine: CpuEngine, iteration: int) -> list[bytes]:
    theta = np.full(engine._problem.policy.dim, 0.1, np.float32)
    played = engine.rollout(theta, Episodes.of_pairs(iteration, PAIRS, record=True))
    assert played.trajectories is not None
    arrays = (played.rewards, played.steps, played.obs_sums, played.trajectories.obs, played.trajectories.actions)
    return [array.tobytes() for array in arrays]


def same_bits_after(faults: list[str], folder: Path, timeout: float = 120.0) -> None:
    with engine_over(folder / "calm") as engine:
        expected = [play(engine, i) for i in range(len(faults))]
    with engine_over(folder / "rough", timeout=timeout) as engine:
        for i, fault in enumerate(faults):
            (folder / "rough" / fault).touch()
            with pytest.warns(UserWarning, match="repeated"):
                assert play(engine, i) == expected[i]
            assert not list((folder / "rough").iterdir())


def test_faults_leave_no_trace_in_the_bits(tmp_path: Path) -> None:
    same_bits_after(["kill", "crash", "memory", "raise"], tmp_path)


def test_a_worker_that_stands_still_is_replaced(tmp_path: Path) -> None:
    same_bits_after(["stop"], tmp_path, timeout=1.0)


@pytest.mark.slow
def test_the_same_bits_after_20_kills_5_stops_and_3_failures(tmp_path: Path) -> None:
    same_bits_after(["kill"] * 20 + ["stop"] * 5 + ["raise"] * 3, tmp_path, timeout=1.0)


class LaysTokens(Callback):
    """Lays a fault before every iteration."""

    def __init__(self, folder: Path, faults: list[str]) -> None:
        self.folder, self.faults = folder, faults

    def on_iteration(self, row: dict[str, Any]) -> None:
        if self.faults:
            (self.folder / self.faults.pop()).touch()


@pytest.mark.slow
def test_the_default_method_ends_the_same_after_20_kills_5_stops_and_3_failures(tmp_path: Path) -> None:
    faults = ["kill"] * 20 + ["stop"] * 5 + ["raise"] * 3
    thetas = []
    for name, laid in (("calm", []), ("rough", faults)):
        (tmp_path / name).mkdir()
        task = from_env(faulty.make, name="walk", horizon=10, folder=str(tmp_path / name))
        settings: dict[str, Any] = {"pairs": 4, "batch_steps": 0, "steps": 30 * 80, "eval_every": 0, "eval_episodes": 1}
        tokens, compute = LaysTokens(tmp_path / name, laid), Cpu(workers=2, worker_timeout=1.0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of everyone who was replaced
            out = tmp_path / f"runs-{name}"
            made = quell.train(task, engine=compute, callbacks=[tokens], progress=False, out=out, **settings)
        assert made.iteration == 30
        assert not laid
        assert not list((tmp_path / name).iterdir())
        thetas.append(made.theta.tobytes())
    assert thetas[0] == thetas[1]


def test_a_worker_that_dies_idle_is_replaced(tmp_path: Path) -> None:
    with engine_over(tmp_path / "x") as engine:
        expected = play(engine, 0)
        for number in (signal.SIGKILL, signal.SIGTERM):
            os.kill(engine.crew.processes[0], number)
            time.sleep(0.3)
            with pytest.warns(UserWarning, match=f"killed by signal {number}"):
                assert play(engine, 0) == expected


@pytest.mark.usefixtures("no_pause")
@pytest.mark.parametrize("fault", ["raise", "kill"])
def test_an_environment_that_failed_three_times_is_tried_a_fourth_time(fault: str, tmp_path: Path) -> None:
    with engine_over(tmp_path / "x", workers=1) as engine:
        expected = play(engine, 0)
        (tmp_path / "x" / f"{fault}-3").touch()
        with pytest.warns(UserWarning, match="repeated"):
            assert play(engine, 0) == expected
        assert not list((tmp_path / "x").iterdir())
        (tmp_path / "x" / f"{fault}-4").touch()
        with pytest.raises(EngineFailure, match=LAST_WORDS[fault]) as told:
            play(engine, 0)
        assert isinstance(told.value, EnvironmentFailure) == (fault == "raise")
        assert not list((tmp_path / "x").iterdir())


@pytest.mark.usefixtures("no_pause")
@pytest.mark.parametrize(("fault", "every"), [("raise", 13), ("kill", 37)])
def test_episodes_that_are_done_are_not_repeated(fault: str, every: int, tmp_path: Path) -> None:
    """A worker's share takes 80 steps, an episode 10: none of the shares could be played without a fault."""
    with engine_over(tmp_path / "calm") as engine:
        expected = play(engine, 0)
    with engine_over(tmp_path / "x", workers=1, env=faulty.tires, every=every, fault=fault) as engine:
        for _ in range(3):  # the ledger of one request is not that of the next
            with pytest.warns(UserWarning, match=r"its unfinished work was repeated") as told:
                assert play(engine, 0) == expected
            times = re.search(r"the last of (\d+) times", str(told[-1].message))
            faults = int(times[1]) if times else 1
            begun = (tmp_path / "x" / "resets").read_text().split()
            assert len(begun) <= 2 * PAIRS + (2 * PAIRS + faults - 1), "all at once; then each alone, and what failed"
            (tmp_path / "x" / "resets").unlink()


@pytest.mark.usefixtures("no_pause")
def test_an_episode_that_always_fails_is_given_up_and_named(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"env": faulty.tires, "every": 7, "fault": "kill"}
    with engine_over(tmp_path / "x", workers=1, **settings) as engine:
        with pytest.raises(EngineFailure, match=r"running pairs 0\+ of iteration 0.*so did the 3 before it"):
            play(engine, 0)
        assert len((tmp_path / "x" / "resets").read_text().split()) == 2 * PAIRS + 3


def test_a_step_slower_than_the_timeout_is_finished_in_the_end(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    task = from_env(faulty.make, horizon=2, folder=str(tmp_path / "x"), pause=0.8)
    problem = make_problem(make_config(task.name, "es", "paper", {}, task), task)
    with CpuEngine(
        task, problem, Cpu(workers=1, worker_timeout=1.0), members=2
    ) as engine:  # two members step in turn: 1.6 s
        theta = np.zeros(problem.policy.dim, np.float32)
        with pytest.warns(UserWarning, match="stood still for 1 s"):
            played = engine.rollout(theta, Episodes.of_pairs(0, 1, record=False))
    assert played.steps.tolist() == [2, 2]


def test_a_long_episode_of_short_steps_is_never_mistaken_for_a_hang(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    task = from_env(faulty.make, horizon=10, folder=str(tmp_path / "x"), pause=0.3)
    problem = make_problem(make_config(task.name, "es", "paper", {}, task), task)
    with CpuEngine(task, problem, Cpu(workers=1, worker_timeout=1.0), members=1) as engine:  # 3 s, no warning
        played = engine.rollout(np.zeros(problem.policy.dim, np.float32), Episodes.unperturbed(0, 1, Stream.FRESH))
    assert played.steps.tolist() == [10]


@pytest.mark.usefixtures("no_pause")
def test_an_unrecoverable_failure_saves_the_run_first(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    task = from_env(faulty.make, horizon=10, folder=str(tmp_path / "x"))
    settings: dict[str, Any] = {"steps": 2000, "checkpoint_every": 1000, "seed": 1, "progress": False}
    whole = quell.train(task, method="es", out=tmp_path / "whole", workers=1, **settings)

    class LaysTokens(quell.Callback):
        def on_iteration(self, row: dict[str, Any]) -> None:
            if row["iteration"] == 3:
                (tmp_path / "x" / "kill-9").touch()

    from quell.training.loop import run_training

    with (
        Run.create(whole.config, tmp_path / "out") as run,
        pytest.raises(EngineFailure, match="saved after iteration 3"),
    ):
        run_training(whole.config, run, compute=Cpu(workers=1), callbacks=[LaysTokens()], task=task)
    assert checkpoint.iterations(run.checkpoints)[-1] == 3
    for token in (tmp_path / "x").iterdir():
        token.unlink()
    assert quell.resume(run.path, workers=1, env=task, progress=False).theta.tobytes() == whole.theta.tobytes()


def test_an_engine_goes_on_after_an_interrupt(tmp_path: Path) -> None:
    with engine_over(tmp_path / "x") as engine:
        expected = play(engine, 0)
        (tmp_path / "x" / "stop").touch()
        previous = signal.signal(signal.SIGALRM, interrupt)
        signal.setitimer(signal.ITIMER_REAL, 1.0)
        try:
            with pytest.raises(KeyboardInterrupt):
                play(engine, 0)
        finally:
            signal.signal(signal.SIGALRM, previous)
        assert play(engine, 0) == expected


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


DRIVER = """
import sys, time
from pathlib import Path
sys.path.insert(0, {tests!r})
from test_workers import engine_over
with engine_over(Path({folder!r})) as engine:
    print(*engine.crew.processes, flush=True)
    time.sleep(60)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a parent-death signal is Linux's")
@pytest.mark.parametrize("state", ["running", "stopped"])
def test_no_worker_outlives_its_driver(state: str, tmp_path: Path) -> None:
    code = DRIVER.format(tests=str(Path(__file__).parent), folder=str(tmp_path / "x"))
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None
        workers = [int(word) for word in driver.stdout.readline().split()]
        assert len(workers) == 2
        if state == "stopped":
            for worker in workers:
                os.kill(worker, signal.SIGSTOP)
        driver.kill()
    until = time.monotonic() + 5
    while any(is_running(worker) for worker in workers) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(is_running(worker) for worker in workers)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_broken_setting_is_told_at_once(tmp_path: Path) -> None:
    task = from_env(faulty.make, horizon=10, folder=str(tmp_path))
    problem = make_problem(make_config(task.name, "es", "paper", {}, task), task)
    begun = time.monotonic()
    with pytest.raises(QuellError, match="on purpose"):
        CpuEngine(BreaksOnArrival(task), problem, Cpu(workers=1), members=2)  # type: ignore[arg-type]
    assert time.monotonic() - begun < 30


class BreaksOnArrival:
    def __init__(self, task: Any) -> None:
        self.horizon, self.obs_size = task.horizon, task.obs_size

    def __reduce__(self) -> Any:
        return broken, ()


def broken() -> None:
    raise RuntimeError("broken on purpose")
