"""Several control variates at once, with coefficients chosen by the variance they would have had so far.

    g = 1/N sum_i (X_i + sum_k beta_k * Y_ik)        (eq. 8 with a vector of control variates)

Every column Y_k has mean zero: ES(gamma) - RE(gamma) for each of several discounts, with the mean of the other members
as baseline; and, for each value function V, sum_t (V(s_t, t) - b_t) grad log pi(a_t | s_t), which exchanges that
baseline for V to the extent of its coefficient. All coefficients come from past batches, so g is unbiased.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quell.choose import Chooser, second_moment
from quell.choose_policy import PolicyChooser
from quell.estimate import Estimate, State, total_variance
from quell.estimate.policy_gradient import advantages, pair_scores, step_weights
from quell.estimate.score import Fitness, others_removed, pair_score, shaped_fitness
from quell.estimate.value import ValueFunction
from quell.policy import Policy
from quell.reduce import Sums, accumulate
from quell.returns import Shaping, alive
from quell.types import Batch

Array = NDArray[Any]
STATES = 64  # of each pair, for the policy's metric


@dataclass(frozen=True)
class Prepared:
    """What is global about a batch."""

    fitness: Fitness
    returns: Array  # [discounts, 2N] scaled J^gamma, less the mean of the other pairs
    weights: Array  # [discounts, 2N, t] scaled weights of the scores
    togo: Array  # [1, 2N, t] G_t at the first discount
    baseline: Array  # [1, 2N, t] the mean over the other members
    fits: tuple[Array, ...]  # the value functions' weights; all zero before the first fit


@dataclass(frozen=True)
class AutoControlVariate:
    """ES with any number of control variates; `chooser` turns past moments into coefficients.

    A Chooser looks at sums of products per coordinate, a PolicyChooser at those of the changes of the policy that each
    column's part in each layer would cause.
    """

    policy: Policy
    chooser: Chooser | PolicyChooser
    discounts: tuple[float, ...] = (1.0, 0.99)
    values: tuple[ValueFunction, ...] = ()
    shaping: Shaping = "normalise"
    perturbs = True
    records = True
    updates = 1

    def init(self) -> State:
        state = self.chooser.init()
        for value in self.values:
            state |= value.init()
        return state

    def prepare(self, batch: Batch, state: State) -> Prepared:
        found = advantages(batch, self.discounts, "leave-one-out")
        fitness = shaped_fitness(np.where(np.repeat(found.good, 2), batch.rollouts.returns, np.nan), self.shaping)
        weights = step_weights(found.values * fitness.scale, self.discounts)
        returns = others_removed(found.togo[:, :, 0] * fitness.scale, int(fitness.good.sum()))
        togo = found.togo[:1]
        fits = tuple(value.weights(state) for value in self.values)
        return Prepared(fitness, returns, weights, togo, togo - found.values[:1], fits)

    def contribution(self, batch: Batch, prepared: Prepared, pairs: Iterable[int], theta: Array) -> Sums:
        columns = 1 + len(self.discounts) + len(self.values)
        sums: Sums = {
            "count": np.zeros(()),
            "c": np.zeros((columns, len(theta))),
            "cc": np.zeros((columns, columns, len(theta))),
        }
        if isinstance(self.chooser, PolicyChooser):
            sums["gram"] = np.zeros((self.chooser.size, self.chooser.size))
        for value in self.values:
            sums |= value.init()
        for pair in pairs:
            if prepared.fitness.good[pair]:
                weights = self._weights(batch, prepared, slice(2 * pair, 2 * pair + 2), sums)
                c = self._columns(batch, prepared, pair, theta, weights)
                accumulate(sums, count=1.0, c=c, cc=c[:, None] * c[None])
                if isinstance(self.chooser, PolicyChooser):
                    accumulate(sums, gram=self._gram(self.chooser, batch, pair, c))
        return sums

    def _gram(self, chooser: PolicyChooser, batch: Batch, pair: int, columns: Array) -> Array:
        """Products of A times each column's part in each layer, over some states of the pair's own episodes."""
        from quell.scores import policy_change

        paths = batch.rollouts.trajectories
        assert paths is not None
        seen = [
            paths.obs[row][np.linspace(0, batch.rollouts.steps[row] - 1, STATES // 2).astype(int)]
            for row in (2 * pair, 2 * pair + 1)
        ]
        parts = chooser.split(columns).astype(np.float32)
        moved = np.asarray(policy_change(self.policy)(batch.theta, np.concatenate(seen), parts), np.float64)
        return np.asarray(moved @ moved.T)

    def _weights(self, batch: Batch, prepared: Prepared, rows: slice, sums: Sums) -> Array:
        """What multiplies a pair's scores in each column: [K, 2, t]. Value functions learn on the way."""
        paths, steps = batch.rollouts.trajectories, batch.rollouts.steps[rows]
        assert paths is not None, "this estimator needs recorded trajectories"
        weights = [prepared.weights[:, rows]]
        for value, fit in zip(self.values, prepared.fits, strict=True):
            values, learned = value.apply(fit, paths.obs[rows], prepared.togo[:, rows], steps)
            accumulate(sums, **learned)
            gap = np.where(alive(steps, values.shape[-1]), values - prepared.baseline[:, rows], 0.0)
            weights.append(step_weights(gap * prepared.fitness.scale, self.discounts[:1]))
        return np.concatenate(weights)

    def _columns(self, batch: Batch, prepared: Prepared, pair: int, theta: Array, weights: Array) -> Array:
        """X_i, then every Y_ik: [1 + K, d] float64."""
        rows = slice(2 * pair, 2 * pair + 2)
        eps = batch.directions.pair(batch.iteration, pair)
        thetas = np.stack([theta + np.float32(batch.sigma) * e for e in eps])
        scores = pair_scores(self.policy, batch, pair, thetas, weights).mean(axis=0, dtype=np.float64)
        columns = np.concatenate([np.zeros((1, len(theta))), -scores])
        for k, values in enumerate([prepared.fitness.fitness[rows], *prepared.returns[:, rows]]):
            columns[k] += pair_score(values, eps, batch.sigma, batch.directions.symmetric)
        return columns

    def combine(self, sums: Sums, prepared: Prepared, state: State) -> Estimate:
        count, c, cc = float(sums["count"]), sums["c"], sums["cc"]
        plain = total_variance(c[0], cc[0, 0], count)
        sound = bool(np.isfinite(cc).all() and np.isfinite(sums.get("gram", 0.0)).all())
        metrics = {"variance/es": plain, "gamma": self.discounts[0], "trouble/cv_dropped": float(not sound)}
        if not sound or not count:  # as in plain CV: fall back to ES, learn nothing
            metrics |= {"variance/method": plain, "variance/ratio": 1.0}
            return Estimate((c[0] / max(count, 1)).astype(np.float32), state, metrics)
        beta, used = self.chooser.coefficients(state)
        combined = c[0] + (beta * c[1:]).sum(axis=0)
        variance = total_variance(combined, second_moment(cc, beta), count)
        metrics |= {
            "variance/method": variance,
            "variance/ratio": variance / plain if plain > 0 else 1.0,
            "eta/mean": float(beta[0].mean()),
            "eta/min": float(beta[0].min()),
            "eta/max": float(beta[0].max()),
            "auto/plain": float((used == 0).mean()),
        }
        ready = np.array([True] * len(self.discounts) + [fit.any() for fit in prepared.fits])
        state = self.chooser.update(state, sums.get("gram", cc), count, ready)
        for value in self.values:
            state = value.update(state, sums)
        return Estimate((combined / count).astype(np.float32), state, metrics)
