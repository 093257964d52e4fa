"""Shared by the tests: batches of episodes made in this process, and what estimators make of them."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import threading
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from quell.campaign import child
from quell.campaign.plan import Job
from quell.campaign.runner import Outcome, Runner
from quell.errors import MissingExtra, is_empty
from quell.estimate import Estimate, Estimator, Problem, Rows, estimate
from quell.estimate.reduce import sum_by_loop
from quell.keys import Purpose, generator
from quell.perturb.gaussian import Gaussian
from quell.policy import Policy
from quell.rollout import Engine
from quell.rollout.cpu import Cpu
from quell.rollout.simulate import LocalSimulator
from quell.tasks.base import Task
from quell.training.callbacks import Callback
from quell.types import Array, Batch, Episodes, ObsStats, Rollouts, State, Sums, Trajectories

if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    # What one test compiles, others need not: in this process, in xdist's, and in those that tests start.
    os.environ["JAX_COMPILATION_CACHE_DIR"] = _compiled = tempfile.mkdtemp(prefix="quell-tests-")
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
    atexit.register(shutil.rmtree, _compiled, ignore_errors=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, Any, Any]:
    """A test of what this Python cannot have, without the test's having to know, is skipped."""
    try:
        return (yield)
    except MissingExtra as error:
        if not is_empty(error.args[0]):
            raise
        pytest.skip(str(error))


class Collector:
    """Runs iterations of one setting in this process, hands back batches, and estimates gradients from them."""

    def __init__(self, task: Task, policy: Policy, *, pairs: int, seed: int = 0, directions: Any = None) -> None:
        self.task, self.policy, self.pairs = task, policy, pairs
        self.problem = Problem(policy, directions or Gaussian(sigma=0.3), seed)
        self.simulator = LocalSimulator(task, self.problem)

    def theta(self) -> Array:
        return self.policy.init(generator(self.problem.seed, Purpose.INIT))

    def rollout(
        self,
        theta: Array,
        episodes: Episodes,
        chunks: Sequence[Sequence[int]] | None = None,
        normaliser: tuple[Array, Array] | None = None,
    ) -> Rollouts:
        n, t, o = len(episodes.members), self.task.horizon, self.policy.obs_size
        obs, actions = (np.full((n, t, size), np.nan, np.float32) for size in (o, self.policy.recorded_size))
        results = Rollouts(
            rewards=np.full((n, t), np.nan),
            steps=np.zeros(n, np.int64),
            terminated=np.zeros(n, bool),
            trajectories=Trajectories(obs, actions) if episodes.record else None,
            obs_sums=np.zeros((n, 2, o)),
            states=np.full((n, episodes.states, o), np.nan, np.float32) if episodes.states else None,
        )
        for chunk in chunks or [range(n)]:
            self.simulator.run(theta, episodes, chunk, normaliser, results)
        return results

    def batch(self, theta: Array, iteration: int = 0, **facts: Any) -> Batch:
        episodes = Episodes.of_pairs(iteration, self.pairs, record=True, **facts)
        return Batch(theta, episodes, self.rollout(theta, episodes))

    def total(self, estimator: Estimator, batch: Batch, rows: Rows, theta: Array) -> Sums:
        (sums,) = sum_by_loop(estimator, self.problem, batch, rows, theta).values()
        return sums

    def sums(self, estimator: Estimator, batch: Batch, state: State | None = None) -> Sums:
        """What all pairs add up to."""
        memory = estimator.init(self.problem) if state is None else state
        with np.errstate(all="ignore"):
            rows = estimator.prepare(self.problem, batch, memory)
        return self.total(estimator, batch, rows, batch.theta)

    def estimate(
        self, estimator: Estimator, batch: Batch, state: State | None = None, theta: Array | None = None
    ) -> Estimate:
        memory = estimator.init(self.problem) if state is None else state
        return estimate(estimator, self.problem, batch, memory, total=self.total, theta=theta)


@dataclass(frozen=True)
class Here:
    """An engine in this process: to look over its shoulder, and where processes of its own are not the point."""

    name: ClassVar[str] = "here"

    def validate(self) -> None: ...

    def make(self, task: Task, problem: Problem, *, members: int, states: int = 0) -> InProcess:
        return InProcess(task, problem)


class InProcess(Engine):
    """Episodes and sums one after the other."""

    def __init__(self, task: Task, problem: Problem) -> None:
        self.collector = Collector(task, problem.policy, pairs=0, seed=problem.seed, directions=problem.directions)

    def rollout(
        self, theta: Array, episodes: Episodes, normaliser: ObsStats | None = None, rows: range | None = None
    ) -> Rollouts:
        return self.collector.rollout(theta, episodes, normaliser=normaliser.normaliser() if normaliser else None)

    def total(self, estimator: Any, batch: Batch, rows: Rows, theta: Array) -> Sums:
        return self.collector.total(estimator, batch, rows, theta)

    def close(self) -> None: ...


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Episodes run in this process, whatever number of workers is asked for: `contract/test_engines.py` shows that
    their bits are the same, and starting workers takes longer than the short runs of most tests."""
    monkeypatch.setattr(Cpu, "make", lambda _, task, problem, **__: InProcess(task, problem))


@pytest.fixture
def jobs_in_process(in_process: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A campaign's jobs run in this process, one after the other: `campaign/test_campaign.py` has them in their own."""
    said: list[dict[str, Any]] = []
    alone = threading.Lock()

    def one(runner: Runner, job: Job) -> Outcome:
        with alone:
            code = child.main([job.encode()])
            return runner._outcome(job, code, said[-1], [])

    monkeypatch.setattr(child, "_say", said.append)
    monkeypatch.setattr(child, "Reporter", Callback)  # it listens to stdin
    monkeypatch.setattr(Runner, "_one", one)


@pytest.fixture(autouse=True)
def nothing_warned(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one test was warned of, the next one is too."""
    monkeypatch.setattr("quell.errors._warned", set())


@pytest.fixture
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that was lost again and again is replaced at once."""
    monkeypatch.setattr("quell.rollout.cpu.crew.PAUSE", 0.0)


def tree_sum(parts: Iterable[Sums]) -> Sums:
    """Neighbours first, then neighbouring sums: what `reduce.Tree` must come to, written the plain way."""
    level = list(parts)
    while len(level) > 1:
        odd = level[-1:] if len(level) % 2 else []
        level = [{k: a[k] + b[k] for k in a} for a, b in zip(level[::2], level[1::2], strict=False)] + odd
    return level[0]
