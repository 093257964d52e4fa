"""The CPU engine: same bits for any number of workers, clear failures, no process left behind."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from digests import digest_of_rollouts
from troubled import Troubled

import quell.tasks
from quell.errors import EngineFailure, UsageError, WorkerLost
from quell.estimate import Problem
from quell.keys import Purpose, Stream, generator
from quell.perturb.gaussian import Gaussian
from quell.policy import Policy
from quell.rollout.cpu import Cpu
from quell.threads import cores
from quell.types import Episodes, ObsStats


def run(workers: int, name: str, *, horizon: int = 60, pairs: int = 4, normalise: bool = False) -> str:
    task = quell.tasks.get(name, horizon=horizon)
    problem = Problem(Policy(task.obs_size, task.action_size), Gaussian(), 1)
    theta = problem.policy.init(generator(1, Purpose.INIT))
    stats = ObsStats(100.0, np.full(task.obs_size, 20.0), np.full(task.obs_size, 300.0)) if normalise else None
    with Cpu(workers=workers).make(task, problem, members=8, states=2) as engine:
        before = Episodes.unperturbed(0, 5, Stream.EVALUATE, mean_action=True)
        engine.rollout(theta, before, stats)  # order of calls must not matter
        return digest_of_rollouts(engine.rollout(theta, Episodes.of_pairs(3, pairs, record=True, states=2), stats))


@pytest.mark.parametrize(
    "name", ["walker2d", "lqr", *(pytest.param(name, marks=pytest.mark.slow) for name in ("halfcheetah", "swimmer"))]
)
def test_results_do_not_depend_on_the_number_of_workers(name: str) -> None:
    assert len({run(workers, name, normalise=name == "walker2d") for workers in (1, 2, 3)}) == 1


def test_how_many_processes() -> None:
    assert Cpu().processes == cores()
    assert Cpu(workers=3).processes == 3
    with pytest.raises(UsageError, match="`workers=0` must be at least 1"):
        Cpu(workers=0).validate()


def test_more_processes_than_are_of_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quell.rollout.cores", lambda: 8)
    monkeypatch.setattr("quell.limits.free_memory", lambda: (16 << 30, "here"))
    Cpu(workers=32).validate()
    with pytest.warns(UserWarning, match=r"`workers=40`: so many processes share 8 cores and take 1.2 GiB"):
        Cpu(workers=40).validate()
    Cpu(workers=40).validate()  # once is enough
    with pytest.raises(UsageError, match=r"`workers=600`, as many processes, would take 18 GiB of memory, and 16 are"):
        Cpu(workers=600).validate()
    with pytest.raises(UsageError, match="`workers=801` must be at most 800: there are 8 cores"):
        Cpu(workers=801).validate()


@pytest.mark.usefixtures("no_pause")
@pytest.mark.parametrize(
    ("trouble", "message"),
    [
        ("dies", r"signal 9\) while running pairs (0\+|1\+) of iteration 0, seed 0"),
        ("raises", "the ground opened"),
    ],
)
def test_a_failing_worker_is_reported(trouble: str, message: str) -> None:
    problem = Problem(Policy(2, 2), Gaussian(), 0)
    task = Troubled(trouble=trouble)
    with Cpu(workers=2).make(task, problem, members=4) as engine:
        theta = problem.policy.init(generator(0, Purpose.INIT))
        with pytest.raises(EngineFailure, match=message) as failure:
            engine.rollout(theta, Episodes.of_pairs(0, 2))
        assert isinstance(failure.value, WorkerLost) == (trouble == "dies")


def test_more_members_than_it_was_made_for() -> None:
    problem = Problem(Policy(2, 2), Gaussian(), 0)
    with Cpu(workers=1).make(Troubled(), problem, members=2) as engine, pytest.raises(ValueError, match="made"):
        engine.rollout(problem.policy.init(generator(0, Purpose.INIT)), Episodes.of_pairs(0, 2))


def test_workers_end_with_their_engine() -> None:
    """A script without a __main__ guard, killed with SIGKILL in mid-air, leaves no worker behind."""
    script = textwrap.dedent("""
        import os, signal
        import quell.tasks
        from quell.estimate import Problem
        from quell.perturb.gaussian import Gaussian
        from quell.policy import Policy
        from quell.rollout.cpu import Cpu
        task = quell.tasks.get("lqr")
        engine = Cpu(workers=2).make(task, Problem(Policy(3, 3), Gaussian(), 0), members=4)
        print(*engine.crew.processes, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == -9
    for pid in done.stdout.split():
        subprocess.run(["timeout", "10", "tail", f"--pid={pid}", "-f", "/dev/null"], check=True)


@pytest.mark.slow
def test_a_million_parameters_and_256_pairs_stay_under_4_gib(tmp_path: Path) -> None:
    script = textwrap.dedent("""
        import resource, numpy as np, quell
        result = quell.train("lqr-302", method="es", horizon=5, pairs=256, steps=2 * 512 * 5, out=OUT,
                             policy={"hidden": (1000, 1000)}, eval_every=0, eval_episodes=1, progress=False)
        assert len(result.theta) > 1_000_000 and result.iteration == 2
        own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        workers = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss  # the largest of them
        print((own + 2 * workers) / 2**20)
    """)
    code = script.replace("OUT", repr(str(tmp_path)))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 4.0
