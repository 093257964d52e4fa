"""ES: the score-function gradient of the smoothed objective (eq. 4), antithetic.

    g = 1/N sum_i X_i,    X_i = (J_i+ eps_i+  +  J_i- eps_i-) / (2 sigma)

which is (J+ - J-) / (2 sigma) * eps for a symmetric pair. With directions of the right kind this is also ORTHO, GCMC
and QMC, and with a deterministic policy it is Det.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quell.estimate import Estimate, State, total_variance
from quell.reduce import Sums, accumulate
from quell.returns import Shaping, finite_pairs, shape
from quell.types import Batch

Array = NDArray[Any]


@dataclass(frozen=True)
class Fitness:
    """What is global about a batch of returns."""

    fitness: Array  # [2N] shaped returns, less the mean of the other pairs; 0 for members of bad pairs
    scale: float  # what the control variate is multiplied by, so that it matches the shaped returns
    good: Array  # bool [N] pairs whose two returns are finite


def shaped_fitness(returns: Array, how: Shaping) -> Fitness:
    """Shape the returns of the good pairs and centre each pair on the mean of the others.

    The centre cancels in a symmetric pair. In a GCMC pair it does not, and the mean of the *other* pairs, which is
    independent of this one, removes the returns' common part without bias.
    """
    good = finite_pairs(returns)
    members = np.repeat(good, 2)
    fitness = np.zeros(len(returns))
    scale = 0.0
    if good.any():
        shaped, scale = shape(returns[members], how)
        by_pair = shaped.reshape(-1, 2)
        count = len(by_pair)
        others = (by_pair.sum() - by_pair.sum(axis=1)) / (2 * count - 2) if count > 1 else by_pair.mean(axis=1)
        fitness[members] = (by_pair - np.reshape(others, (-1, 1))).reshape(-1)
    return Fitness(fitness, scale, good)


def pair_score(values: Array, eps: tuple[Array, Array], sigma: float, symmetric: bool) -> Array:
    """X_i = (J+ eps+ + J- eps-) / (2 sigma), for values (J+, J-)."""
    if symmetric:
        return np.float32((values[0] - values[1]) / (2 * sigma)) * eps[0]
    return np.float32(values[0] / (2 * sigma)) * eps[0] + np.float32(values[1] / (2 * sigma)) * eps[1]


def others_removed(returns: Array, good: int) -> Array:
    """Discounted returns [k, 2N] less the mean over the other (good) pairs; bad pairs have return 0 here."""
    if good < 2:
        return returns
    by_pair = returns.reshape(len(returns), -1, 2)
    others = (by_pair.sum(axis=(1, 2), keepdims=True) - by_pair.sum(axis=2, keepdims=True)) / (2 * good - 2)
    return np.asarray(by_pair - others).reshape(returns.shape)


@dataclass(frozen=True)
class Score:
    """The plain ES estimator."""

    shaping: Shaping = "normalise"
    perturbs = True
    records = False
    updates = 1

    def init(self) -> State:
        return {}

    def prepare(self, batch: Batch, state: State) -> Fitness:
        return shaped_fitness(batch.rollouts.returns, self.shaping)

    def contribution(self, batch: Batch, prepared: Fitness, pairs: Iterable[int], theta: Array) -> Sums:
        dim = len(batch.theta)
        sums: Sums = {"count": np.zeros(()), "x": np.zeros(dim), "xx": np.zeros(dim)}
        for pair in pairs:
            if not prepared.good[pair]:
                continue
            eps = batch.directions.pair(batch.iteration, pair)
            values = prepared.fitness[2 * pair : 2 * pair + 2]
            x = pair_score(values, eps, batch.sigma, batch.directions.symmetric)
            accumulate(sums, count=1.0, x=x, xx=np.square(x))
        return sums

    def combine(self, sums: Sums, prepared: Fitness, state: State) -> Estimate:
        count = float(sums["count"])
        variance = total_variance(sums["x"], sums["xx"], count)
        metrics = {"variance/es": variance, "variance/method": variance, "variance/ratio": 1.0}
        return Estimate((sums["x"] / max(count, 1)).astype(np.float32), state, metrics)
