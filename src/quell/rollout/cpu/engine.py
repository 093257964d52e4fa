"""The CPU engine: persistent worker processes, each stepping its members in lockstep.

An ES iteration needs no synchronisation between members, so processes that never meet during an episode beat a thread
pool that meets at every step. theta goes out and trajectories come back through shared memory.
"""

from __future__ import annotations

import itertools
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from multiprocessing.connection import Connection
from typing import Literal

import cloudpickle

from quell.errors import EngineFailure, QuellError
from quell.estimate import Estimator, Problem, Rows
from quell.estimate.reduce import Node, sum_by_loop, sum_by_vmap
from quell.policy.network import Policy
from quell.policy.normalise import ObsStats
from quell.rollout.cpu.memory import Layout, SharedArrays
from quell.rollout.simulate import Setting, describe_members
from quell.tasks.base import Task
from quell.types import Array, Batch, Episodes, Rollouts, Sums, Trajectories

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class CpuEngine:
    """Runs episodes on `workers` processes; results are the same for any number of them.

    `members` is the largest number of episodes ever asked for at once. The arrays of a Rollouts are views of shared
    memory, valid until the next call.
    """

    def __init__(
        self,
        task: Task,
        problem: Problem,
        *,
        workers: int,
        members: int,
        states: int = 0,
        how: Literal["loop", "vmap"] = "loop",
    ) -> None:
        self._problem, self._how = problem, how
        self._arrays = SharedArrays.create(_layout(task, problem.policy, members, states))
        self._capacity = members
        self._workers: list[tuple[subprocess.Popen[bytes], Connection]] = []
        self._setting = Setting(task, problem)
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="quell-estimate")
        try:
            for _ in range(max(1, min(workers, members))):
                self._workers.append(_start_worker(self._arrays, self._setting))
            for process, connection in self._workers:
                _receive(process, connection)
        except BaseException:
            self.close()
            raise

    def rollout(
        self, theta: Array, episodes: Episodes, normaliser: ObsStats | None = None, rows: range | None = None
    ) -> Rollouts:
        """Run all members, or only those in `rows`; the other rows of the results stay as they were."""
        count = len(episodes.members)
        rows = range(count) if rows is None else rows
        if count > self._capacity:
            raise ValueError(f"engine was made for {self._capacity} members, asked for {count}")
        arrays = self._arrays
        arrays["theta"][:] = theta
        if normaliser is not None:
            arrays["obs_mean"][:], arrays["obs_scale"][:] = normaliser.normaliser()
        bounds = [len(rows) * k // len(self._workers) for k in range(len(self._workers) + 1)]
        shares = [rows[start:end] for start, end in itertools.pairwise(bounds)]  # a pair's direction is drawn once
        busy = [(*worker, indices) for worker, indices in zip(self._workers, shares, strict=True) if indices]
        for _, connection, indices in busy:
            connection.send((episodes, indices, normaliser is not None))
        for process, connection, indices in busy:
            _receive(process, connection, partial(describe_members, self._setting, episodes, indices))
        return self.results(episodes)

    def results(self, episodes: Episodes) -> Rollouts:
        """What the arrays hold for the members of a request."""
        arrays, count = self._arrays, len(episodes.members)
        return Rollouts(
            rewards=arrays["rewards"][:count],
            steps=arrays["steps"][:count].copy(),
            terminated=arrays["terminated"][:count].copy(),
            trajectories=Trajectories(arrays["obs"][:count], arrays["actions"][:count]) if episodes.record else None,
            obs_sums=arrays["obs_sums"][:count],
            states=arrays["states"][:count] if episodes.states else None,
        )

    def total(self, estimator: Estimator, batch: Batch, rows: Rows, theta: Array) -> Sums:
        if self._how == "vmap":
            return sum_by_vmap(estimator, self._problem, batch, rows, theta)
        (sums,) = sum_by_loop(estimator, self._problem, batch, rows, theta, mapper=self._threads.map).values()
        return sums

    def part(
        self, estimator: Estimator, batch: Batch, rows: Rows, theta: Array, *, leaves: range, first: int
    ) -> dict[Node, Sums]:
        """The sums of some blocks of pairs; `rows` begins at pair `first`."""
        mapper = self._threads.map
        return sum_by_loop(estimator, self._problem, batch, rows, theta, leaves=leaves, mapper=mapper, first=first)

    def metrics(self) -> dict[str, float]:
        return {}

    def close(self) -> None:
        self._threads.shutdown()
        for _, connection in self._workers:
            connection.close()
        for process, _ in self._workers:
            try:
                process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._workers = []
        self._arrays.close()

    def __enter__(self) -> CpuEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _layout(task: Task, policy: Policy, members: int, states: int) -> Layout:
    n, t, o = members, task.horizon, policy.obs_size
    return {
        "theta": ((policy.dim,), "float32"),
        "obs_mean": ((o,), "float32"),
        "obs_scale": ((o,), "float32"),
        "obs": ((n, t, o), "float32"),
        "actions": ((n, t, policy.recorded_size), "float32"),
        "rewards": ((n, t), "float64"),
        "steps": ((n,), "int64"),
        "terminated": ((n,), "bool"),
        "obs_sums": ((n, 2, o), "float64"),
        "states": ((n, states, o), "float32"),
    }


def _start_worker(arrays: SharedArrays, setting: Setting) -> tuple[subprocess.Popen[bytes], Connection]:
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", "quell.rollout.cpu.worker", str(theirs.fileno()), str(arrays.fd)],
            pass_fds=(theirs.fileno(), arrays.fd),
            # One BLAS thread each, or they fight over the cores; and modules found here are found there.
            env={**os.environ, **ONE_THREAD, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # a Ctrl-C at the terminal goes to the trainer alone
        )
    connection = Connection(ours.detach())
    # What a script or notebook defines itself, such as directions of its own, travels with its code.
    connection.send_bytes(cloudpickle.dumps((setting, arrays.layout)))
    return process, connection


def _receive(
    process: subprocess.Popen[bytes], connection: Connection, doing: Callable[[], str] = lambda: "starting"
) -> None:
    """Wait for a worker's answer; `doing` says what it was at, should it have died."""
    try:
        answer = connection.recv()
    except (EOFError, ConnectionResetError):
        code = process.wait()
        how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
        text = f"a worker process ended unexpectedly ({how}) while {doing()}"
        raise EngineFailure(text, lost=True) from None
    if answer is not None:
        error, text = answer
        if isinstance(error, QuellError):
            raise error
        raise EngineFailure(f"a worker failed:\n{text}")
