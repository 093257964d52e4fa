"""The CPU engine: same bits for any number of workers, shared resets, nothing counted after the end, clear failures."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from conftest import Collector
from troubled import Troubled

import quell.tasks
from quell.keys import Purpose, generator
from quell.observations import ObsStats
from quell.perturb import Directions
from quell.policy import Policy
from quell.rollout.cpu import CpuEngine, WorkerFailure
from quell.types import Episodes, Rollouts


def digest(rollouts: Rollouts) -> str:
    found = hashlib.sha256()
    paths = rollouts.trajectories
    assert paths is not None
    for array in (rollouts.rewards, rollouts.steps, rollouts.terminated, rollouts.obs_sums, paths.obs, paths.actions):
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def run(workers: int, name: str, *, horizon: int = 60, pairs: int = 4, normalise: bool = False) -> str:
    task = quell.tasks.get(name, horizon=horizon)
    policy = Policy(task.obs_size, task.action_size)
    theta = policy.init(generator(1, Purpose.INIT))
    stats = ObsStats(100.0, np.full(task.obs_size, 20.0), np.full(task.obs_size, 300.0)) if normalise else None
    with CpuEngine(task, policy, Directions("gaussian", 1, pairs, policy.dim), workers=workers, members=8) as engine:
        engine.rollout(theta, Episodes.of_evaluation(0, 5, mean_action=True), stats)  # order of calls must not matter
        return digest(engine.rollout(theta, Episodes.of_pairs(3, pairs, 0.02, record=True, shared_reset=True), stats))


@pytest.mark.parametrize("name", ["halfcheetah", "walker2d", "swimmer", "lqr"])
def test_results_do_not_depend_on_the_number_of_workers(name: str) -> None:
    assert len({run(workers, name, normalise=name == "walker2d") for workers in (1, 2, 3)}) == 1


def collect(shared_reset: bool, trouble: str = "ends") -> tuple[Rollouts, Collector]:
    collector = Collector(Troubled(trouble=trouble), Policy(2, 2), pairs=5)
    episodes = Episodes.of_pairs(0, 5, 0.02, record=True, shared_reset=shared_reset)
    return collector.rollout(collector.theta(), episodes), collector


def test_a_pair_shares_its_reset_but_not_its_action_noise() -> None:
    shared, _ = collect(True)
    apart, _ = collect(False)
    assert shared.trajectories is not None
    assert apart.trajectories is not None
    first = shared.trajectories.obs[:, 0].reshape(5, 2, 2)
    assert (first[:, 0] == first[:, 1]).all()
    assert (first[0] != first[1]).all()
    other = apart.trajectories.obs[:, 0].reshape(5, 2, 2)
    assert (other[:, 0] != other[:, 1]).all()
    actions = shared.trajectories.actions[:, 0].reshape(5, 2, 2)
    assert np.abs(actions[:, 0] - actions[:, 1]).min() > 1e-3


def test_nothing_counts_after_the_end() -> None:
    found, _ = collect(True)
    paths = found.trajectories
    assert paths is not None
    assert set(found.steps) - {10}, "no episode ended early: the test would show nothing"
    assert (found.returns > -1e3).all()
    assert (found.returns <= 0).all()  # a step after the end would add 1e9
    for i, end in enumerate(found.steps):
        assert found.terminated[i] == (end < 10)
        assert (found.rewards[i, end:] == 0).all()
        assert (paths.obs[i, end:] == 0).all()
        assert (paths.actions[i, end:] == 0).all()
        assert (found.rewards[i, :end] != 0).all()
        seen = paths.obs[i, :end].astype(float)
        assert found.obs_sums[i, 0] == pytest.approx(seen.sum(axis=0), rel=1e-5)
        assert found.obs_sums[i, 1] == pytest.approx(np.square(seen).sum(axis=0), rel=1e-5)


def test_grouping_does_not_change_a_member() -> None:
    collector = Collector(Troubled(trouble="ends"), Policy(2, 2), pairs=4)
    episodes = Episodes.of_pairs(0, 4, 0.02, record=True, shared_reset=True)
    whole = digest(collector.rollout(collector.theta(), episodes))
    parts = digest(collector.rollout(collector.theta(), episodes, [[5], [0, 7, 2], [1, 3, 4, 6]]))
    assert whole == parts


def test_normaliser_uses_real_steps_only() -> None:
    found, _ = collect(True)
    stats = ObsStats.empty(2).add(found.obs_sums, found.steps)
    paths = found.trajectories
    assert paths is not None
    real = np.concatenate([paths.obs[i, :end] for i, end in enumerate(found.steps)])
    mean, scale = stats.normaliser()
    assert mean == pytest.approx(real.mean(axis=0), abs=1e-5)
    assert 1 / scale == pytest.approx(real.std(axis=0), rel=1e-3)
    broken = found.obs_sums.copy()
    broken[0] = np.nan
    assert np.isfinite(ObsStats.empty(2).add(broken, found.steps).total).all()


def engine_for(task: Troubled) -> CpuEngine:
    policy = Policy(2, 2)
    return CpuEngine(task, policy, Directions("gaussian", 0, 2, policy.dim), workers=2, members=4)


@pytest.mark.parametrize(
    ("trouble", "message"),
    [
        ("dies", r"signal 9\) while running pairs (0\+, 0-|1\+, 1-) of iteration 0, seed 0"),
        ("raises", "the ground opened"),
    ],
)
def test_a_failing_worker_is_reported(trouble: str, message: str) -> None:
    with engine_for(Troubled(trouble=trouble)) as engine:
        theta = engine.policy.init(generator(0, Purpose.INIT))
        with pytest.raises(WorkerFailure, match=message):
            engine.rollout(theta, Episodes.of_pairs(0, 2, 0.02, record=False, shared_reset=True))


def test_workers_end_with_their_engine() -> None:
    """A script without a __main__ guard, killed with SIGKILL in mid-air, leaves no worker behind."""
    script = textwrap.dedent("""
        import os, signal
        import quell.tasks
        from quell.perturb import Directions
        from quell.policy import Policy
        from quell.rollout.cpu import CpuEngine
        task = quell.tasks.get("lqr")
        policy = Policy(3, 3)
        engine = CpuEngine(task, policy, Directions("gaussian", 0, 2, policy.dim), workers=2, members=4)
        print(*[process.pid for process, _ in engine._workers], flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == -9
    for pid in done.stdout.split():
        subprocess.run(["timeout", "10", "tail", f"--pid={pid}", "-f", "/dev/null"], check=True)


@pytest.mark.slow
def test_a_million_parameters_and_256_pairs_stay_under_4_gib() -> None:
    script = textwrap.dedent("""
        import resource, numpy as np, quell
        result = quell.train("lqr-302", method="es", horizon=5, pairs=256, steps=2 * 512 * 5, out=OUT,
                             policy={"hidden": (1000, 1000)}, eval_every=0, eval_episodes=1, progress=False)
        assert len(result.theta) > 1_000_000 and result.iteration == 2
        own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        workers = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss  # the largest of them
        print((own + 2 * workers) / 2**20)
    """)
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        code = script.replace("OUT", repr(folder))
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 4.0
