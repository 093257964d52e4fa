"""CV: an ES gradient less the noise that policy gradients of the same objective show (eq. 8).

    g = 1/N sum_i (X_i + sum_k beta_k Y_ik),    V[g] least at beta = -E[Y Y']^-1 E[Y X]

X_i is the pair's ES estimate and every column Y_k has mean zero, so g is unbiased for every beta that comes from
earlier batches only. A control variate is three choices:

columns       what Y is: ES(gamma) - RE(gamma) (the paper), or ES less a policy gradient with a critic
coefficients  how beta comes about: fixed, the paper's descent, closed forms per coordinate or per layer
metric        where V[g] is small: in the parameters (the paper), or in a natural step

A step theta + P g does harm by tr(P H P Cov g), H the curvature, which is near the policy's Fisher matrix F. A natural
step has P = F^-1, so what counts is tr(F^-1 Cov g): there ES has about d times the noise of a policy gradient with
advantages, whereas in the parameters' metric the noise of ES is dominated by directions that the policy hardly feels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np

from quell.errors import UsageError
from quell.estimate import Estimate, Needs, Problem, Rows, compared
from quell.estimate.control_variate.coefficients import (
    Coefficients,
    Means,
    SgdCoefficients,
    Space,
    packed,
    second_moment,
)
from quell.estimate.control_variate.columns import Columns, Scale
from quell.estimate.control_variate.discounted import DiscountedColumns
from quell.estimate.es import pair_score
from quell.estimate.flat import earned
from quell.estimate.returns import alike, finite_pairs, less_other_pairs, shaped_fitness
from quell.policy.fisher import layered_products
from quell.registry import name_of
from quell.types import Array, Batch, Caution, Metrics, Pair, State, Sums, either, namespace

MEMORY = 0.9  # of the returns' spread
WILD = 1e6  # times the returns' spread so far


@dataclass(frozen=True, kw_only=True)
class ControlVariate:
    """ES with structured control variates, on top of any kind of directions."""

    name: ClassVar[str] = "control-variate"
    shaping: Literal["normalise", "ranks", "none", "past"] = "normalise"
    """What is done to the returns of a batch: (J - mean)/std, centred ranks, nothing, or division by the spread of
    past batches' returns, which adds no bias."""
    columns: Columns = field(default_factory=DiscountedColumns)
    """What is subtracted from ES: discounted (the paper) or advantages (with a critic)."""
    coefficients: Coefficients = field(default_factory=SgdCoefficients)
    """How the coefficients are set: fixed, sgd (the paper), moments (closed form per coordinate), layers (closed
    form per layer), mse (closed form that also counts the measured bias of the column)."""
    metric: Literal["parameters", "step"] = "parameters"
    """Metric in which the variance is minimised: that of the parameters, or that of the natural step."""

    @property
    def needs(self) -> Needs:
        columns = self.columns
        return Needs(perturbed=True, trajectories=True, together=columns.together, traceable=columns.traceable)

    @property
    def biased(self) -> bool:
        return self.columns.biased or self.shaping not in ("none", "past")

    def check(self) -> None:
        if self.columns.count > 1 and not self.coefficients.several:
            rule = name_of(self.coefficients)
            raise UsageError(
                f"coefficients {rule} weigh one column, not {self.columns.count}; use layers, or one gamma"
            )
        if self.metric == "step" and not self.coefficients.layered:
            raise UsageError(f"metric step needs coefficients layers or mse, not {name_of(self.coefficients)}")

    def space(self, problem: Problem) -> Space:
        """What coefficients are for."""
        policy = problem.policy
        return Space(policy.dim, self.columns.count, tuple(w for w, _ in policy.layout.values()), policy.blocks)

    def init(self, problem: Problem) -> State:
        state = {**self.columns.init(problem), **self.coefficients.init(self.space(problem))}
        if self.shaping == "past":
            state["scale"] = np.zeros(())
        return {**state, "last": np.zeros((2, problem.policy.dim)), "last.known": np.zeros(())}

    def unit(self, batch: Batch, state: State) -> Any:
        """What rewards are divided by; 0 where the batch's own spread is."""
        return self._shaped(batch, state)[1].unit

    def _shaped(self, batch: Batch, state: State) -> tuple[Array, Scale, Array]:
        """(fitness [2N], 0 for members of bad pairs; the scale of rewards; which pairs are good)."""
        xp, returns, good = namespace(batch.theta), batch.rollouts.returns, finite_pairs(batch.rollouts.rewards)
        members = xp.repeat(good, 2)
        if self.shaping != "past":
            fitness, times, good = shaped_fitness(xp.where(members, returns, xp.nan), self.shaping)
            return fitness, Scale(times, xp.where(times > 0, 1 / xp.where(times > 0, times, 1.0), 0.0)), good
        unit = self._past_unit(batch, state)
        fitness = less_other_pairs(xp.where(members, returns, 0.0), good.sum()) / unit
        differ = members & ~alike(returns, members)  # rounding is nothing to learn from
        return xp.where(differ, fitness, 0.0), Scale(1 / unit, unit), good

    def _past_unit(self, batch: Batch, state: State) -> Any:
        """The spread of past returns within pairs, or at first of this batch's."""
        xp, past = namespace(batch.theta), state["scale"]
        fresh = within_pairs(batch.rollouts.returns, finite_pairs(batch.rollouts.rewards))
        # From earlier batches, unless that would overflow.
        return xp.where(fresh < WILD * past, past, xp.where(fresh == 0, 1.0, fresh))

    def prepare(self, problem: Problem, batch: Batch, state: State) -> Rows:
        (fitness, scale, good), xp = self._shaped(batch, state), namespace(batch.theta)
        rows = self.columns.prepare(problem, batch, good, state, scale)
        rows.pairs.update({"good": good, "fitness": fitness.reshape(-1, 2)})
        rows.shared["sight"] = xp.asarray(self.columns.sight(batch) if self.coefficients.sighted else 1.0)
        rows.shared["differ"] = xp.asarray(~alike(earned(batch)))
        metric = batch.metric if self.metric == "step" else None
        rows.shared["whitening"] = () if metric is None else metric.whitening()
        rows.shared["known"] = xp.asarray(metric is not None and metric.known)
        shape = batch.episodes.shape
        rows.shared["nats"] = xp.asarray(shape.nats if shape is not None else 0.0)
        if self.shaping == "past":
            rows.shared["spread_within"] = xp.asarray(within_pairs(batch.rollouts.returns, good))
        return rows

    def terms(self, problem: Problem, pair: Pair, row: dict[str, Any], theta: Any, xp: Any = np) -> dict[str, Any]:
        x = pair_score(xp, row["fitness"], pair, problem.directions)
        others, more = self.columns.terms(xp, problem, pair, row, theta, x)
        columns = xp.concatenate([x[..., None, :], others], axis=-2)
        wide = columns.astype(np.float64) if xp is np else columns
        if self.coefficients.layered:
            products = layered_products(xp, problem.policy, row["whitening"], wide)
        else:
            products = packed(wide)
        return {"count": xp.ones(x.shape[:-1]), "columns": wide, "products": products, **more}

    def combine(self, problem: Problem, sums: Sums, rows: Rows, state: State) -> Estimate:
        count, columns, products = sums["count"], sums["columns"], sums["products"]
        space, xp = self.space(problem), namespace(columns)
        state = self.coefficients.resized(state, rows.shared["nats"])
        beta = self.coefficients.coefficients(space, state)
        # A policy gradient that overflows makes a batch plain ES, and nothing is learned of it.
        sound = xp.isfinite(columns[1:]).all() & xp.isfinite(products).all()
        each = self._each(space, beta)
        combined = xp.where(sound, columns[0] + (each * columns[1:]).sum(axis=0), columns[0])
        means = xp.stack([columns[0], combined]) / xp.maximum(count, 1)
        metrics = {"trouble/cv_dropped": 1.0 - sound, **self.columns.metrics(rows), **spread_of(beta)}
        metrics |= self._variance(problem, rows, products, xp.where(sound, beta, 0.0), means, state, count)
        finite, usable = xp.isfinite(means).all(), sound & (count > 0)
        last = either(finite, lambda: {"last": means, "last.known": xp.ones(())}, kept(state, "last", "last.known"))
        remembered = {**state, **self._next_scale(state, rows), **last}
        following = either(usable, lambda: self.columns.update(problem, remembered, sums, rows, each), remembered)
        # Where returns do not differ ES says nothing, so it would seem free of noise: nothing is learned of that.
        told = usable & rows.shared["differ"] & (rows.shared["known"] | (self.metric == "parameters"))
        if self.shaping == "past":
            told = told & (following["scale"] > 0)
        found = either(told, lambda: self._weighed(problem, following, sums, rows), following)
        metrics |= {name: found.pop(name) for name in found.keys() - following.keys()}
        share = xp.where(usable, self.columns.share(state, rows, sums), 1.0)
        caution = Caution(None, share, *self._parts(space, state, columns / xp.maximum(count, 1), sound))
        return Estimate(means[1].astype(np.float32), found, metrics, caution)

    def _parts(self, space: Space, state: State, means: Array, sound: Any) -> tuple[Any, Any]:
        """ES's weight in this batch's estimate, and the policy gradient that has the rest, where coefficients tell."""
        rule: Any = self.coefficients
        if not hasattr(rule, "weight_of_es"):
            return None, None
        xp = namespace(means)
        weight, gradient = rule.weight_of_es(space, state), means[0] - means[1]
        return xp.where(sound, weight, 1.0), xp.where(sound, gradient, 0.0).astype(np.float32)

    def _weighed(self, problem: Problem, state: State, sums: Sums, rows: Rows) -> dict[str, Any]:
        """The state with what the coefficients learn of a batch, and their metrics."""
        means = Means(sums["columns"] / sums["count"], self._inner(problem, rows), rows.shared["sight"])
        space, products = self.space(problem), sums["products"]
        state, metrics = self.coefficients.update(space, state, products, sums["count"], means)
        return {**state, **metrics}

    def weight_of_es(self, problem: Problem, state: State, nats: float) -> Any:
        """What share of the estimate ES would have, were perturbations of this size."""
        rule: Any = self.coefficients
        share = rule.weight_of_es(self.space(problem), rule.resized(state, np.asarray(nats)))
        return float(share) if isinstance(share, np.generic) else share

    def _inner(self, problem: Problem, rows: Rows) -> Callable[[Any, Any], Any]:
        """Products of two vectors in each layer, in the metric."""
        policy, whitening = problem.policy, rows.shared["whitening"]
        return lambda u, v: layered_products(namespace(u), policy, whitening, namespace(u).stack([u, v]))[1]

    def per_parameter(self, problem: Problem, state: State) -> Array:
        """beta [K, d] as it stands."""
        space = self.space(problem)
        return self._each(space, self.coefficients.coefficients(space, state))

    def _each(self, space: Space, beta: Array) -> Array:
        """beta [K, d], where it is one per layer too."""
        sizes = [where.stop - where.start for where in space.layers]
        return namespace(beta).repeat(beta, np.array(sizes), axis=1) if self.coefficients.layered else beta

    def _variance(
        self, problem: Problem, rows: Rows, products: Array, beta: Array, means: Array, state: State, count: Any
    ) -> Metrics:
        """V of ES and of this estimate, in the metric whose products there are.

        From the spread of independent pairs; where there is one alone, or they are drawn jointly, half the squared
        distance to the last batch's estimates, which are as good as independent.
        """
        whitening, directions, xp = rows.shared["whitening"], problem.directions, namespace(means)
        told = directions.independent & (count > 1)
        vectors = xp.where(told, means, means - state["last"])
        squares = layered_products(xp, problem.policy, whitening, vectors, crossed=False).sum(axis=1)
        seconds = xp.stack([products[0].sum(), second_moment(products, beta).sum()])
        spread = (seconds - squares * count) / (count * xp.maximum(count - 1, 1))
        plain, own = xp.where(told, spread, squares / 2)
        known = told | (directions.fresh & (state["last.known"] > 0))
        known = known & xp.isfinite(plain) & (count > 0)
        in_metric = {"variance/in_step_metric": rows.shared["known"] * 1.0}
        return in_metric | compared(xp.where(known, plain, xp.nan), xp.where(known, own, xp.nan))

    def _next_scale(self, state: State, rows: Rows) -> State:
        """The running spread of returns, with this batch's."""
        if self.shaping != "past":
            return {}
        past, fresh = state["scale"], rows.shared["spread_within"]
        xp = namespace(fresh)
        mixed = xp.where(past > 0, xp.hypot(np.sqrt(MEMORY) * past, np.sqrt(1 - MEMORY) * fresh), fresh)
        return {"scale": xp.asarray(xp.where(xp.isfinite(fresh) & rows.shared["differ"], mixed, past))}


def spread_of(beta: Array) -> Metrics:
    """Coefficients of the first column as a run's metrics tell them."""
    return {"eta/mean": beta[0].mean(), "eta/min": beta[0].min(), "eta/max": beta[0].max()}


def kept(state: State, *names: str) -> State:
    """Some of a state."""
    return {name: state[name] for name in names}


def within_pairs(returns: Array, good: Array) -> Any:
    """Spread of returns within the good pairs, whose members share their reset."""
    xp = namespace(returns)
    gaps = xp.where(good, xp.abs(returns[0::2] - returns[1::2]), 0.0)
    largest = gaps.max(initial=0.0)
    sane = (largest > 0) & (largest < xp.inf)
    relative = gaps / xp.where(sane, largest, 1.0)  # squares of huge returns stay finite
    spread = xp.sqrt(xp.square(relative).sum() / xp.maximum(good.sum(), 1) / 2)
    return xp.where(sane, spread * largest, largest)


ESTIMATORS = [ControlVariate]
