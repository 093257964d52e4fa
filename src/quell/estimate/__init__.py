"""Estimators: how a gradient is formed from the episodes of one iteration.

An estimator defines what one pair adds, and has no loops over pairs. `prepare` first computes what all pairs share (the
mean and standard deviation of returns, ranks, baselines). `terms` are added over pairs, and `combine` makes the
gradient from the sums. The engine does the summing (`reduce`), so trajectories stay where they were made and only
sums are sent.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from quell.perturb import Kind
from quell.policy.network import Policy
from quell.types import NO_CAUTION, Array, Batch, Caution, Episodes, Metrics, Pair, State, Sums, namespace


@dataclass(frozen=True)
class Needs:
    """What an estimator needs from an iteration."""

    perturbed: bool
    """Members are perturbed (evolution strategies), or all act with theta itself (policy gradients)."""
    trajectories: bool
    updates: int = 1
    """Gradient steps per batch."""
    traceable: bool = False
    """`prepare` and `combine` run on JAX arrays too, inside a compiled program (`terms` always do)."""
    together: bool = False
    """`terms` also take several pairs at once, as the first axis of every array of a pair, and return such arrays."""
    linear: bool = False
    """The gradient is a weighted sum of directions, which those that are never formed (`factored`) make themselves."""


@dataclass(frozen=True)
class Problem:
    """What an estimator is used on, the same for all of a run."""

    policy: Policy
    directions: Kind
    seed: int


@dataclass(frozen=True)
class Rows:
    """Results of `prepare`: arrays whose first axis is the pair, and arrays that all pairs share. `pairs["good"]` [N]
    is required: the terms of a bad pair are multiplied by 0."""

    pairs: dict[str, Array]
    shared: dict[str, Any] = field(default_factory=dict)
    episodes: Episodes | None = None
    """Whose pairs they are, where `combine` draws directions again."""

    def row(self, pair: Any) -> dict[str, Any]:
        """What `terms` gets for one pair (or several)."""
        return {name: values[pair] for name, values in self.pairs.items()} | self.shared

    def part(self, pairs: range) -> "Rows":
        """The rows of some consecutive pairs."""
        return Rows({name: values[pairs.start : pairs.stop] for name, values in self.pairs.items()}, self.shared)


@dataclass(frozen=True)
class Estimate:
    """A gradient that points uphill, and what is known about it."""

    gradient: Array
    state: State
    metrics: Metrics
    caution: Caution = NO_CAUTION


class Estimator(Protocol):
    """One way to form a gradient; a frozen dataclass whose fields are its settings."""

    @property
    def needs(self) -> Needs: ...

    @property
    def biased(self) -> bool:
        """Whether its mean is not the gradient of the undiscounted return (smoothed, where members are perturbed), in
        units that were known before the batch. Dividing by the batch's own spread makes an estimator biased."""

    def init(self, problem: Problem) -> State:
        """The state before the first iteration."""

    def prepare(self, problem: Problem, batch: Batch, state: State) -> Rows:
        """What all pairs of a batch share, from rewards and lengths alone: trajectories may be on another machine."""

    def terms(self, problem: Problem, pair: Pair, row: dict[str, Any], theta: Any, xp: Any = np) -> dict[str, Any]:
        """What one pair adds; the gradient is taken at `theta` (batch.theta on the first update). `xp` is numpy, or
        jax.numpy where an engine maps this over pairs."""

    def combine(self, problem: Problem, sums: Sums, rows: Rows, state: State) -> Estimate:
        """The gradient from the sums over all pairs, and the next state."""


Total = Callable[[Estimator, Batch, Rows, Array], Sums]
"""(estimator, batch, rows, theta) -> the sum of all pairs' terms, in the order that `reduce` fixes: an engine's."""


def estimate(
    estimator: Estimator, problem: Problem, batch: Batch, state: State, *, total: Total, theta: Array | None = None
) -> Estimate:
    """Run an estimator on one batch: prepare, sum the terms of all pairs, combine."""
    from quell.estimate.reduce import calm

    theta = batch.theta if theta is None else theta
    with calm():
        rows = estimator.prepare(problem, batch, state)
    sums = total(estimator, batch, rows, theta)
    with calm():
        return estimator.combine(problem, sums, rows, state)


def total_variance(total: Array, squares: Array, count: Any) -> Any:
    """V[mean of `count` independent vectors], summed over coordinates, from their sum and sum of squares.

    V = sum_j (sum_i c_ij^2 - (sum_i c_ij)^2 / N) / (N (N - 1)); NaN for fewer than two vectors. `squares` may be summed
    over coordinates already.
    """
    xp = namespace(total)
    if xp.ndim(squares) == 0:
        apart = squares - (np.einsum("j,j", total, total, dtype=np.float64) if xp is np else total @ total) / count
    else:
        apart = (squares - total**2 / count).sum()
    return xp.where(count < 2, xp.nan, apart / xp.maximum(count * (count - 1), 1))


def compared(plain: Any, own: Any) -> dict[str, Any]:
    """An estimate's variance beside that of plain ES, as a run's metrics tell it; NaN is what is not known."""
    xp = namespace(np.float64(plain) if isinstance(plain, float) else plain)
    ratio = xp.where(xp.asarray(plain) > 0, own / xp.where(xp.asarray(plain) > 0, plain, 1.0), xp.nan)
    return {"variance/es": plain, "variance/method": own, "variance/ratio": ratio}


def fresh_variance(problem: Problem, estimates: int) -> State:
    """The state that `batch_variance` keeps for so many estimates: nothing where no batch waits for the next."""
    between = problem.directions.fresh and not problem.directions.independent
    return {"last": np.zeros((estimates, problem.policy.dim)), "last.known": np.zeros(())} if between else {}


def batch_variance(problem: Problem, state: State, sums: Any, squares: Any, count: Any) -> tuple[list[Any], State]:
    """V[g] of several estimates, each from the sum and sum of squares of its pairs' parts.

    Only independent pairs tell the variance of their mean by their spread. Where they are drawn jointly (orthogonal,
    shifted Halton) it is half the squared distance to the last batch's estimate: independent, and theta has moved
    little. A Halton sequence that goes on from batch to batch has neither, and its variance is not known: NaN.
    """
    if problem.directions.independent:
        return [total_variance(total, square, count) for total, square in zip(sums, squares, strict=True)], {}
    if not problem.directions.fresh:
        return [float("nan")] * len(sums), {}
    xp = namespace(sums[0])
    means = xp.stack([total / xp.maximum(count, 1) for total in sums])
    known = xp.where(state["last.known"] > 0, xp.square(means - state["last"]).sum(axis=1) / 2, xp.nan)
    sound = xp.isfinite(means).all()
    last = xp.where(sound, means, state["last"])
    return list(known), {"last": last, "last.known": xp.where(sound, 1.0, state["last.known"])}
