"""Coefficients for several control variates, chosen by the variance they would have had on batches they did not see.

A candidate is a subset of the control variates and a granularity: one coefficient for all of theta, per layer, or per
coordinate with shrinkage towards the layer. Each keeps proving itself: before a batch is learned from, all candidates'
coefficients (made from earlier batches only) are scored on it, and the next batch is estimated with the candidate that
has scored best of late, layer by layer. Plain ES (all coefficients 0) is a candidate too, and the one to start with, so
a control variate that hurts is dropped as soon as it has been seen to hurt.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quell.adapt import Granularity, State

Array = NDArray[Any]
VARIANTS: tuple[tuple[Granularity, float], ...] = (
    ("scalar", 0.0),
    ("layer", 0.0),
    ("coordinate", 10.0),
    ("coordinate", 100.0),
)
"""(granularity, pseudo-pairs that pull a coordinate towards its layer)"""


@dataclass(frozen=True)
class Chooser:
    """State: decayed sums of products of the columns (X, Y_1, ..., Y_K), and every candidate's score per layer."""

    dim: int
    layers: tuple[slice, ...]
    columns: int
    subsets: tuple[tuple[int, ...], ...]
    decay: float = 0.95
    memory: float = 0.9  # decay of the scores: about the last ten batches decide

    @property
    def candidates(self) -> list[str]:
        """Names, in the order of the scores."""
        names = [f"{'+'.join(map(str, subset))} {per} {pull:g}" for subset in self.subsets for per, pull in VARIANTS]
        return ["plain", *names]

    def init(self) -> State:
        square = (1 + self.columns, 1 + self.columns, self.dim)
        scores = (len(self.candidates), len(self.layers))
        return {"moments": np.zeros(square), "pairs": np.zeros(()), "scores": np.zeros(scores)}

    def coefficients(self, state: State) -> tuple[Array, Array]:
        """(beta [K, d], which candidate each coordinate uses [d])."""
        best = state["scores"].argmin(axis=0)  # the first of equals: plain ES until there is evidence
        beta, used = np.zeros((self.columns, self.dim)), np.zeros(self.dim, np.int64)
        for number, candidate in enumerate(self._all(state, set(best.tolist()))):
            if candidate is not None:
                for where in (self.layers[layer] for layer in np.flatnonzero(best == number)):
                    beta[:, where], used[where] = candidate[:, where], number
        return beta, used

    def update(self, state: State, cc: Array, count: float, ready: Array) -> State:
        """Score every candidate on a batch's sums of products cc [1+K, 1+K, d], then learn from it.

        Columns that are not `ready` (a value function before its first fit) are left out of what is learned.
        """
        scores = np.array([self._per_layer(second_moment(cc, beta)) for beta in self._all(state) if beta is not None])
        known = np.concatenate([[True], ready])
        fresh = np.where(known[:, None, None] & known[None, :, None], cc, 0.0)
        return {
            **state,
            "moments": self.decay * state["moments"] + fresh,
            "pairs": self.decay * state["pairs"] + count,
            "scores": self.memory * state["scores"] + scores,
        }

    def _all(self, state: State, wanted: set[int] | None = None) -> Iterator[Array | None]:
        """Coefficients [K, d] of every candidate in order; None for those not wanted."""
        yield np.zeros((self.columns, self.dim))
        for group, subset in enumerate(self.subsets):
            numbers = [1 + group * len(VARIANTS) + i for i in range(len(VARIANTS))]
            if wanted is not None and not wanted & set(numbers):
                yield from [None] * len(VARIANTS)
                continue
            for number, values in zip(numbers, self._variants(state, subset), strict=True):
                if wanted is not None and number not in wanted:
                    yield None
                    continue
                beta = np.zeros((self.columns, self.dim))
                beta[list(subset)] = values
                yield beta

    def _variants(self, state: State, subset: tuple[int, ...]) -> Iterator[Array]:
        """Coefficients [k, d] of one subset in every variant."""
        rows = [1 + k for k in subset]
        products = state["moments"][np.ix_(rows, rows)]
        cross = state["moments"][0, rows]
        layer = np.empty((len(rows), self.dim))
        for where in self.layers:
            layer[:, where] = least_squares(products[..., where].sum(axis=-1), cross[:, where].sum(axis=-1))[:, None]
        scalar = np.broadcast_to(least_squares(products.sum(axis=-1), cross.sum(axis=-1))[:, None], layer.shape)
        own = least_squares(products, cross)
        seen = float(state["pairs"])
        for per, pull in VARIANTS:
            share = seen / (seen + pull) if seen else 0.0
            yield {"scalar": scalar, "layer": layer}.get(per, share * own + (1 - share) * layer)

    def _per_layer(self, values: Array) -> list[float]:
        return [float(values[where].sum()) for where in self.layers]


def second_moment(cc: Array, beta: Array) -> Array:
    """sum_i (X_i + sum_k beta_k Y_ik)^2 per coordinate [d], from the sums of products cc [1+K, 1+K, d]."""
    return cc[0, 0] + 2 * (beta * cc[0, 1:]).sum(axis=0) + np.einsum("kd,kld,ld->d", beta, cc[1:, 1:], beta)


def least_squares(products: Array, cross: Array) -> Array:
    """beta = -E[Y Y']^-1 E[X Y], for products [k, k, ...] and cross [k, ...]; 0 for a column without variance.

    Slightly damped, because two discounts' columns can be nearly the same.
    """
    size = len(cross)
    matrix = np.moveaxis(products, (0, 1), (-2, -1)).copy()
    diagonal = matrix[..., np.arange(size), np.arange(size)]
    matrix[..., np.arange(size), np.arange(size)] = np.where(diagonal > 0, diagonal * (1 + 1e-6), 1.0)
    solved = np.linalg.solve(matrix, -np.moveaxis(cross, 0, -1)[..., None])[..., 0]
    return np.moveaxis(solved, -1, 0)
