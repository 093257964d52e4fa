"""Estimators: how a gradient is formed from the episodes of one iteration.

Every estimator is additive contributions of pairs, then one combine, so the same code runs on one core, on threads and
on many machines: trajectories stay where they were made and only sums of size d travel. What is global (the returns'
mean and standard deviation, ranks, baselines) is gathered first, by `prepare`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from quell.reduce import Node, Sums, Tree, blocks
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
Total = Callable[[Estimator, Batch, Any, Array], Sums]
"""(estimator, batch, prepared, theta) -> the sum of all pairs' contributions, in the order that quell.reduce fixes."""


def estimate(
    estimator: Estimator,
    batch: Batch,
    state: State,
    *,
    theta: Array | None = None,
    mapper: Mapper = map,
    total: Total | None = None,
) -> Estimate:
    """Run an estimator on one batch: prepare, sum the contributions of all pairs, combine.

    The sum is taken here (through `mapper`) unless `total` takes it where the trajectories are.
    """
    theta = batch.theta if theta is None else theta
    with calm():
        prepared = estimator.prepare(batch, state)
    if total is not None:
        sums = total(estimator, batch, prepared, theta)
    else:
        leaves = range(len(blocks(batch.pairs)))
        (sums,) = contributions(estimator, batch, prepared, theta, leaves, mapper).values()
    with calm():
        return estimator.combine(sums, prepared, state)


def contributions(
    estimator: Estimator, batch: Batch, prepared: Any, theta: Array, leaves: range, mapper: Mapper = map
) -> dict[Node, Sums]:
    """Sums of consecutive blocks of pairs, merged as far as whole subtrees go."""
    cut = blocks(batch.pairs)

    def block(leaf: int) -> Sums:
        with np.errstate(all="ignore"):
            return estimator.contribution(batch, prepared, cut[leaf], theta)

    tree = Tree(len(cut))
    with calm():
        for leaf, sums in zip(leaves, mapper(block, leaves), strict=True):
            tree.add((0, leaf), sums)
    return tree.nodes


@contextmanager
def calm() -> Iterator[None]:
    """Around an estimator's arithmetic: no warnings, and matrix products on one thread (for the whole process).

    Overflow in a wild member is found by looking at the result, so it need not also warn. OpenBLAS's own threads would
    spin for a tenth of a second after a product, on the cores that the next iteration's episodes need, and a sum split
    over them depends on how many there are.
    """
    with np.errstate(all="ignore"), _blas().limit(limits=1, user_api="blas"):
        yield


@functools.cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


def total_variance(total: Array, squares: Array, count: float) -> float:
    """V[mean of `count` independent vectors], summed over coordinates, from their sum and sum of squares.

    V = sum_j (sum_i c_ij^2 - (sum_i c_ij)^2 / N) / (N (N - 1)); NaN for fewer than two vectors.
    """
    if count < 2:
        return float("nan")
    return float((squares - total**2 / count).sum() / (count * (count - 1)))
