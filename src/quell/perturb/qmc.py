"""QMC: Halton points through the inverse normal CDF, antithetic.

The sequence goes on from iteration to iteration. Shifted by a fresh random vector (modulo 1) every iteration, each
point is uniform on the cube and its direction N(0, I), so the estimate is unbiased. Unshifted, as in the paper, nothing
is random: a direction has no distribution, and in high dimension the first points have nearly all their coordinates
near 0 (point k is k/p in a prime p > k), so directions are nearly parallel and the estimate is biased.
"""

import functools
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from quell.perturb import Directions, Draw
from quell.types import Array


@dataclass(frozen=True, kw_only=True)
class Qmc(Directions):
    """Directions from the Halton sequence."""

    name: ClassVar[str] = "qmc"
    independent: ClassVar[bool] = False
    shift: bool = False
    """Shift the points at random every iteration, which makes QMC unbiased."""

    @property
    def fresh(self) -> bool:  # type: ignore[override]
        """Unshifted, an iteration takes the points behind the last one's."""
        return self.shift

    def plus(self, draw: Draw, pair: int) -> Array:
        from scipy.special import ndtri

        point = halton(draw.iteration * draw.pairs + pair + 1, draw.dim)  # point 0 is the origin, at -infinity
        if self.shift:
            point = (point + draw.generator().random(draw.dim)) % 1.0
        tiny = 2.0**-53  # a shifted coordinate can land on 0
        return np.asarray(ndtri(np.clip(point, tiny, 1 - tiny)).astype(np.float32))


def halton(index: int, dim: int) -> Array:
    """Point `index` of the Halton sequence: coordinate j is the radical inverse of `index` in the j-th prime."""
    base = primes(dim).astype(np.float64)
    remaining = np.full(dim, index, np.int64)
    scale, point = 1 / base, np.zeros(dim)
    while remaining.any():
        remaining, digit = np.divmod(remaining, primes(dim))
        point += digit * scale
        scale /= base
    return point


@functools.lru_cache(maxsize=2)
def primes(count: int) -> Array:
    """The first `count` primes (sieve of Eratosthenes up to the classical bound n (ln n + ln ln n))."""
    bound = 15 if count < 6 else int(count * (np.log(count) + np.log(np.log(count)))) + 1
    sieve = np.ones(bound + 1, bool)
    sieve[:2] = False
    for i in range(2, int(bound**0.5) + 1):
        if sieve[i]:
            sieve[i * i :: i] = False
    return np.flatnonzero(sieve)[:count]


DIRECTIONS = [Qmc]
