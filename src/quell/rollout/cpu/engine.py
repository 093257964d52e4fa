"""The CPU engine: persistent worker processes, each stepping its members in lockstep.

An ES iteration needs no synchronisation between members, so processes that never meet during an episode beat a thread
pool that meets at every step. theta goes out and trajectories come back through shared memory.
"""

import itertools
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from quell.cache import keep_compiled
from quell.estimate import Estimator, Problem, Rows
from quell.estimate.reduce import Node, shards, sum_by_loop, sum_by_vmap
from quell.limits import require_memory
from quell.policy.network import Policy
from quell.rollout import Engine
from quell.rollout.cpu import Cpu
from quell.rollout.cpu.crew import Crew, Job
from quell.rollout.cpu.memory import Layout, Ledger, SharedArrays, bytes_of
from quell.rollout.simulate import describe_members
from quell.tasks.base import Task
from quell.types import Array, Batch, Episodes, ObsStats, Rollouts, Sums

FEW = 1 << 14  # numbers of a pair: with fewer, threads spend their time waiting for Python's lock
COPIES = 16  # of theta, at least: a worker's, a step's state, directions, gradients in double precision


class CpuEngine(Engine):
    """Runs episodes on worker processes; results, views of shared memory, are the same for any number of them."""

    def __init__(self, task: Task, problem: Problem, compute: Cpu, *, members: int, states: int = 0) -> None:
        keep_compiled()
        self._task, self._problem, self._how = task, problem, compute.sum
        workers = max(1, min(compute.processes, members))
        layout = _layout(task, problem.policy, members, states, workers)
        policy = f"a policy of {problem.policy.dim:,} parameters (a smaller `policy.hidden=...`)"
        require_memory(COPIES * 4 * problem.policy.dim, policy)
        played = f"{members:,} episodes of {task.horizon:,} steps with {task.obs_size:,} observations"
        size = sum(bytes_of(*array) for array in layout.values())
        require_memory(size, f"{played} (fewer `pairs=...` or episodes, a shorter `horizon=...`)")
        self._arrays = SharedArrays.create(layout)
        self._capacity, self._requests = members, itertools.count(1)
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="quell-estimate")
        try:
            self.crew = Crew(task, problem, self._arrays, workers, compute.worker_timeout)
        except BaseException:
            self._arrays.close()
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
        shares = [rows[part.start : part.stop] for part in shards(len(rows), len(self.crew))]  # pairs stay together
        number = next(self._requests)
        ledger = Ledger(arrays["marks"], number)

        def doing(share: range) -> str:
            members = ledger.at_work(share) or share
            return describe_members(self._task, self._problem.seed, episodes, members)

        asked = [(number, episodes, share, normaliser is not None) for share in shares]
        self.crew.run([Job(one, partial(doing, one[2]), partial(ledger.done, one[2])) for one in asked])
        return self.results(episodes)

    def results(self, episodes: Episodes) -> Rollouts:
        """What the arrays hold for the members of a request."""
        return self._arrays.rollouts(episodes)

    def total(self, estimator: Estimator, batch: Batch, rows: Rows, theta: Array) -> Sums:
        if self._how == "vmap":
            return sum_by_vmap(estimator, self._problem, batch, rows, theta)
        (sums,) = self.part(estimator, batch, rows, theta).values()
        return sums

    def part(
        self, estimator: Estimator, batch: Batch, rows: Rows, theta: Array, leaves: range | None = None
    ) -> dict[Node, Sums]:
        """The sums of some blocks of pairs (all by default), whose rows these are."""
        policy, paths = self._problem.policy, batch.rollouts.trajectories
        numbers = policy.dim + (2 * policy.obs_size * batch.rollouts.steps.mean() if paths else 0)
        mapper = self._threads.map if numbers > FEW and batch.pairs > 1 else map
        return sum_by_loop(estimator, self._problem, batch, rows, theta, leaves=leaves, mapper=mapper)

    def close(self) -> None:
        self.crew.close()
        self._threads.shutdown(cancel_futures=True)
        self._arrays.close()


def _layout(task: Task, policy: Policy, members: int, states: int, workers: int) -> Layout:
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
        "marks": ((n,), "int64"),
        "pulse": ((workers, 8), "int64"),  # a cache line each
    }
