"""Coefficients for several control variates, chosen by the variance they would have had on batches they did not see.

A candidate is a subset of the columns and a granularity. Each keeps proving itself: before a batch is learned from, all
candidates' coefficients (made from earlier batches only) are scored on it, and the next batch is estimated with the
candidate that has scored best of late. Plain ES (all coefficients 0) is a candidate too, and the one to start with, so
a control variate that hurts is dropped as soon as it has been seen to hurt.

In the metric of the parameters the score is total variance, layer by layer, and coefficients are one for all of theta,
per layer, or per coordinate with shrinkage towards the layer. In that of the policy it is tr(F Cov g), F the Fisher
matrix: how far an estimate moves the policy at random. The noise of ES is spread evenly over all parameters, most of
which matter little; that of a policy gradient follows F. With A the map from parameters to the policy (F = A'A), X_l
and Y_kl a column's part in layer l, and P the products of all A X_l and A Y_kl summed over past pairs, coefficients
beta_kl make |sum_l A X_l + sum_kl beta_kl A Y_kl|^2 a quadratic form in P: least squares, layers' covariances included.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from quell.estimate.control_variate.coefficients import Coefficients, Products, Space
from quell.registry import SHARE
from quell.types import Array, Metrics, State

MEMORY = 0.9  # decay of the scores: about the last ten batches decide
VARIANTS = (("scalar", 0.0), ("layer", 0.0), ("coordinate", 10.0), ("coordinate", 100.0))
"""In the parameters' metric: (granularity, pseudo-pairs that pull a coordinate towards its layer)."""


@dataclass(frozen=True, kw_only=True)
class ChosenCoefficients(Coefficients):
    """Several control variates at once, plain ES among the candidates."""

    name: ClassVar[str] = "choose"
    columns: ClassVar[int | None] = None
    precision: ClassVar[type[Any]] = np.float64
    metric: Literal["parameters", "policy"] = "parameters"
    """Whose variance is made small: that of the parameters, or that of the policy they stand for."""
    decay: Annotated[float, SHARE] = 0.95
    """How much of the running moments survives an iteration."""

    def _candidates(self, space: Space) -> "InParameters | InPolicy":
        return InPolicy(space) if self.metric == "policy" else InParameters(space)

    def init(self, space: Space) -> State:
        return {**self._candidates(space).init(), "pairs": np.zeros(())}

    def coefficients(self, space: Space, state: State) -> tuple[Array, Metrics]:
        beta, used = self._candidates(space).best(state)
        return beta, {"auto/plain": float((used == 0).mean())}

    def update(self, space: Space, state: State, products: Products, ready: Array) -> tuple[State, Metrics]:
        """Score every candidate on a batch, then learn from it."""
        moments, scores = self._candidates(space).learn(state, products, np.concatenate([[True], ready]))
        learned = {"moments": self.decay * state["moments"] + moments, "scores": MEMORY * state["scores"] + scores}
        return {**state, **learned, "pairs": self.decay * state["pairs"] + products.count}, {}


@dataclass(frozen=True)
class InParameters:
    """Plain ES, then every subset of the columns in every variant, by total variance. State: decayed sums of products
    per coordinate, and every candidate's score in every layer."""

    space: Space

    def init(self) -> State:
        square = (1 + self.space.columns, 1 + self.space.columns, self.space.dim)
        candidates = (1 + len(self.space.subsets) * len(VARIANTS), len(self.space.layers))
        return {"moments": np.zeros(square), "scores": np.zeros(candidates)}

    def best(self, state: State) -> tuple[Array, Array]:
        """(beta [K, d], which candidate each coordinate uses [d])."""
        best = state["scores"].argmin(axis=0)  # the first of equals: plain ES until there is evidence
        beta, used = np.zeros((self.space.columns, self.space.dim)), best[self.space.layer_of]
        for number, candidate in self._all(state, set(best.tolist())):
            beta = np.where(used == number, candidate, beta)
        return beta, used

    def learn(self, state: State, products: Products, known: Array) -> tuple[Array, Array]:
        """(what a batch adds to the moments, what to the scores)."""
        squares = (second_moment(products.sums, beta) for _, beta in self._all(state))
        scores = np.array([[float(values[where].sum()) for where in self.space.layers] for values in squares])
        return np.where(known[:, None, None] & known[None, :, None], products.sums, 0.0), scores

    def _all(self, state: State, wanted: set[int] | None = None) -> Iterator[tuple[int, Array]]:
        """(number, coefficients [K, d]) of every candidate in order, without the subsets of which none is wanted."""
        yield 0, np.zeros((self.space.columns, self.space.dim))
        for group, subset in enumerate(self.space.subsets):
            numbers = range(1 + group * len(VARIANTS), 1 + (group + 1) * len(VARIANTS))
            if wanted is None or wanted & set(numbers):
                for number, values in zip(numbers, self._variants(state, subset), strict=True):
                    beta = np.zeros((self.space.columns, self.space.dim))
                    beta[list(subset)] = values
                    yield number, beta

    def _variants(self, state: State, subset: tuple[int, ...]) -> Iterator[Array]:
        """Coefficients [k, d] of one subset in every variant."""
        rows = [1 + k for k in subset]
        products = state["moments"][np.ix_(rows, rows)]
        cross = state["moments"][0, rows]
        layer = np.empty((len(rows), self.space.dim))
        for where in self.space.layers:
            layer[:, where] = least_squares(products[..., where].sum(axis=-1), cross[:, where].sum(axis=-1))[:, None]
        scalar = np.broadcast_to(least_squares(products.sum(axis=-1), cross.sum(axis=-1))[:, None], layer.shape)
        own = least_squares(products, cross)
        seen = float(state["pairs"])
        for per, pull in VARIANTS:
            share = seen / (seen + pull) if seen else 0.0
            yield {"scalar": scalar, "layer": layer}.get(per, share * own + (1 - share) * layer)


@dataclass(frozen=True)
class InPolicy:
    """Plain ES, then every subset with one coefficient for all layers or one per layer, by what it does to the policy.
    State: decayed products P, one row for each column's part in each layer, and every candidate's score."""

    space: Space

    def init(self) -> State:
        size = (1 + self.space.columns) * len(self.space.layers)
        return {"moments": np.zeros((size, size)), "scores": np.zeros(1 + 2 * len(self.space.subsets))}

    def best(self, state: State) -> tuple[Array, Array]:
        """(beta [K, d], which candidate each coordinate uses [d])."""
        best = int(state["scores"].argmin())  # the first of equals: plain ES until there is evidence
        chosen = list(self._all(state["moments"]))[best].reshape(1 + self.space.columns, -1)[1:]
        return chosen[:, self.space.layer_of], np.full(self.space.dim, best)

    def learn(self, state: State, products: Products, known: Array) -> tuple[Array, Array]:
        """(what a batch adds to the moments, what to the scores)."""
        gram = products.gram
        assert gram is not None
        scores = np.array([weights @ gram @ weights for weights in self._all(state["moments"])])
        rows = np.repeat(known, len(self.space.layers))
        return np.where(rows[:, None] & rows[None], gram, 0.0), scores

    def _all(self, moments: Array) -> Iterator[Array]:
        """What every row of P is multiplied by, [size], for every candidate: 1 for X, beta for the rest."""
        size, layers = len(moments), len(self.space.layers)
        plain = np.zeros(size)
        plain[:layers] = 1
        yield plain
        for subset in self.space.subsets:
            for blocks in (1, layers):
                free = np.zeros((size, len(subset), blocks))
                for i, column in enumerate(subset):
                    rows = np.arange((1 + column) * layers, (2 + column) * layers)
                    free[rows, i, np.arange(layers) if blocks > 1 else 0] = 1
                yield plain + _minimise(moments, plain, free.reshape(size, -1))


def split_by_layer(xp: Any, space: Space, columns: Any) -> Any:
    """The parts of columns [1 + K, d] in each layer, zero elsewhere: [(1 + K) L, d], column by column."""
    inside = space.layer_of == np.arange(len(space.layers))[:, None]
    return xp.where(inside[None], columns[:, None], 0.0).reshape(-1, space.dim)


def second_moment(products: Array, beta: Array) -> Array:
    """sum_i (X_i + sum_k beta_k Y_ik)^2 per coordinate [d], from the sums of products [1+K, 1+K, d]."""
    quadratic = np.einsum("kd,kld,ld->d", beta, products[1:, 1:], beta)
    return np.asarray(products[0, 0] + 2 * (beta * products[0, 1:]).sum(axis=0) + quadratic)


def least_squares(products: Array, cross: Array) -> Array:
    """beta = -E[Y Y']^-1 E[X Y], for products [k, k, ...] and cross [k, ...]; 0 for a column without variance. Slightly
    damped, because two discounts' columns can be nearly the same."""
    matrix = np.moveaxis(products, (0, 1), (-2, -1)).copy()
    diagonal = np.einsum("...kk->...k", matrix)  # a view
    diagonal[...] = np.where(diagonal > 0, diagonal * (1 + 1e-6), 1.0)
    solved = np.linalg.solve(matrix, -np.moveaxis(cross, 0, -1)[..., None])[..., 0]
    return np.moveaxis(solved, -1, 0)


def _minimise(moments: Array, fixed: Array, free: Array) -> Array:
    """free @ b with b the minimiser of (fixed + free b)' M (fixed + free b); slightly damped."""
    matrix = free.T @ moments @ free
    diagonal = np.diag(matrix)
    damped = matrix + np.diag(np.where(diagonal > 0, 1e-3 * diagonal, 1.0))
    return np.asarray(free @ np.linalg.solve(damped, -free.T @ moments @ fixed))


COEFFICIENTS = [ChosenCoefficients]
