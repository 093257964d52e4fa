"""Coefficients of control variates: what multiplies each column Y_k, learned from past batches only.

`update` is called after a batch's gradient has been formed, so what it learns is used from the next batch on and the
estimate stays unbiased. All rules see the same thing: the products of the columns (X, Y_1, ..., Y_K), summed over the
pairs of a batch, per coordinate or per layer, and the columns' means.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from quell.registry import COUNT, SHARE, Range
from quell.types import Array, Metrics, State, namespace


@dataclass(frozen=True)
class Space:
    """What coefficients are for: K columns over d parameters in layers."""

    dim: int
    columns: int
    arrays: tuple[slice, ...]
    """Where each weight matrix and each bias vector is."""
    layers: tuple[slice, ...]
    """Where each layer is, weights and biases together."""


@dataclass(frozen=True)
class Means:
    """A batch's mean X and columns [1 + K, d], and how vectors are multiplied in the metric, [layers]."""

    columns: Any
    inner: Callable[[Any, Any], Any]
    sight: Any = 1.0
    """Share of the gradient that the policy gradient can see at most, going by when rewards come."""


@dataclass(frozen=True, kw_only=True)
class Coefficients:
    """One rule, whose fields are its settings."""

    name: ClassVar[str]
    several: ClassVar[bool] = False
    """Whether it can weigh several columns."""
    layered: ClassVar[bool] = False
    """Whether it has one coefficient per layer, or one per coordinate."""
    sighted: ClassVar[bool] = False
    """Whether it asks for `Means.sight`, which is looked up in all rewards of a batch."""

    def init(self, space: Space) -> State:
        return {}

    def coefficients(self, space: Space, state: State) -> Array:
        """beta [K, d], or [K, layers]."""
        raise NotImplementedError

    def update(
        self, space: Space, state: State, products: Array, count: Any, means: Means | None = None
    ) -> tuple[State, Metrics]:
        """Next state and metrics, from products [(1 + K)(2 + K) / 2, d or layers] of so many pairs: XX, XY, YY."""
        return state, {}

    def resized(self, state: State, nats: Any) -> State:
        """The state as it would be, had past perturbations been of this size; 0 is a size that is not known."""
        return state


@dataclass(frozen=True, kw_only=True)
class FixedCoefficient(Coefficients):
    """A constant, the same in every coordinate."""

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

    def update(
        self, space: Space, state: State, products: Array, count: Any, means: Means | None = None
    ) -> tuple[State, Metrics]:
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

    def update(
        self, space: Space, state: State, products: Array, count: Any, means: Means | None = None
    ) -> tuple[State, Metrics]:
        fresh = {"xy": products[1], "yy": products[2], "pairs": count}
        return {**state, **{name: self.decay * state[name] + value for name, value in fresh.items()}}, {}


PRIOR = 1e-12
TRACE = 1e-9  # of a pair's noise: a gradient that has not been seen at all


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
            return (-products[1] / products[2])[None]
        matrix, xp = unpacked(products, space.columns), namespace(products)
        damped = matrix[1:, 1:] + 1e-6 * np.eye(space.columns)[..., None] * matrix[1:, 1:]  # columns nearly the same
        solved = xp.linalg.solve(xp.moveaxis(damped, -1, 0), -xp.moveaxis(matrix[0, 1:], -1, 0)[..., None])
        return solved[..., 0].T

    def update(
        self, space: Space, state: State, products: Array, count: Any, means: Means | None = None
    ) -> tuple[State, Metrics]:
        return {**state, "products": self.decay * state["products"] + products}, {}


@dataclass(frozen=True, kw_only=True)
class MseCoefficients(Coefficients):
    """One coefficient, for least variance + bias^2 of the best multiple: its length does not matter to the steps.

        min over a, b of E|a X + b R - g|^2,    R = X - Y the policy gradient,    1 + beta = a / (a + b)
        (a, b) ~ (S + V / N)^-1 (s, q)',    S = [[s, q], [q, p]],    s = |E X|^2, q = E X' E R, p = |E R|^2

    V is the covariance of a pair's (X, R), N the number of pairs, g = E X. For s = q = p, a policy gradient without
    bias, that is least variance. Variance + bias^2 of the mix itself would not do: where the gradient is far below its
    noise, nothing is better than an estimate of nothing, such as that of a policy gradient that never sees the reward.

    The bias is measured as products of a batch's means with those of earlier batches, whose noise is independent, so
    that it adds nothing: s - q, what R misses, and |E Y|^2. What is not `strict` standard errors above zero is shrunk
    to nothing, so that an unbiased column keeps the coefficient of least variance. Where R misses all, ES is alone. Of
    the share (s - q) / s that R misses, `allow` is for free: (share - allow) / (1 - allow) is what counts. A near
    horizon that sees half of the gradient is worth having (a hopper runs along it, and stands still along ES).

    That takes many batches. What shows at once is how long an action waits for its next reward: the policy gradient
    sees no more than gamma^wait of what it earned, so q is at most that share of s.

    `lean` is the power to which the ratio of the two weights is raised. 1 is least variance + bias^2; 2 takes more of
    the estimate that has less of it. If R sees all there is to see, that costs little (nothing where the two are
    equally noisy, an eighth more variance at most); if R sees nothing, it saves most of what R's noise costs ES.

    The first batch, of which nothing is known, is ES's alone. A critic that has learned nothing yet can make R a
    thousand times as noisy as X, and Adam would remember its size for the whole run.

    Batches differ in noise by powers of ten, so each counts in units of its own E[XX] + E[RR]: one where a member fell
    apart would else be all that is remembered. The noise of ES falls as the perturbation grows, E[XX] ~ 1 / nats, that
    of the policy gradient does not; so what was learned at one size is known at another.
    """

    name: ClassVar[str] = "mse"
    layered: ClassVar[bool] = True
    sighted: ClassVar[bool] = True
    decay: Annotated[float, SHARE] = 0.9
    """How much of the products of past batches survives a batch."""
    memory: Annotated[float, SHARE] = 0.99
    """How much of the past batches' means survives a batch."""
    strict: Annotated[float, COUNT] = 2.0
    """Standard errors that a bias must be above zero to count (0: all of it counts)."""
    allow: Annotated[float, SHARE] = 0.0
    """Share of the gradient that the policy gradient may miss without it counting as bias."""
    lean: Annotated[float, Range(low=1)] = 1.0
    """Power of the ratio of the two weights: 1 least variance + bias^2, 2 leans to the estimate that has less of it."""
    doubt: Annotated[float, COUNT] = 0.0
    """The weight of the policy gradient is multiplied by this power of the share that it can see: noise averages out
    over many batches, but what is not seen stays missing. 0: no effect."""
    per: Literal["layer", "whole"] = "whole"
    """Whether each layer has its own coefficient, or all parameters share one, for which a bias is detected sooner."""

    METRICS: ClassVar[dict[str, str]] = {
        "eta/missed": "Share of the gradient that the policy gradient misses, as far as measured (the largest).",
        "eta/missed_errors": "The same before it is shrunk, in standard errors.",
        "eta/sight": "Share of the gradient that the policy gradient can see at most: gamma^wait, over all actions, "
        "for the wait till the next reward.",
    }

    def init(self, space: Space) -> State:
        products, groups = np.full((3, len(space.layers)), PRIOR), self._groups(len(space.layers))
        names = ("pairs", "batches", "sight", "mean.batches", "bias.batches", "nats")
        bias = {name: np.zeros((3, groups)) for name in ("bias.sum", "bias.squares")}
        return {"products": products, "mean": np.zeros((2, space.dim)), **{n: np.zeros(()) for n in names}, **bias}

    def _groups(self, layers: int) -> int:
        return layers if self.per == "layer" else 1

    def _grouped(self, values: Any) -> Any:
        """Layers' values [..., layers], added up where they have one coefficient."""
        return values if self.per == "layer" else values.sum(axis=-1, keepdims=True)

    def _seen(self, state: State) -> tuple[Any, Any]:
        """(s, s - q and |E Y|^2 as measured; the same in their standard errors), [3, coefficients]."""
        xp, times = namespace(state["bias.sum"]), at_least(state["bias.batches"], 1e-9)
        found, error = state["bias.sum"] / times, xp.sqrt(state["bias.squares"]) / times
        return found, xp.where(error > 0, found / xp.where(error > 0, error, 1.0), 0.0)

    def _sight(self, state: State) -> Any:
        """Share of the gradient that is near enough to be seen, over past batches."""
        xp, times = namespace(state["sight"]), state["batches"]
        return xp.where(times > 0, state["sight"] / at_least(times, 1.0), 1.0)

    def signals(self, state: State) -> tuple[Any, Any, Any]:
        """(s, q, p) as far as they are heeded, of every coefficient."""
        xp, (found, errors) = namespace(state["bias.sum"]), self._seen(state)
        sure = xp.maximum(1 - (self.strict / xp.where(errors > 0, errors, 1e-9)) ** 2, 0.0)
        missed, square = found[1] * sure[1], found[2] * sure[2]
        s = xp.maximum(xp.maximum(found[0], missed), TRACE)
        if self.allow:
            beyond = xp.maximum(missed - self.allow * s, 0.0) / (1 - self.allow)
            missed, square = beyond, square * xp.where(beyond > 0, beyond / xp.where(missed > 0, missed, 1.0), 0.0)
        q = xp.minimum(s - missed, self._sight(state) * s)
        return s, q, xp.maximum(2 * q - s + square, q * q / s)

    def coefficients(self, space: Space, state: State) -> Array:
        xp, (s, q, p) = namespace(state["products"]), self.signals(state)
        xx, xy, yy = self._grouped(state["products"]) / at_least(state["pairs"], 1.0)
        once = 1 / at_least(state["pairs"] / at_least(state["batches"], 1.0), 1.0)  # 1 / N
        both = once * (xx - xy) + (1 - once) * q
        own, plain = once * (xx - 2 * xy + yy) + (1 - once) * p, once * xx + (1 - once) * s
        a, b = own * s - both * q, plain * q - both * s
        sound = a + b > 0
        least = xp.clip(xp.where(sound, a / xp.where(sound, a + b, 1.0), 1.0), 0.0, 1.0)
        share = least**self.lean / (least**self.lean + (1 - least) ** self.lean)
        if self.doubt:
            share = 1 - (1 - share) * self._sight(state) ** self.doubt
        share = xp.where(state["batches"] > 0, share, 1.0)
        return (xp.zeros(len(space.layers)) + share - 1)[None]

    def weight_of_es(self, space: Space, state: State) -> Any:
        """What share of the estimate is ES's, over all layers: 0 the policy gradient alone, 1 ES alone."""
        xp, whole = namespace(state["products"]), state["products"].sum(axis=-1)
        own = self.coefficients(space, state)[0]
        return xp.clip(1 + (own * state["products"][2]).sum() / whole[2], 0.0, 1.0)

    def update(
        self, space: Space, state: State, products: Array, count: Any, means: Means | None = None
    ) -> tuple[State, Metrics]:
        assert means is not None
        xp, before = namespace(products), state["mean.batches"]
        size = xp.maximum(
            (2 * products[0] - 2 * products[1] + products[2]).sum() / count, np.finfo(products.dtype).tiny
        )
        x, y = fresh = means.columns[:2] / xp.sqrt(size)
        past_x, past_y = state["mean"] / at_least(before, 1.0)
        crossed = (means.inner(x, past_y) + means.inner(y, past_x)) / 2
        seen = self._grouped(xp.stack([means.inner(x, past_x), crossed, means.inner(y, past_y)]))
        known = xp.where(before > 0, 1.0, 0.0)
        keep = xp.where(known > 0, self.memory, 1.0)
        learned = {
            "products": self.decay * state["products"] + products / size,
            "pairs": self.decay * state["pairs"] + count,
            "batches": self.decay * state["batches"] + 1.0,
            "sight": self.decay * state["sight"] + means.sight,
            "mean": self.memory * state["mean"] + fresh,
            "mean.batches": self.memory * before + 1.0,
            "bias.sum": keep * state["bias.sum"] + known * seen,
            "bias.squares": keep**2 * state["bias.squares"] + known * seen**2,
            "bias.batches": keep * state["bias.batches"] + known,
        }
        following = {**state, **learned}
        s, q, _ = self.signals(following)
        told = {"eta/missed": (1 - q / s).max(), "eta/missed_errors": self._seen(following)[1][1].max()}
        return following, told | {"eta/sight": self._sight(following)}

    def resized(self, state: State, nats: Any) -> State:
        xp, past, (xx, xy, yy) = namespace(state["products"]), state["nats"], state["products"]
        times = xp.where((past > 0) & (nats > 0), past / xp.where(nats > 0, nats, 1.0), 1.0)
        both, own, plain = xx - xy, xx - 2 * xy + yy, times * xx  # E[XR], E[RR], E[XX]
        products = xp.stack([plain, plain - both, plain - 2 * both + own])
        return {**state, "products": products, "nats": xp.where(nats > 0, nats, past)}


def at_least(value: Any, least: float) -> Any:
    return namespace(value).maximum(value, least)


def packed(columns: Any) -> Any:
    """Products of all columns [..., 1 + K, d] per coordinate, the upper triangle: [..., (1 + K)(2 + K) / 2, d]."""
    left, right = np.triu_indices(columns.shape[-2])
    if namespace(columns) is not np:
        return columns[..., left, :] * columns[..., right, :]
    products = np.empty((*columns.shape[:-2], len(left), columns.shape[-1]), columns.dtype)
    for place, (one, other) in enumerate(zip(left, right, strict=True)):  # without a copy of all columns
        np.multiply(columns[..., one, :], columns[..., other, :], out=products[..., place, :])
    return products


def unpacked(products: Array, columns: int) -> Array:
    """[1 + K, 1 + K, ...] of the upper triangle."""
    left, right = np.triu_indices(1 + columns)
    place = np.empty((1 + columns, 1 + columns), np.int64)
    place[left, right] = place[right, left] = np.arange(len(left))
    return products[place]


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


COEFFICIENTS = [FixedCoefficient, SgdCoefficients, MomentsCoefficients, LayerCoefficients, MseCoefficients]
