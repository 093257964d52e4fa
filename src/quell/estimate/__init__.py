"""Estimators: how a gradient is formed from the episodes of one iteration.

Every estimator is additive contributions of pairs, then one combine, so the same code runs on one core, on threads and
on many machines: trajectories stay where they were made and only sums of size d travel. What is global (the returns'
mean and standard deviation, ranks, baselines) is gathered first, by `prepare`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from quell.reduce import Sums, blocks, tree_sum
from quell.types import Batch

Array = NDArray[Any]
State = dict[str, Array]
"""What an estimator remembers between iterations: named arrays, so that a checkpoint can hold them."""
Metrics = dict[str, float]


@dataclass(frozen=True)
class Estimate:
    """A gradient that points uphill, and what is known about it."""

    gradient: Array
    state: State
    metrics: Metrics


class Estimator(Protocol):
    """One way to form a gradient."""

    @property
    def perturbs(self) -> bool:
        """Whether members are perturbed (evolution strategies) or all act with theta itself (policy gradients)."""

    @property
    def records(self) -> bool:
        """Whether it needs trajectories."""

    @property
    def updates(self) -> int:
        """Gradient steps per batch."""

    def init(self) -> State:
        """The state before the first iteration."""

    def prepare(self, batch: Batch, state: State) -> Any:
        """Global quantities of the batch that contributions need."""

    def contribution(self, batch: Batch, prepared: Any, pairs: Iterable[int], theta: Array) -> Sums:
        """Additive quantities of some pairs; the gradient is taken at `theta` (batch.theta on the first update)."""

    def combine(self, sums: Sums, prepared: Any, state: State) -> Estimate:
        """The gradient from the sums over all pairs, and the next state."""


Mapper = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]


def estimate(
    estimator: Estimator, batch: Batch, state: State, *, theta: Array | None = None, mapper: Mapper = map
) -> Estimate:
    """Run an estimator on one batch: prepare, contributions of every block of pairs (through `mapper`), combine."""
    theta = batch.theta if theta is None else theta
    # Overflow in a wild member is found by looking at the result, so it need not also warn.
    with np.errstate(all="ignore"):
        prepared = estimator.prepare(batch, state)
    parts = mapper(lambda pairs: _quiet(estimator, batch, prepared, pairs, theta), blocks(batch.pairs))
    with np.errstate(all="ignore"):
        return estimator.combine(tree_sum(parts), prepared, state)


def _quiet(estimator: Estimator, batch: Batch, prepared: Any, pairs: Iterable[int], theta: Array) -> Sums:
    with np.errstate(all="ignore"):
        return estimator.contribution(batch, prepared, pairs, theta)


def total_variance(total: Array, squares: Array, count: float) -> float:
    """V[mean of `count` independent vectors], summed over coordinates, from their sum and sum of squares.

    V = sum_j (sum_i c_ij^2 - (sum_i c_ij)^2 / N) / (N (N - 1)); NaN for fewer than two vectors.
    """
    if count < 2:
        return float("nan")
    return float((squares - total**2 / count).sum() / (count * (count - 1)))
