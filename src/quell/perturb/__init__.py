"""Directions in parameter space, always in pairs: members act with theta + sigma eps_plus and theta + sigma eps_minus.

A pair is drawn again from its key (seed, iteration, pair) wherever it is needed, so no process ever holds them all.
A kind of directions defines the parameters that members act with (`members`), weighted sums of directions (`combine`),
and what it uses of the run so far (`prepare`), which is sent with the request.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Protocol

import numpy as np

from quell.errors import UsageError
from quell.keys import Purpose, generator
from quell.policy.fisher import Metric
from quell.policy.network import Policy
from quell.registry import POSITIVE
from quell.types import Array, Episodes, Factored, Shape, namespace


@dataclass(frozen=True)
class Draw:
    """What the random directions of one iteration depend on."""

    seed: Any
    """The run's seed, or inside a compiled program its `quell.keys.root`."""
    iteration: int
    pairs: int
    dim: int
    purpose: Purpose = Purpose.DIRECTION
    block: tuple[int, ...] = ()
    """Further numbers that separate draws of the same purpose, such as several measurements at one point."""
    layout: tuple[tuple[str, int, tuple[int, ...]], ...] = ()
    """(name, first of its parameters, shape) of every part of the policy, unless its network is a custom one."""

    def generator(self, *address: int) -> np.random.Generator:
        """The randomness at an address within the iteration, such as a pair's number."""
        return generator(self.seed, self.purpose, self.iteration, *self.block, *address)


Weight = Callable[[float], float]
"""Size of perturbations in nats -> ES's share of the estimate at that size, as past batches tell it."""


def alone(nats: float) -> float:
    """ES has all of the weight."""
    return 1.0


class Kind(Protocol):
    """What an engine and an estimator need from directions; the defaults are for vectors [d] with E[eps eps'] = 1.

    A kind derives from it (from `Directions`, if it has a size) and overrides what differs.
    """

    @property
    def sigma(self) -> float:
        """Standard deviation of the perturbation; 0 where there is none."""

    def __hash__(self) -> int:
        """Kinds are frozen dataclasses: the draws of one are kept by what it is."""
        return object.__hash__(self)

    @property
    def nats(self) -> float | None:
        """Its size as a divergence, where that is what was asked for."""
        return None

    symmetric: ClassVar[bool] = True
    """Whether the second member of a pair is exactly the negative of the first."""
    independent: ClassVar[bool] = True
    """Whether the pairs of an iteration are independent, so that their spread tells the variance of their mean."""
    fresh: ClassVar[bool] = True
    """Whether iterations are independent of one another, so that two of them tell it where pairs do not."""
    factored: ClassVar[bool] = False
    """Whether eps is never formed for acting and for weighted sums: [d] numbers per pair would be too many."""
    biased: ClassVar[bool] = False
    """Whether the score of eps is not C^-1 eps, C its covariance, so that ES is the gradient to leading order alone."""

    traceable: ClassVar[bool] = False
    """Whether all of it runs inside a compiled program too, where a draw's seed is a key; if not, directions are drawn
    before one."""

    @property
    def needs_metric(self) -> bool:
        """Whether they are drawn by the metric of the step, as earlier batches know it."""
        return self.nats is not None

    def prepare(self, metric: Metric | None, weight: Weight = alone) -> Shape | None:
        """What the draws of an iteration take from the run so far; None where the settings say all."""
        return None

    def plus(self, draw: Draw, pair: int) -> Array:
        """eps_plus of a pair, float32 [d], before it is `shaped`."""
        raise NotImplementedError

    def minus(self, eps: Array) -> Array:
        """eps_minus, given eps_plus."""
        return -eps

    def shaped(self, eps: Array, shape: Shape | None) -> Array:
        """C^1/2 eps, float32."""
        return eps

    def inverse(self, vectors: Array, shape: Shape | None) -> Array:
        """C^-1 times some vectors [..., d], of the same precision."""
        return vectors

    def numbers(self, policy: Policy) -> int:
        """How many numbers a member's parameters take."""
        return policy.dim

    def members(
        self, theta: Array, draw: Draw, chosen: Sequence[tuple[int, int]], shape: Shape | None
    ) -> Array | Factored:
        """What the members (pair, sign) act with: theta + sigma eps, or theta where the sign is 0 or nothing drawn."""
        sigma = sigma_of(self, shape)

        def one(pair: int, sign: int) -> Array:
            if not sign or not sigma:
                return theta
            return np.asarray(perturbed(theta, sigma, draw_pair(self, draw, pair, shape)[sign < 0]))

        return np.stack([one(*member) for member in chosen])

    def combine(self, draw: Draw, weights: Array, shape: Shape | None = None) -> tuple[Array, Array]:
        """(sum_i x_i [d], sum_i |x_i|^2) of x_i = C^-1 (w_i+ eps_i+ + w_i- eps_i-), for weights [N, 2]."""
        total, squares = np.zeros(draw.dim), np.zeros(())
        for pair, (plus, minus) in enumerate(weights):
            eps = draw_pair(self, draw, pair, shape)
            x = self.inverse(plus * eps[0].astype(np.float64) + minus * eps[1], shape)
            total, squares = total + x, squares + np.vdot(x, x)
        return total, squares


@dataclass(frozen=True, kw_only=True)
class Directions(Kind):
    """How the pairs of an iteration are drawn: E[eps eps'] = I, standard normal marginals, unless a kind differs."""

    name: ClassVar[str]
    sigma: Annotated[float, POSITIVE] = 0.02
    """Standard deviation of the parameter perturbation."""
    nats: Annotated[float | None, POSITIVE] = None
    """Size of the perturbation as a divergence: mean KL between the perturbed and the plain policy. Sigma then follows
    from the metric of the natural step; the given sigma is used for the first batch only."""
    least: Annotated[float | None, POSITIVE] = None
    """Size if ES has no weight in the estimate; it rises to `nats` with that weight (not given: always `nats`)."""

    def check(self) -> None:
        if self.least is not None and (self.nats is None or self.least > self.nats):
            raise UsageError(f"`least={self.least:g}` must be no more than `nats={self.nats or 0:g}`")

    def prepare(self, metric: Metric | None, weight: Weight = alone) -> Shape | None:
        """KL is about sigma^2 eps' F eps / 2, in the mean sigma^2 tr F / 2."""
        if self.nats is None or metric is None:
            return None
        return sized(metric, self.wanted(self.nats, weight), lambda: metric.spectrum().sum(), self.sigma)

    def wanted(self, nats: float, weight: Weight) -> Any:
        """The size that ES is worth: least^(1 - w) nats^w, w its share of the estimate as it would be at `nats`."""
        if self.least is None:
            return nats
        share = weight(nats)
        return self.least ** (1 - share) * nats**share


@dataclass(frozen=True, kw_only=True)
class Unperturbed(Kind):
    """No perturbation: every member acts with theta itself, as policy gradients need."""

    name: ClassVar[str] = "none"
    traceable: ClassVar[bool] = True
    sigma: ClassVar[float] = 0.0

    def plus(self, draw: Draw, pair: int) -> Array:
        return np.zeros(draw.dim, np.float32)

    def minus(self, eps: Array) -> Array:
        return eps


@functools.lru_cache(maxsize=1)  # the members of a pair come one after the other
def draw_pair(directions: Kind, draw: Draw, pair: int, shape: Shape | None = None) -> tuple[Array, Array]:
    """(eps_plus, eps_minus), float32 [d], read-only."""
    plus = directions.shaped(directions.plus(draw, pair), shape)
    minus = directions.minus(plus)
    for eps in (plus, minus):
        eps.flags.writeable = False
    return plus, minus


def draw_of(policy: Policy, seed: int, episodes: Episodes) -> Draw:
    """The address of a batch's directions."""
    purpose = episodes.stream.value[2] or Purpose.DIRECTION  # nothing is drawn where there is none
    pairs = episodes.planned or episodes.pairs
    return Draw(seed, episodes.iteration, pairs, policy.dim, purpose, episodes.block, _parts(policy))


@functools.lru_cache(maxsize=8)
def _parts(policy: Policy) -> tuple[tuple[str, int, tuple[int, ...]], ...]:
    return () if policy.own else tuple((name, where.start, shape) for name, (where, shape) in policy.layout.items())


def perturbed(theta: Any, sigma: Any, eps: Any) -> Any:
    """theta + sigma eps, in single precision: the one place that does this."""
    return theta + (np.float32(sigma) if isinstance(sigma, float | int) else sigma) * eps


def sigma_of(directions: Kind, shape: Shape | None) -> Any:
    """The standard deviation of an iteration's perturbations."""
    return directions.sigma if shape is None else shape.sigma


def sized(
    metric: Metric, nats: Any, trace: Callable[[], Any], otherwise: float, shaped: Metric | None = None
) -> Shape | None:
    """The shape of directions with sigma^2 trace / 2 = nats, once the metric is known. A compiled program, which cannot
    have None for it then, has directions of the plain size till it is."""
    xp = metric.xp
    if xp is np:
        return Shape(float(sigma_for(nats, trace(), otherwise)), shaped, nats) if metric.known else None
    found = sigma_for(nats, trace(), otherwise)
    return Shape(xp.where(metric.known, found, otherwise), shaped, xp.where(metric.known, nats, 0.0))


def sigma_for(nats: Any, trace: Any, otherwise: float) -> Any:
    """sigma at which sigma^2 trace / 2 = nats; `otherwise` where the policy feels nothing."""
    xp = namespace(np.asarray(trace) if isinstance(trace, float) else trace)
    sigma = xp.sqrt(2 * nats / xp.where(trace > 0, trace, 1.0))
    return xp.where((trace > 0) & xp.isfinite(sigma), sigma, otherwise)


DIRECTIONS = [Unperturbed]
