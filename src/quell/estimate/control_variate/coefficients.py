"""Coefficients of control variates: what multiplies each column Y_k, learned from past batches only.

`update` is called after a batch's gradient has been formed, so what it learns is used from the next batch on and the
estimate stays unbiased. All rules see the same thing: the products of the columns (X, Y_1, ..., Y_K), summed over the
pairs of a batch, per coordinate or per layer.
"""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from quell.registry import COUNT, SHARE, Range
from quell.types import Array, Metrics, State


@dataclass(frozen=True)
class Space:
    """What coefficients are for: K columns over d parameters in layers."""

    dim: int
    columns: int
    arrays: tuple[slice, ...]
    """Where each weight matrix and each bias vector is."""
    layers: tuple[slice, ...]
    """Where each layer is, weights and biases together."""


@dataclass(frozen=True, kw_only=True)
class Coefficients:
    """One rule, whose fields are its settings."""

    name: ClassVar[str]
    several: ClassVar[bool] = False
    """Whether it can weigh several columns."""
    layered: ClassVar[bool] = False
    """Whether it has one coefficient per layer, or one per coordinate."""

    def init(self, space: Space) -> State:
        return {}

    def coefficients(self, space: Space, state: State) -> Array:
        """beta [K, d], or [K, layers]."""
        raise NotImplementedError

    def update(self, space: Space, state: State, products: Array, count: Any) -> tuple[State, Metrics]:
        """Next state and metrics, from products [(1 + K)(2 + K) / 2, d or layers] of so many pairs: XX, XY, YY."""
        return state, {}


@dataclass(frozen=True, kw_only=True)
class FixedCoefficient(Coefficients):
    """The same value in every coordinate, for good."""

    name: ClassVar[str] = "fixed"
    value: Annotated[float, Range(low=-1e6)] = -1.0
    """The coefficient; -1 replaces ES by the policy gradient altogether."""

    def coefficients(self, space: Space, state: State) -> Array:
        return np.full((1, space.dim), self.value)


@dataclass(frozen=True, kw_only=True)
class SgdCoefficients(Coefficients):
    """The paper's rule: gradient descent on V[CV] (eq. 9).

        eta <- eta - a (2 eta E[Y^2] + 2 E[X Y])

    with the moments of the N-pair estimate, E[Y^2] = sum_i Y_i^2 / N^2 and E[X Y] likewise (pairs are independent and
    E[Y] = 0). Taken as printed it diverges where 2 a E[Y^2] > 2. The guard limits the step of such a coordinate to 1/(2
    E[Y^2]), which lands exactly on this batch's minimum, never beyond it; how often it acted is a metric.
    """

    name: ClassVar[str] = "sgd"
    rate: Annotated[float, COUNT] = 1e-4
    """Step size, one of 1e-3, 1e-4, 1e-5 in the paper."""
    start: Annotated[float, Range(low=-1e6)] = 0.0
    """Where every coefficient starts; the paper does not say. 0 is plain ES, -1 the policy gradient."""

    def init(self, space: Space) -> State:
        return {"eta": np.full(space.dim, float(self.start))}

    def coefficients(self, space: Space, state: State) -> Array:
        return state["eta"][None]

    def update(self, space: Space, state: State, products: Array, count: Any) -> tuple[State, Metrics]:
        xp, eta = products.__array_namespace__(), state["eta"]
        square, cross = products[2] / count**2, products[1] / count**2
        steep = 2 * self.rate * square > 1
        rate = xp.where(steep, 1 / xp.where(steep, 2 * square, 1.0), self.rate)
        return {**state, "eta": eta - rate * 2 * (eta * square + cross)}, {"eta/guarded": steep.mean()}


@dataclass(frozen=True, kw_only=True)
class MomentsCoefficients(Coefficients):
    """The closed form eta* = -E[X Y] / E[Y^2] per coordinate, from running moments of past batches.

    Coordinates are noisy when few pairs have been seen, so their ratio is pulled towards that of their weight matrix or
    bias vector: eta = (n eta_coordinate + shrinkage eta_array) / (n + shrinkage), n the (decayed) number of pairs.
    """

    name: ClassVar[str] = "moments"
    decay: Annotated[float, SHARE] = 0.95
    """How much of the running moments survives an iteration."""
    shrinkage: Annotated[float, COUNT] = 20.0
    """Pseudo-pairs that pull a coordinate's coefficient towards its array's."""

    def init(self, space: Space) -> State:
        return {"xy": np.zeros(space.dim), "yy": np.zeros(space.dim), "pairs": np.zeros(())}

    def coefficients(self, space: Space, state: State) -> Array:
        xy, yy, seen = state["xy"], state["yy"], state["pairs"]
        xp = xy.__array_namespace__()
        whole = [xp.full(w.stop - w.start, -_ratio(xp, xy[w].sum(), yy[w].sum())) for w in space.arrays]
        weight = seen / xp.maximum(seen + self.shrinkage, 1e-300 if xp is np else 1e-30)
        eta: Array = weight * -_ratio(xp, xy, yy) + (1 - weight) * xp.concatenate(whole)
        return eta[None]

    def update(self, space: Space, state: State, products: Array, count: Any) -> tuple[State, Metrics]:
        fresh = {"xy": products[1], "yy": products[2], "pairs": count}
        return {**state, **{name: self.decay * state[name] + value for name, value in fresh.items()}}, {}


PRIOR = 1e-12


@dataclass(frozen=True, kw_only=True)
class LayerCoefficients(Coefficients):
    """One coefficient per layer and column, by least squares on the products of past batches.

    beta_l = - E[Y Y']^-1 E[Y X] of layer l, which is - E[X Y] / E[Y Y] for one column. It begins at -1 for the first
    column and 0 for the others: with Y = X - R that is R, the policy gradient, alone.
    """

    name: ClassVar[str] = "layers"
    several: ClassVar[bool] = True
    layered: ClassVar[bool] = True
    decay: Annotated[float, SHARE] = 0.9
    """How much of the products of past batches survives a batch."""

    def init(self, space: Space) -> State:
        left, right = np.triu_indices(1 + space.columns)
        prior = np.where((left == right) | ((left == 0) & (right == 1)), PRIOR, 0.0)
        return {"products": np.repeat(prior[:, None], len(space.layers), axis=1)}

    def coefficients(self, space: Space, state: State) -> Array:
        products = state["products"]
        if space.columns == 1:
            return np.asarray(-products[1] / products[2])[None]
        matrix = unpacked(products, space.columns)
        damped = matrix[1:, 1:] + 1e-6 * np.eye(space.columns)[..., None] * matrix[1:, 1:]  # columns nearly the same
        solved = np.linalg.solve(np.moveaxis(damped, -1, 0), -np.moveaxis(matrix[0, 1:], -1, 0)[..., None])
        return np.asarray(solved[..., 0].T)

    def update(self, space: Space, state: State, products: Array, count: Any) -> tuple[State, Metrics]:
        return {**state, "products": self.decay * state["products"] + products}, {}


def packed(columns: Any) -> Any:
    """Products of all columns [..., 1 + K, d] per coordinate, the upper triangle: [..., (1 + K)(2 + K) / 2, d]."""
    left, right = np.triu_indices(columns.shape[-2])
    return columns[..., left, :] * columns[..., right, :]


def unpacked(products: Array, columns: int) -> Array:
    """[1 + K, 1 + K, ...] of the upper triangle."""
    left, right = np.triu_indices(1 + columns)
    full = np.empty((1 + columns, 1 + columns, *products.shape[1:]))
    full[left, right] = full[right, left] = products
    return full


def second_moment(products: Array, beta: Array) -> Array:
    """sum_i (X_i + sum_k beta_k Y_ik)^2 per coordinate or layer, from the products' upper triangle."""
    columns, place = len(beta), 1 + len(beta)
    total = products[0] + 2 * (beta * products[1:place]).sum(axis=0)
    for k in range(columns):
        for other in range(k, columns):
            total = total + (1 if k == other else 2) * beta[k] * beta[other] * products[place]
            place += 1
    return total


def _ratio(xp: Any, numerator: Any, denominator: Any) -> Any:
    """numerator / denominator, and 0 where the control variate has shown no variance."""
    positive = denominator > 0
    return xp.where(positive, numerator / xp.where(positive, denominator, 1.0), 0.0)


COEFFICIENTS = [FixedCoefficient, SgdCoefficients, MomentsCoefficients, LayerCoefficients]
