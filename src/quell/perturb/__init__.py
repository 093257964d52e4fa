"""Directions in parameter space, always in pairs: members act with theta + sigma eps_plus and theta + sigma eps_minus.

A pair is drawn again from its key (seed, iteration, pair) wherever it is needed, so no process ever holds them all.
"""

import functools
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from quell.keys import Purpose, generator
from quell.registry import POSITIVE
from quell.types import Array


@dataclass(frozen=True)
class Draw:
    """The address of one iteration's directions."""

    seed: int
    iteration: int
    pairs: int
    dim: int
    purpose: Purpose = Purpose.DIRECTION
    block: tuple[int, ...] = ()
    """Told apart beyond the purpose, such as several measurements at one point."""

    def generator(self, *address: int) -> np.random.Generator:
        """The randomness at an address within the iteration, such as a pair's number."""
        return generator(self.seed, self.purpose, self.iteration, *self.block, *address)


@dataclass(frozen=True, kw_only=True)
class Directions:
    """How the pairs of an iteration are drawn: E[eps eps'] = I, standard normal marginals, unless a kind differs."""

    name: ClassVar[str]
    symmetric: ClassVar[bool] = True
    """Whether the second member of a pair is exactly the negative of the first."""
    independent: ClassVar[bool] = True
    """Whether the pairs of an iteration are independent, so that their spread tells the variance of their mean."""
    fresh: ClassVar[bool] = True
    """Whether iterations are independent of one another, so that two of them tell it where pairs do not."""
    sigma: Annotated[float, POSITIVE] = 0.02
    """Standard deviation of the parameter perturbation."""

    def plus(self, draw: Draw, pair: int) -> Array:
        """eps_plus of a pair, float32 [d]."""
        raise NotImplementedError

    def minus(self, eps: Array) -> Array:
        """eps_minus, given eps_plus."""
        return -eps


@dataclass(frozen=True, kw_only=True)
class Unperturbed:
    """Every member acts with theta itself, as policy gradients ask."""

    name: ClassVar[str] = "none"
    sigma: ClassVar[float] = 0.0
    symmetric: ClassVar[bool] = True
    independent: ClassVar[bool] = True
    fresh: ClassVar[bool] = True

    def plus(self, draw: Draw, pair: int) -> Array:
        return np.zeros(draw.dim, np.float32)

    def minus(self, eps: Array) -> Array:
        return eps


@functools.lru_cache(maxsize=1)  # the members of a pair come one after the other
def draw_pair(directions: Any, draw: Draw, pair: int) -> tuple[Array, Array]:
    """(eps_plus, eps_minus), float32 [d], read-only."""
    plus = directions.plus(draw, pair)
    minus = directions.minus(plus)
    for eps in (plus, minus):
        eps.flags.writeable = False
    return plus, minus


def perturbed(theta: Any, sigma: float, eps: Any) -> Any:
    """theta + sigma eps, in single precision: the one place that says so."""
    return theta + np.float32(sigma) * eps


DIRECTIONS = [Unperturbed]
