"""The discounts of the control variates: given, or learned by the paper's rule from past batches only."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from quell.errors import UsageError
from quell.keys import Purpose, generator, traced_key
from quell.registry import COUNT, Range
from quell.types import Array, State, namespace

PHI_MIN, PHI_MAX = float(np.log(1e-6)), float(np.log(0.5))  # gamma between 0.5 and 0.999999
SPREAD = 0.02
SAMPLES = 10
ROUNDING, SINGLE_ROUNDING = 1e-9, 1e-5  # relative differences that say nothing, in double and in single precision


@dataclass(frozen=True, kw_only=True)
class Discount:
    """One rule, whose fields are its settings."""

    @property
    def columns(self) -> int:
        """How many discounts are in use, each for a column of its own."""
        return 1

    def init(self) -> State:
        return {}

    def at(self, xp: Any, seed: int, state: State, iteration: Any) -> Sequence[Any]:
        """The discounts in use, then any trial discounts to be evaluated on the same batch."""
        raise NotImplementedError

    def update(self, seed: int, state: State, iteration: Any, trials: Array) -> State:
        """Next state, from the estimate at each trial discount, [n, d]."""
        return state


@dataclass(frozen=True, kw_only=True)
class FixedDiscounts(Discount):
    """Constant discounts."""

    name: ClassVar[str] = "fixed"
    gammas: tuple[float, ...] = (1.0,)
    """A control variate for each; value functions are fitted for the first."""

    @property
    def columns(self) -> int:
        return len(self.gammas)

    def at(self, xp: Any, seed: int, state: State, iteration: Any) -> Sequence[Any]:
        return self.gammas

    def check(self) -> None:
        gammas = self.gammas
        if not gammas or len(set(gammas)) < len(gammas) or not all(0 < g <= 1 for g in gammas):
            raise UsageError(f"discount.gammas needs different numbers in (0, 1], got {gammas}")


@dataclass(frozen=True, kw_only=True)
class LearnedDiscount(Discount):
    """The paper's rule: ES on v(gamma) = |CV(gamma)|^2, whose mean differs from V[CV] by a constant.

        gamma = 1 - exp(phi),   phi <- phi - a/n sum_k v(phi + s z_k) / s * z_k,   z_k ~ N(0, 1)

    v is normalised over the n draws, as the paper does with returns: (v - mean)/std. So the rates mean the same on any
    task: at 1e-4 phi moves by 0.005 in an iteration. The raw v, of order d/sigma^2, throws phi out of its range in one
    step; divided by its mean alone it moves gamma from 0.99 to 0.9901 in 2e7 steps.
    """

    name: ClassVar[str] = "learned"
    start: Annotated[float, Range(low=0.5, below=1)] = 0.99
    """Where gamma starts."""
    rate: Annotated[float, COUNT] = 1e-4
    """Step size, one of 1e-4, 1e-5, 1e-6 in the paper."""

    def init(self) -> State:
        return {"phi": np.asarray(np.log1p(-self.start))}

    def at(self, xp: Any, seed: int, state: State, iteration: Any) -> Sequence[Any]:
        phis = state["phi"] + SPREAD * xp.concatenate([xp.zeros(1), _draws(xp, seed, iteration)])
        gammas = 1 - xp.exp(xp.minimum(phis, PHI_MAX))
        return list(gammas.tolist()) if xp is np else list(gammas)

    def update(self, seed: int, state: State, iteration: Any, trials: Array) -> State:
        xp, v = namespace(trials), namespace(trials).square(trials).sum(axis=1)
        mean, std = v.mean(), v.std()
        rounding = ROUNDING if xp is np else SINGLE_ROUNDING
        told = xp.isfinite(std) & (std > rounding * mean)  # else a coefficient of 0: no discount is better than another
        slope = ((v - mean) / xp.where(told, std, 1.0) * _draws(xp, seed, iteration)).mean() / SPREAD
        moved = xp.clip(state["phi"] - self.rate * slope, PHI_MIN, PHI_MAX)
        return {**state, "phi": xp.where(told, moved, state["phi"])}


def _draws(xp: Any, seed: int, iteration: Any) -> Any:
    if xp is np:
        return generator(seed, Purpose.DISCOUNT, int(iteration)).standard_normal(SAMPLES)
    import jax

    return jax.random.normal(traced_key(seed, Purpose.DISCOUNT, iteration), (SAMPLES,))


DISCOUNTS = [FixedDiscounts, LearnedDiscount]
