"""Learning eta and gamma for the control variate, from past batches only.

Learners keep their state in named arrays. `update` is called after a batch's gradient has been formed, so what it
learns is used from the next batch on and the estimate stays unbiased.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from quell.keys import Purpose, generator
from quell.reduce import Sums

Array = NDArray[Any]
State = dict[str, Array]
PHI_MIN, PHI_MAX = float(np.log(1e-6)), float(np.log(0.5))  # gamma between 0.5 and 0.999999
Granularity = Literal["coordinate", "layer", "scalar"]


class EtaLearner(Protocol):
    """eta [d], the coefficients of the control variate."""

    def init(self) -> State: ...

    def eta(self, state: State) -> Array: ...

    def update(self, state: State, sums: Sums, count: float) -> tuple[State, dict[str, float]]:
        """Next state and metrics, from the sums over `count` pairs of X Y ("xy") and Y^2 ("yy")."""


@dataclass(frozen=True)
class FixedEta:
    """The same value in every coordinate, or a given vector, for good."""

    dim: int
    value: float | Array = -1.0

    def init(self) -> State:
        return {}

    def eta(self, state: State) -> Array:
        return np.broadcast_to(np.asarray(self.value, np.float64), self.dim)

    def update(self, state: State, sums: Sums, count: float) -> tuple[State, dict[str, float]]:
        return state, {}


@dataclass(frozen=True)
class SgdEta:
    """The paper's rule: gradient descent on V[CV] (eq. 9).

        eta <- eta - a (2 eta E[Y^2] + 2 E[X Y])

    with the moments of the N-pair estimate, E[Y^2] = sum_i Y_i^2 / N^2 and E[X Y] likewise (pairs are independent and
    E[Y] = 0). Taken as printed it diverges where 2 a E[Y^2] > 2. The guard limits the step of such a coordinate to 1/(2
    E[Y^2]), which lands exactly on this batch's minimum, never beyond it; how often it acted is a metric.
    """

    dim: int
    rate: float = 1e-4

    def init(self) -> State:
        return {"eta": np.zeros(self.dim)}

    def eta(self, state: State) -> Array:
        return state["eta"]

    def update(self, state: State, sums: Sums, count: float) -> tuple[State, dict[str, float]]:
        eta, square, cross = state["eta"], sums["yy"] / count**2, sums["xy"] / count**2
        steep = 2 * self.rate * square > 1
        rate = np.where(steep, 1 / np.where(steep, 2 * square, 1.0), self.rate)
        return {**state, "eta": eta - rate * 2 * (eta * square + cross)}, {"eta/guarded": float(steep.mean())}


@dataclass(frozen=True)
class MomentsEta:
    """The closed form eta* = -E[X Y] / E[Y^2] from running moments of past batches.

    Coordinates are noisy when few pairs have been seen, so their ratio is pulled towards that of their layer, with the
    weight of `shrinkage` pseudo-pairs: eta = (n eta_coordinate + shrinkage eta_layer) / (n + shrinkage), n the
    (discounted) number of pairs behind the moments.
    """

    dim: int
    layers: tuple[slice, ...]
    decay: float = 0.95
    shrinkage: float = 20.0
    per: Granularity = "coordinate"

    def init(self) -> State:
        return {"xy": np.zeros(self.dim), "yy": np.zeros(self.dim), "pairs": np.zeros(())}

    def eta(self, state: State) -> Array:
        xy, yy = state["xy"], state["yy"]
        if self.per == "scalar":
            return np.full(self.dim, -_ratio(xy.sum(), yy.sum()))
        layer = np.empty(self.dim)
        for where in self.layers:
            layer[where] = -_ratio(xy[where].sum(), yy[where].sum())
        if self.per == "layer":
            return layer
        seen = float(state["pairs"])
        weight = seen / (seen + self.shrinkage) if seen else 0.0
        return weight * -_ratio(xy, yy) + (1 - weight) * layer

    def update(self, state: State, sums: Sums, count: float) -> tuple[State, dict[str, float]]:
        fresh = {"xy": sums["xy"], "yy": sums["yy"], "pairs": np.asarray(count)}
        return {**state, **{name: self.decay * state[name] + value for name, value in fresh.items()}}, {}


def _ratio(numerator: Any, denominator: Any) -> Any:
    """numerator / denominator, and 0 where the control variate has shown no variance."""
    positive = denominator > 0
    return np.where(positive, numerator / np.where(positive, denominator, 1.0), 0.0)


class GammaLearner(Protocol):
    """The discount of the control variate."""

    def init(self) -> State: ...

    def gammas(self, state: State, iteration: int) -> Sequence[float]:
        """The discount in use, then any trial discounts to be evaluated on the same batch."""

    def update(self, state: State, iteration: int, sums: Sums, eta: Array, count: float) -> State:
        """Next state, from the sums of Y at each trial discount ("trials" [n, d])."""


@dataclass(frozen=True)
class FixedGamma:
    """One discount for good."""

    value: float

    def init(self) -> State:
        return {}

    def gammas(self, state: State, iteration: int) -> Sequence[float]:
        return [self.value]

    def update(self, state: State, iteration: int, sums: Sums, eta: Array, count: float) -> State:
        return state


@dataclass(frozen=True)
class EsGamma:
    """The paper's rule: ES on v(gamma) = |CV(gamma)|^2, whose mean differs from V[CV] by a constant.

        gamma = 1 - exp(phi),   phi <- phi - a/n sum_k v(phi + s z_k) / s * z_k,   z_k ~ N(0, 1)

    v is measured in units of its own batch mean and with that mean subtracted, which leaves the direction of the step
    unchanged and makes the rate independent of d, sigma and the returns: with the raw sum of squares the printed rates
    throw phi out of range in one step.
    """

    seed: int
    start: float = 0.99
    rate: float = 1e-4
    spread: float = 0.02
    samples: int = 10

    def init(self) -> State:
        return {"phi": np.asarray(np.log1p(-self.start))}

    def _z(self, iteration: int) -> Array:
        return generator(self.seed, Purpose.DISCOUNT, iteration).standard_normal(self.samples)

    def gammas(self, state: State, iteration: int) -> Sequence[float]:
        phis = state["phi"] + self.spread * np.concatenate([[0.0], self._z(iteration)])
        return (1 - np.exp(np.minimum(phis, PHI_MAX))).tolist()

    def update(self, state: State, iteration: int, sums: Sums, eta: Array, count: float) -> State:
        v = np.square((sums["x"] + eta * sums["trials"]) / count).sum(axis=1)
        mean = v.mean()
        if not (np.isfinite(mean) and mean > 0):
            return state
        slope = ((v / mean - 1) * self._z(iteration)).mean() / self.spread
        return {**state, "phi": np.clip(state["phi"] - self.rate * slope, PHI_MIN, PHI_MAX)}
