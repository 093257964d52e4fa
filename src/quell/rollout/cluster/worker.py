"""What runs on an actor: the episodes of a shard, and then the contributions of its pairs."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from quell.estimate import Estimator, contributions
from quell.observations import ObsStats
from quell.perturb import Directions
from quell.policy import Policy
from quell.reduce import Node, Sums, blocks
from quell.rollout.cpu import CpuEngine
from quell.tasks.base import Task
from quell.types import Batch, Episodes

Array = NDArray[Any]


@dataclass(frozen=True)
class Setup:
    """Everything about a run that a worker needs to know once."""

    task: Task
    policy: Policy
    directions: Directions
    estimator: Estimator
    members: int
    cores: int


@dataclass(frozen=True)
class Request:
    """What is broadcast once per iteration: with the keys it determines every episode."""

    serial: int  # no two batches of a session share one
    theta: Array
    episodes: Episodes
    normaliser: ObsStats | None


@dataclass(frozen=True)
class Scalars:
    """What the driver learns about the episodes of a shard."""

    rewards: Array  # [n, t] up to the longest episode; [n, 1] returns where no estimator asks for more
    steps: Array  # [n]
    terminated: Array  # [n]
    obs_sums: Array  # [n, 2, o]

    @property
    def nbytes(self) -> int:
        return sum(a.nbytes for a in (self.rewards, self.steps, self.terminated, self.obs_sums))


class Worker:
    """One actor. Arrays are addressed by the members' rows in the whole batch, of which it fills only its own."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._started = self._working = False
        self._serial = -1
        self._rows: set[int] = set()  # of the batch with this serial number, the members held here

    def start(self) -> tuple[str, int]:
        """Make ready to work; (host, process id). Not done on construction, so that errors arrive as they are."""
        if not self._started:  # it is asked again where the answer was lost
            cores, parts = self._setup.cores, (self._setup.task, self._setup.policy, self._setup.directions)
            self._engine = CpuEngine(*parts, workers=cores, members=self._setup.members)
            self._threads = ThreadPoolExecutor(cores)
            self._started = True
        return socket.gethostname(), os.getpid()

    def ping(self) -> bool:
        """A sign of life, answered by a thread of its own: whether a call is being worked on."""
        return self._working

    def rollout(self, request: Request, rows: range) -> Scalars:
        """Run the episodes of some members and tell their scalars."""
        with self._work():
            self._run(request, rows)
        found, cut = self._engine.results(request.episodes), slice(rows.start, rows.stop)
        if request.episodes.record:
            rewards = found.rewards[cut, : int(found.steps[cut].max())]
        else:
            rewards = found.returns[cut, None]
        return Scalars(rewards.copy(), found.steps[cut], found.terminated[cut], found.obs_sums[cut].copy())

    def contribute(self, request: Request, leaves: range, prepared: Any, theta: Array | None) -> dict[Node, Sums]:
        """Sums over the pairs of some blocks, at `theta` (the request's if None).

        Their episodes are run again, to the same bits, when it was another worker that ran them and is no more.
        """
        with self._work():
            return self._contribute(request, leaves, prepared, request.theta if theta is None else theta)

    def _contribute(self, request: Request, leaves: range, prepared: Any, theta: Array) -> dict[Node, Sums]:
        setup, episodes = self._setup, request.episodes
        if setup.estimator.records:
            cut = blocks(len(episodes.members) // 2)
            rows = range(2 * cut[leaves[0]].start, 2 * cut[leaves[-1]].stop)
            if self._serial != request.serial or not self._rows.issuperset(rows):
                self._run(request, rows)
        rollouts = self._engine.results(episodes)
        batch = Batch(request.theta, episodes.sigma, episodes.iteration, setup.directions, rollouts)
        return contributions(setup.estimator, batch, prepared, theta, leaves, self._threads.map)

    @contextmanager
    def _work(self) -> Iterator[None]:
        self._working = True
        try:
            yield
        finally:
            self._working = False

    def _run(self, request: Request, rows: range) -> None:
        if self._serial != request.serial:
            self._serial, self._rows = request.serial, set()
        self._rows.difference_update(rows)  # half-written if this fails
        self._engine.rollout(request.theta, request.episodes, request.normaliser, rows)
        self._rows.update(rows)
