"""CV with advantages: policy gradients measured against a critic, weighed in the metric of the step that is taken.

    R_i = mean over the pair of sum_t A_t / s grad log pi(a_t | s_t)    A_t: GAE(gamma, lambda), s: past returns' spread
    X_i = ES(1) of the pair,    Y_i = X_i - R_i,    g = 1/N sum_i (X_i + beta Y_i)

A step theta + P g does harm by tr(P H P Cov g), H the curvature, which is near the policy's Fisher matrix F. A natural
step has P = F^-1, so what counts is tr(F^-1 Cov g): there a policy gradient has about d times the noise of an
advantage, whereas the noise of ES is dominated by the flattest directions. beta, one per layer, minimises that:

    beta_l = - sum X_l' P Y_l / sum Y_l' P Y_l        over the pairs of past batches, starting at -1 (X for Y: all of R)

With gamma = lambda = 1 the estimate is unbiased. With less, R aims at a nearer horizon and Y no longer has mean zero:
the estimate says so (`biased`), and `quell variance` measures by how much.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from quell.estimate import Estimate, Needs, Problem, Rows, compared
from quell.estimate.advantage import WithCritic, earned_alike
from quell.estimate.control_variate.coefficients import spread_of
from quell.estimate.returns import finite_pairs, less_other_pairs
from quell.estimate.score import pair_score
from quell.perturb import perturbed
from quell.policy.fisher import whitened_products
from quell.registry import DISCOUNT, SHARE
from quell.types import Array, Batch, Metrics, Pair, State, Sums

PRIOR = 1e-12  # of both moments: a coefficient begins at -1
MEMORY = 0.9  # of the returns' spread
WILD = 1e6  # times the returns' spread so far


@dataclass(frozen=True, kw_only=True)
class AdvantageControlVariate(WithCritic):
    """ES and a policy gradient with a critic, each as far as it is the less noisy in the step's metric."""

    name: ClassVar[str] = "advantage"
    gamma: Annotated[float, DISCOUNT] = 0.995
    trace: Annotated[float, SHARE] = 0.97
    decay: Annotated[float, SHARE] = 0.9
    """How much of the moments behind the coefficients survives a batch."""

    @property
    def needs(self) -> Needs:
        return Needs(perturbed=True, trajectories=True, together=getattr(self.critic, "together", False))

    def init(self, problem: Problem) -> State:
        layers = len(problem.policy.blocks)
        own = {
            "moments": np.full((layers, 2), PRIOR),
            "scale": np.zeros(()),
            "last": np.full((2, problem.policy.dim), np.nan),
        }
        return {**own, **self.critic.init(problem)}

    def unit(self, batch: Batch, state: State) -> float:
        """What rewards are divided by: the spread of past returns within pairs, or at first of this batch's; 0 where
        there is nothing to learn, unless nothing may be biased by what a batch itself says."""
        if self.biased and earned_alike(batch):
            return 0.0
        past, fresh = float(state["scale"]), within_pairs(batch.rollouts.returns, finite_pairs(batch.rollouts.rewards))
        return past if fresh < WILD * past else fresh  # from earlier batches, unless that would overflow

    def prepare(self, problem: Problem, batch: Batch, state: State) -> Rows:
        returns, good = batch.rollouts.returns, finite_pairs(batch.rollouts.rewards)
        usable = np.where(np.repeat(good, 2), returns, 0.0)
        scale = self.unit(batch, state)
        fitness = less_other_pairs(usable, int(good.sum())) / scale if scale > 0 else np.zeros_like(usable)
        rows = self.rows(batch, good, state, scale)
        rows.pairs["fitness"] = np.where(np.repeat(good, 2), fitness, 0.0).reshape(-1, 2)
        rows.shared["spread_within"] = np.asarray(within_pairs(usable, good))
        rows.shared["metric"] = batch.metric.whitening() if batch.metric is not None else ()
        return rows

    def terms(self, problem: Problem, pair: Pair, row: dict[str, Any], theta: Any, xp: Any = np) -> dict[str, Any]:
        eps = xp.asarray(pair.eps)
        found, learned = self.advantages(xp, pair, row)
        gradients = self.gradients(xp, problem, pair, row, perturbed(theta, problem.directions.sigma, eps), found)
        x = pair_score(xp, row["fitness"].T[..., None], xp.moveaxis(eps, -2, 0), problem.directions)
        columns = xp.stack([x, x - (gradients[..., 0, :] + gradients[..., 1, :]) / 2], axis=-2)
        wide = columns.astype(np.float64) if xp is np else columns
        products = whitened_products(xp, problem.policy, row["metric"], wide)
        return {"count": xp.ones(x.shape[:-1]), "columns": wide, "products": products, **learned}

    def combine(self, problem: Problem, sums: Sums, rows: Rows, state: State) -> Estimate:
        count, (x, y), products = float(sums["count"]), sums["columns"], sums["products"]
        xy, yy = state["moments"].T
        beta = -xy / yy  # of each layer
        sound = bool(np.isfinite(y).all() and np.isfinite(products).all())
        sizes = [where.stop - where.start for where in problem.policy.blocks]
        combined = x + np.repeat(beta, sizes) * y if sound else x
        gradient = (combined / max(count, 1)).astype(np.float32)
        means = np.stack([x, combined]) / max(count, 1)
        metrics = self._metrics(problem, rows, sums, beta, means, state["last"], sound)
        state = {**state, "last": means}
        scale = _next_scale(state, rows)
        if not sound or not count:  # an overflowing policy gradient: this batch is plain ES, and nothing is learned
            return Estimate(gradient, {**state, "scale": scale}, metrics)
        state = self.critic.update(problem, state, sums, int(rows.shared["iteration"]))
        moments = self.decay * state["moments"] + products[:, [1, 2]] if rows.shared["metric"] else state["moments"]
        return Estimate(gradient, {**state, "moments": moments, "scale": scale}, metrics)

    def _metrics(
        self, problem: Problem, rows: Rows, sums: Sums, beta: Array, means: Array, last: Array, sound: bool
    ) -> Metrics:
        """Variances of ES and of this estimate in the step's metric.

        From the spread of independent pairs; where there is one alone, half the squared distance to the last batch's
        estimates, which are as good as independent.
        """
        count, whitening = float(sums["count"]), rows.shared["metric"]
        metrics = {"gamma": rows.shared["discounting"][0], "trouble/cv_dropped": float(not sound)}
        if not count or not problem.directions.independent:
            return metrics
        vectors = means if count > 1 else means - last
        squares = whitened_products(np, problem.policy, whitening, vectors, crossed=False).sum(axis=0)
        if count == 1:
            plain, own = squares / 2
        else:
            xx, xy, yy = sums["products"].T
            second = (xx + 2 * beta * xy + beta**2 * yy).sum() if sound else xx.sum()
            plain, own = (np.array([xx.sum(), second]) - squares * count) / (count * (count - 1))
        if not np.isfinite(plain):
            return metrics
        metrics["variance/in_step_metric"] = float(len(whitening) > 0)
        return metrics | compared(float(plain), float(own)) | spread_of(beta)


def within_pairs(returns: Array, good: Array) -> float:
    """Spread of returns within the good pairs, whose members share their reset."""
    gaps = np.abs(returns[0::2] - returns[1::2])[good]
    largest = float(gaps.max()) if len(gaps) else 0.0
    if not 0 < largest < np.inf:
        return largest
    return float(np.sqrt(np.square(gaps / largest).mean() / 2)) * largest  # squares of huge returns stay finite


def _next_scale(state: State, rows: Rows) -> Array:
    """The running spread, with this batch's."""
    past, fresh = float(state["scale"]), float(rows.shared["spread_within"])
    if not np.isfinite(fresh):
        return state["scale"]
    return np.asarray(np.hypot(np.sqrt(MEMORY) * past, np.sqrt(1 - MEMORY) * fresh) if past else fresh)


ESTIMATORS = [AdvantageControlVariate]
