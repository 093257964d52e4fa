"""The Ray engine: an iteration cut into shards of whole blocks, one per worker."""

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from quell.errors import EngineFailure
from quell.estimate import Estimator, Problem, Rows
from quell.estimate.reduce import Tree, blocks, shards
from quell.rollout import Engine
from quell.rollout.cluster import Ray
from quell.rollout.cluster.fleet import Fleet, Job, Patience
from quell.rollout.cluster.session import Session
from quell.rollout.cluster.worker import Request
from quell.rollout.cpu import Cpu
from quell.rollout.cpu.engine import CpuEngine
from quell.tasks.base import Task
from quell.types import Array, Batch, Episodes, ObsStats, Rollouts, Sums


@contextmanager
def _ended_by_ray() -> Iterator[None]:
    """Ray's own trouble is an engine's failure, after which a run is saved: its node on this machine is no more."""
    from ray.exceptions import RayError

    try:
        yield
    except (OSError, RayError) as error:
        what = str(error).strip().partition("\n")[0]
        raise EngineFailure(f"the connection to Ray is lost ({what})") from None


class RayEngine(Engine):
    """Runs episodes on Ray workers and adds up their contributions there; the same bits as on one machine."""

    def __init__(
        self, task: Task, problem: Problem, compute: Ray, *, members: int, states: int, patience: Patience | None = None
    ) -> None:
        self._horizon, cores = task.horizon, compute.worker_cores
        inner = Cpu(workers=cores, worker_timeout=compute.worker_timeout)
        local = partial(CpuEngine, task, problem, inner, members=members, states=states)
        self._session = Session(compute.address, compute.processes * cores)
        count = compute.processes if self._session.local else compute.workers
        patience = patience or Patience(compute.worker_timeout, max(120.0, 2 * compute.worker_timeout))
        try:
            import ray

            self._ray = ray
            self.fleet = Fleet(local, cores, count, len(blocks(max(1, members // 2))), patience)
        except BaseException:
            self._session.close()
            raise
        self._serials = itertools.count()
        self._request: tuple[Request, Any] | None = None
        self._shards: list[tuple[range, Job]] = []  # members, and who played them
        self._parts: list[Rollouts] = []
        self._sent = self._gathered = 0  # bytes of an iteration's arrays: broadcast, once for all, and from all workers

    @_ended_by_ray()
    def rollout(
        self, theta: Array, episodes: Episodes, normaliser: ObsStats | None = None, rows: range | None = None
    ) -> Rollouts:
        """Run episodes; the scalars of all of them. Trajectories stay with the workers, for `total`."""
        rows = range(len(episodes.members)) if rows is None else rows
        if self._request is None or rows.start == 0:
            self._serial, self._shards, self._parts = next(self._serials), [], []
            self._sent = self._gathered = 0
        request = Request(self._serial, theta, episodes, normaliser)
        reference = self._ray.put(request)
        self._request = request, reference
        unit = 2 * len(blocks(episodes.pairs)[0]) if episodes.paired else 1
        cut = [rows[start : start + unit] for start in range(0, len(rows), unit)]
        members = [range(cut[s[0]].start, cut[s[-1]].stop) for s in shards(len(cut), self.fleet.ready)]
        jobs = [Job(_calling("rollout", reference, own)) for own in members]
        results = self.fleet.run(jobs)
        self._shards += zip(members, jobs, strict=True)
        self._parts += results
        self._sent, self._gathered = self._sent + theta.nbytes, self._gathered + _nbytes(results)
        return _joined(self._parts, self._horizon if episodes.record else 1)

    @_ended_by_ray()
    def total(self, estimator: Estimator, batch: Batch, rows: Rows, theta: Array) -> Sums:
        """The sum of the terms of all pairs of the batch just run. Each worker merges its blocks as far as whole
        subtrees go, and the rest of the tree is added up here."""
        assert self._request is not None
        request, reference = self._request
        assert batch.episodes is request.episodes
        moved = None if theta is request.theta else theta
        self._sent += _nbytes(rows) + _nbytes(moved)
        moved = None if moved is None else self._ray.put(moved)
        cut, size = blocks(batch.pairs), len(blocks(batch.pairs)[0])
        jobs = []
        for members, done in self._shards:  # a block belongs to the worker that played its first pair
            leaves = range(-(-members.start // 2 // size), -(-members.stop // 2 // size))
            if not leaves:
                continue
            part = rows.part(range(cut[leaves[0]].start, cut[leaves[-1]].stop))
            call = _calling("contribute", reference, estimator, leaves, part, moved)
            jobs.append(Job(call, done.holder if estimator.needs.trajectories else None))
        tree = Tree(len(cut))
        for nodes in self.fleet.run(jobs):
            self._gathered += _nbytes(nodes)
            for node, sums in sorted(nodes.items()):
                tree.add(node, sums)
        return tree.total

    def metrics(self) -> dict[str, float]:
        """What the last iteration moved, and what befell the workers so far."""
        counts = {"workers": self.fleet.ready, "lost": self.fleet.lost, "reissued": self.fleet.reissued}
        counts |= {"bytes_out": self._sent, "bytes_in": self._gathered}
        return {f"cluster/{name}": float(count) for name, count in counts.items()}

    def close(self) -> None:
        self._request, self._shards, self._parts = None, [], []
        self.fleet.close()
        self._session.close()


def _calling(method: str, *arguments: Any) -> Callable[[Any], Any]:
    """What asks a worker for something."""
    return lambda actor: actor.call.options(concurrency_group="work").remote(method, *arguments)


def _joined(parts: list[Rollouts], width: int) -> Rollouts:
    """The scalars of all members in order; rewards padded with zeros to `width`, as one machine would have them."""
    rewards, row = np.zeros((sum(len(part.steps) for part in parts), width)), 0
    for part in parts:
        rewards[row : row + len(part.rewards), : part.rewards.shape[1]] = part.rewards
        row += len(part.rewards)
    joined = {name: np.concatenate([getattr(p, name) for p in parts]) for name in ("steps", "terminated", "obs_sums")}
    states = [part.states for part in parts if part.states is not None]
    return Rollouts(rewards, trajectories=None, states=np.concatenate(states) if states else None, **joined)


def _nbytes(value: Any) -> int:
    """Bytes of all arrays within dataclasses, dictionaries and sequences."""
    if isinstance(value, np.ndarray | np.generic):
        return value.nbytes
    if dataclasses.is_dataclass(value):
        return sum(_nbytes(getattr(value, item.name)) for item in dataclasses.fields(value))
    if isinstance(value, dict):
        return sum(map(_nbytes, value.values()))
    return sum(map(_nbytes, value)) if isinstance(value, list | tuple) else 0
