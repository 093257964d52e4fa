"""Shared by the tests: batches of episodes made in this process."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quell.keys import Purpose, generator
from quell.perturb import Directions
from quell.policy import Policy
from quell.reduce import Sums
from quell.rollout.simulate import LocalSimulator, Results, Setting
from quell.tasks.base import Task
from quell.types import Batch, Episodes, Rollouts, Trajectories


class Collector:
    """Runs iterations of one setting in this process and hands back batches."""

    def __init__(self, task: Task, policy: Policy, *, pairs: int, seed: int = 0, kind: str = "gaussian") -> None:
        self.task, self.policy, self.pairs = task, policy, pairs
        self.directions = Directions(kind, seed, pairs, policy.dim)  # type: ignore[arg-type]
        self.simulator = LocalSimulator(Setting(task, policy, self.directions))

    def theta(self) -> NDArray[Any]:
        return self.policy.init(generator(self.directions.seed, Purpose.INIT))

    def rollout(
        self, theta: NDArray[Any], episodes: Episodes, chunks: Sequence[Sequence[int]] | None = None
    ) -> Rollouts:
        n, t, o = len(episodes.members), self.task.horizon, self.policy.obs_size
        results = Results(
            obs=np.full((n, t, o), np.nan, np.float32),
            actions=np.full((n, t, self.policy.recorded_size), np.nan, np.float32),
            rewards=np.full((n, t), np.nan),
            steps=np.zeros(n, np.int64),
            terminated=np.zeros(n, bool),
            obs_sums=np.zeros((n, 2, o)),
        )
        for chunk in chunks or [range(n)]:
            self.simulator.run(theta, episodes, chunk, None, results)
        trajectories = Trajectories(results.obs, results.actions) if episodes.record else None
        return Rollouts(results.rewards, results.steps, results.terminated, trajectories, results.obs_sums)

    def batch(self, theta: NDArray[Any], sigma: float, iteration: int = 0, *, shared_reset: bool = True) -> Batch:
        episodes = Episodes.of_pairs(iteration, self.pairs, sigma, record=True, shared_reset=shared_reset)
        return Batch(theta, sigma, iteration, self.directions, self.rollout(theta, episodes))


def tree_sum(parts: Iterable[Sums]) -> Sums:
    """Neighbours first, then neighbouring sums: what `quell.reduce.Tree` must come to, written the plain way."""
    level = list(parts)
    while len(level) > 1:
        odd = level[-1:] if len(level) % 2 else []
        level = [{k: a[k] + b[k] for k in a} for a, b in zip(level[::2], level[1::2], strict=False)] + odd
    return level[0]
