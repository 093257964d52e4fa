"""Coefficients that make small the variance of what an estimate does to the *policy*, not to the parameters.

A step along an estimate g does harm in as far as it moves the policy at random: by tr(F Cov g), F the Fisher matrix.
The noise of ES is spread evenly over all parameters, most of which matter little; that of a policy gradient follows F.
So the coefficients that minimise total variance lean on the policy gradient more than is good for a step.

With A the map from parameters to the policy (F = A'A), X_l and Y_kl a column's part in layer l, and P the products of
all A X_l and A Y_kl summed over past pairs, coefficients beta_kl make |sum_l A X_l + sum_kl beta_kl A Y_kl|^2 a
quadratic form in P: a small least-squares problem, which also knows the covariances between layers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quell.adapt import State

Array = NDArray[Any]


@dataclass(frozen=True)
class PolicyChooser:
    """Candidates: plain ES, and every subset of columns with one coefficient for all layers or one per layer."""

    dim: int
    layers: tuple[slice, ...]
    columns: int
    subsets: tuple[tuple[int, ...], ...]
    decay: float = 0.95
    memory: float = 0.9  # decay of the scores: about the last ten batches decide

    @property
    def size(self) -> int:
        """Rows of P: (1 + K) columns times the layers."""
        return (1 + self.columns) * len(self.layers)

    @property
    def candidates(self) -> list[str]:
        """Names, in the order of the scores."""
        names = [f"{'+'.join(map(str, subset))} {per}" for subset in self.subsets for per in ("scalar", "layer")]
        return ["plain", *names]

    def init(self) -> State:
        return {
            "moments": np.zeros((self.size, self.size)),
            "pairs": np.zeros(()),
            "scores": np.zeros(len(self.candidates)),
        }

    def split(self, columns: Array) -> Array:
        """The parts of columns [1 + K, d] in each layer, zero elsewhere: [(1 + K) L, d], column by column."""
        parts = np.zeros((len(columns), len(self.layers), self.dim))
        for layer, where in enumerate(self.layers):
            parts[:, layer, where] = columns[:, where]
        return parts.reshape(-1, self.dim)

    def coefficients(self, state: State) -> tuple[Array, Array]:
        """(beta [K, d], which candidate each coordinate uses [d])."""
        best = int(state["scores"].argmin())  # the first of equals: plain ES until there is evidence
        chosen = list(self._all(state))[best].reshape(1 + self.columns, -1)[1:]
        beta = np.zeros((self.columns, self.dim))
        for layer, where in enumerate(self.layers):
            beta[:, where] = chosen[:, layer, None]
        return beta, np.full(self.dim, best)

    def update(self, state: State, gram: Array, count: float, ready: Array) -> State:
        """Score every candidate on a batch's products P, then learn from it; columns not `ready` are left out."""
        scores = np.array([weights @ gram @ weights for weights in self._all(state)])
        known = np.repeat(np.concatenate([[True], ready]), len(self.layers))
        fresh = np.where(known[:, None] & known[None], gram, 0.0)
        return {
            **state,
            "moments": self.decay * state["moments"] + fresh,
            "pairs": self.decay * state["pairs"] + count,
            "scores": self.memory * state["scores"] + scores,
        }

    def _all(self, state: State) -> Iterator[Array]:
        """What every row of P is multiplied by, [size], for every candidate: 1 for X, beta for the rest."""
        layers, moments = len(self.layers), state["moments"]
        plain = np.zeros(self.size)
        plain[:layers] = 1
        yield plain
        for subset in self.subsets:
            for blocks in (1, layers):
                free = np.zeros((self.size, len(subset), blocks))
                for i, column in enumerate(subset):
                    rows = np.arange((1 + column) * layers, (2 + column) * layers)
                    free[rows, i, np.arange(layers) if blocks > 1 else 0] = 1
                yield plain + _minimise(moments, plain, free.reshape(self.size, -1))


def _minimise(moments: Array, fixed: Array, free: Array) -> Array:
    """free @ b with b the minimiser of (fixed + free b)' M (fixed + free b); slightly damped."""
    matrix = free.T @ moments @ free
    diagonal = np.diag(matrix)
    damped = matrix + np.diag(np.where(diagonal > 0, 1e-3 * diagonal, 1.0))
    return np.asarray(free @ np.linalg.solve(damped, -free.T @ moments @ fixed))
