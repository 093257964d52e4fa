"""An estimator of one's own: ES that listens to the better pairs only ("top directions", Mania et al., 2018).

An estimator is additive contributions of pairs, then one combine; see quell.estimate.Estimator. About fifteen seconds.
"""

from dataclasses import dataclass

import numpy as np

import quell
from quell.estimate import Estimate, estimate
from quell.estimate.score import pair_score
from quell.keys import Purpose, generator


@dataclass(frozen=True)
class TopDirections:
    keep: int
    perturbs = True
    records = False
    updates = 1

    def init(self):
        return {}

    def prepare(self, batch, state):
        """Global: which pairs' better member is among the best, and the spread of their returns."""
        by_pair = batch.rollouts.returns.reshape(-1, 2)
        chosen = set(np.argsort(by_pair.max(axis=1))[-self.keep :])
        return by_pair, chosen, by_pair[list(chosen)].std()

    def contribution(self, batch, prepared, pairs, theta):
        by_pair, chosen, spread = prepared
        total = np.zeros(len(theta))
        for pair in pairs:
            if pair in chosen:
                eps = batch.directions.pair(batch.iteration, pair)
                total += pair_score(by_pair[pair] / spread, eps, batch.sigma, batch.directions.symmetric)
        return {"x": total}

    def combine(self, sums, prepared, state):
        return Estimate((sums["x"] / self.keep).astype(np.float32), state, {})


task = quell.task("swimmer")
policy = quell.Policy(task.obs_size, task.action_size, kind="deterministic", activation="tanh")
directions = quell.Directions("gaussian", seed=0, pairs=8, dim=policy.dim)
estimator = TopDirections(keep=4)
theta = policy.init(generator(0, Purpose.INIT))

with quell.CpuEngine(task, policy, directions, workers=2, members=16) as engine:
    for iteration in range(25):
        episodes = quell.Episodes.of_pairs(iteration, 8, sigma=0.1, record=False, shared_reset=True)
        batch = quell.Batch(theta, 0.1, iteration, directions, engine.rollout(theta, episodes))
        theta = theta + np.float32(0.01) * estimate(estimator, batch, {}).gradient
        print(f"iteration {iteration:2d}  return {batch.rollouts.returns.mean():7.1f}")
