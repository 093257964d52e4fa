"""Coefficients of control variates: what multiplies each column Y_k in each coordinate, learned from past batches only.

`update` is called after a batch's gradient has been formed, so what it learns is used from the next batch on and the
estimate stays unbiased. Here are the rules for one column; `choose` has the one for several.
"""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from quell.errors import UsageError
from quell.registry import COUNT, SHARE, Range
from quell.types import Array, Metrics, State


@dataclass(frozen=True)
class Space:
    """What coefficients are for: K columns over d parameters in layers."""

    dim: int
    layers: tuple[slice, ...]
    columns: int
    subsets: tuple[tuple[int, ...], ...] = ((0,),)  # columns that are worth trying together

    @property
    def layer_of(self) -> Array:
        """The layer of each parameter, [d]."""
        return np.repeat(np.arange(len(self.layers)), [where.stop - where.start for where in self.layers])


@dataclass(frozen=True)
class Products:
    """What a batch says of its columns (X, Y_1, ..., Y_K), summed over its pairs."""

    sums: Array  # [1 + K, 1 + K, d] products per coordinate
    gram: Array | None  # products of what each column does to the policy, where the metric is that
    count: float  # pairs


@dataclass(frozen=True, kw_only=True)
class Coefficients:
    """One rule, whose fields are its settings."""

    name: ClassVar[str]
    columns: ClassVar[int | None] = 1
    """How many columns it can weigh; None for any number."""
    precision: ClassVar[type[Any]] = np.float32
    """Of the columns: the paper's rule keeps to single, so that recorded runs can be repeated to the last bit."""
    metric = "parameters"
    """Whose variance is made small: that of the parameters, or of the policy, for which it looks at `Products.gram`."""

    def init(self, space: Space) -> State:
        return {}

    def coefficients(self, space: Space, state: State) -> tuple[Array, Metrics]:
        """beta [K, d], and what is worth knowing of it."""
        raise NotImplementedError

    def update(self, space: Space, state: State, products: Products, ready: Array) -> tuple[State, Metrics]:
        """Next state and metrics; columns not `ready` (a value function before its first fit) teach nothing."""
        return state, {}


@dataclass(frozen=True, kw_only=True)
class FixedCoefficient(Coefficients):
    """The same value in every coordinate, for good."""

    name: ClassVar[str] = "fixed"
    value: Annotated[float, Range(low=-1e6)] = -1.0
    """The coefficient; -1 replaces ES by the policy gradient altogether."""

    def coefficients(self, space: Space, state: State) -> tuple[Array, Metrics]:
        return np.full((1, space.dim), self.value), {}


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

    def coefficients(self, space: Space, state: State) -> tuple[Array, Metrics]:
        return state["eta"][None], {}

    def update(self, space: Space, state: State, products: Products, ready: Array) -> tuple[State, Metrics]:
        eta, count = state["eta"], products.count
        square, cross = products.sums[1, 1] / count**2, products.sums[0, 1] / count**2
        steep = 2 * self.rate * square > 1
        rate = np.where(steep, 1 / np.where(steep, 2 * square, 1.0), self.rate)
        return {**state, "eta": eta - rate * 2 * (eta * square + cross)}, {"eta/guarded": float(steep.mean())}


@dataclass(frozen=True, kw_only=True)
class MomentsCoefficients(Coefficients):
    """The closed form eta* = -E[X Y] / E[Y^2] from running moments of past batches.

    Coordinates are noisy when few pairs have been seen, so their ratio is pulled towards that of their layer:
    eta = (n eta_coordinate + shrinkage eta_layer) / (n + shrinkage), n the (discounted) pairs behind the moments.
    """

    name: ClassVar[str] = "moments"
    decay: Annotated[float, SHARE] = 0.95
    """How much of the running moments survives an iteration."""
    shrinkage: Annotated[float, COUNT] = 20.0
    """Pseudo-pairs that pull a coordinate's coefficient towards its layer's."""
    per: Literal["coordinate", "layer", "scalar"] = "coordinate"
    """One coefficient per coordinate, per layer, or for all of theta."""

    def init(self, space: Space) -> State:
        return {"xy": np.zeros(space.dim), "yy": np.zeros(space.dim), "pairs": np.zeros(())}

    def coefficients(self, space: Space, state: State) -> tuple[Array, Metrics]:
        xy, yy, seen = state["xy"], state["yy"], float(state["pairs"])
        eta = np.empty(space.dim)
        for where in space.layers if self.per != "scalar" else [slice(None)]:
            eta[where] = -_ratio(xy[where].sum(), yy[where].sum())
        if self.per == "coordinate":
            weight = seen / (seen + self.shrinkage) if seen else 0.0
            eta = weight * -_ratio(xy, yy) + (1 - weight) * eta
        return eta[None], {}

    def update(self, space: Space, state: State, products: Products, ready: Array) -> tuple[State, Metrics]:
        fresh = {"xy": products.sums[0, 1], "yy": products.sums[1, 1], "pairs": np.asarray(products.count)}
        return {**state, **{name: self.decay * state[name] + value for name, value in fresh.items()}}, {}

    def check(self) -> None:
        if self.per != "coordinate" and self.shrinkage != MomentsCoefficients.shrinkage:
            raise UsageError(f"coefficients.shrinkage is read only with coefficients.per coordinate, not {self.per}")


def spread_of(eta: Array) -> Metrics:
    """Coefficients as a run's metrics tell them."""
    return {"eta/mean": float(eta.mean()), "eta/min": float(eta.min()), "eta/max": float(eta.max())}


def _ratio(numerator: Any, denominator: Any) -> Any:
    """numerator / denominator, and 0 where the control variate has shown no variance."""
    positive = denominator > 0
    return np.where(positive, numerator / np.where(positive, denominator, 1.0), 0.0)


COEFFICIENTS = [FixedCoefficient, SgdCoefficients, MomentsCoefficients]
