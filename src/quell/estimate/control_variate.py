"""CV: an ES gradient less the noise that a policy gradient of the same objective shows (eq. 8).

    X_i = ES(1) of pair i,   Y_i = ES(gamma) - RE(gamma) of pair i,   g = 1/N sum_i (X_i + eta * Y_i)

ES(gamma) and RE(gamma) estimate the same gradient without bias, so Y has mean zero, and g is unbiased for every gamma
and every eta that come from earlier batches only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quell.adapt import EtaLearner, GammaLearner
from quell.estimate import Estimate, State, total_variance
from quell.estimate.policy_gradient import Baseline, advantages, pair_scores, step_weights
from quell.estimate.score import Fitness, others_removed, pair_score, shaped_fitness
from quell.estimate.value import ValueFunction
from quell.policy import Policy
from quell.reduce import Sums, accumulate
from quell.returns import Shaping
from quell.types import Batch

Array = NDArray[Any]


@dataclass(frozen=True)
class Prepared:
    """What is global about a batch: the fitness for X, and the scaled discounted returns and step weights for Y."""

    iteration: int
    fitness: Fitness
    gammas: Sequence[float]  # [k]; the first is the one in use, the others are the gamma learner's trials
    returns: Array  # [k, 2N] scaled J^gamma, less the mean of the other pairs
    weights: Array  # [k, 2N, t] scaled gamma^t (G_t - b_t)
    togo: Array  # [1, 2N, t] G_t at the discount in use, what a value function learns from
    value: Array | None  # the weights of the value function, if that is the baseline


@dataclass(frozen=True)
class ControlVariate:
    """ES with the paper's structured control variate, on top of any kind of directions."""

    policy: Policy
    eta: EtaLearner
    gamma: GammaLearner
    shaping: Shaping = "normalise"
    baseline: Baseline | ValueFunction = "none"
    perturbs = True
    records = True
    updates = 1

    def init(self) -> State:
        return {**self.eta.init(), **self.gamma.init(), **(self.value.init() if self.value else {})}

    @property
    def value(self) -> ValueFunction | None:
        """The baseline, where it is a value function."""
        return self.baseline if isinstance(self.baseline, ValueFunction) else None

    def prepare(self, batch: Batch, state: State) -> Prepared:
        gammas = self.gamma.gammas(state, batch.iteration)
        baseline = "none" if isinstance(self.baseline, ValueFunction) else self.baseline
        found = advantages(batch, gammas, baseline)
        fitness = shaped_fitness(np.where(np.repeat(found.good, 2), batch.rollouts.returns, np.nan), self.shaping)
        centred = others_removed(found.togo[:, :, 0] * fitness.scale, int(fitness.good.sum()))
        weights = step_weights(found.values * fitness.scale, gammas)
        value = self.value.weights(state) if self.value else None
        return Prepared(batch.iteration, fitness, gammas, centred, weights, found.togo[:1], value)

    def _weights(self, batch: Batch, prepared: Prepared, rows: slice, sums: Sums) -> Array:
        """gamma^t (G_t - b_t) of a pair. A value function, which needs its observations, comes off only here.

        Its predictions, of the discount in use, serve the trial discounts too.
        """
        weights, paths = prepared.weights[:, rows], batch.rollouts.trajectories
        if self.value is None or prepared.value is None or paths is None:
            return weights
        steps = batch.rollouts.steps[rows]
        values, learned = self.value.apply(prepared.value, paths.obs[rows], prepared.togo[:, rows], steps)
        accumulate(sums, **learned)
        return np.asarray(weights - step_weights(values * prepared.fitness.scale, prepared.gammas))

    def contribution(self, batch: Batch, prepared: Prepared, pairs: Iterable[int], theta: Array) -> Sums:
        zeros, trials = np.zeros(len(theta)), len(prepared.gammas) - 1
        sums: Sums = {"count": np.zeros(()), **{name: zeros.copy() for name in ("x", "y", "xx", "xy", "yy")}}
        if trials:
            sums["trials"] = np.zeros((trials, len(theta)))
        sums |= self.value.init() if self.value else {}
        for pair in pairs:
            if not prepared.fitness.good[pair]:
                continue
            rows = slice(2 * pair, 2 * pair + 2)
            eps = batch.directions.pair(batch.iteration, pair)
            thetas = np.stack([theta + np.float32(batch.sigma) * e for e in eps])
            scores = pair_scores(self.policy, batch, pair, thetas, self._weights(batch, prepared, rows, sums))
            symmetric = batch.directions.symmetric
            x = pair_score(prepared.fitness.fitness[rows], eps, batch.sigma, symmetric)
            ys = [
                pair_score(returns, eps, batch.sigma, symmetric) - (plus + minus) / 2
                for returns, plus, minus in zip(prepared.returns[:, rows], scores[0], scores[1], strict=True)
            ]
            y = ys[0].astype(np.float64)
            accumulate(sums, count=1.0, x=x, y=y, xx=np.square(x, dtype=np.float64), xy=x * y, yy=np.square(y))
            if trials:
                accumulate(sums, trials=np.stack(ys[1:]))
        return sums

    def combine(self, sums: Sums, prepared: Prepared, state: State) -> Estimate:
        count = float(sums["count"])
        plain = total_variance(sums["x"], sums["xx"], count)
        sound = all(np.isfinite(sums[name]).all() for name in ("y", "xy", "yy"))
        metrics = {
            "variance/es": plain,
            "gamma": float(prepared.gammas[0]),
            "trouble/cv_dropped": float(not sound),
        }
        if not sound:  # an overflowing policy gradient: this batch falls back to plain ES, and nothing is learned
            metrics |= {"variance/method": plain, "variance/ratio": 1.0}
            return Estimate((sums["x"] / max(count, 1)).astype(np.float32), state, metrics)
        eta = self.eta.eta(state)
        combined = sums["x"] + eta * sums["y"]
        squares = sums["xx"] + 2 * eta * sums["xy"] + eta**2 * sums["yy"]
        variance = total_variance(combined, squares, count)
        metrics |= {
            "variance/method": variance,
            "variance/ratio": variance / plain if plain > 0 else 1.0,
            "eta/mean": float(eta.mean()),
            "eta/min": float(eta.min()),
            "eta/max": float(eta.max()),
        }
        if count:
            state, learned = self.eta.update(state, sums, count)
            state = self.gamma.update(state, prepared.iteration, sums, eta, count)
            state = self.value.update(state, sums) if self.value else state
            metrics |= learned
        return Estimate((combined / max(count, 1)).astype(np.float32), state, metrics)
