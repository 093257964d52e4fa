"""Directions in parameter space: gaussian, orthogonal, gcmc and qmc, always in antithetic pairs.

A pair is regenerated from its key (seed, iteration, pair) wherever it is needed, so no process ever holds them all.
Orthogonal directions are the exception: they are drawn jointly per iteration, keyed by (seed, iteration).
Every kind has standard normal marginals: E[eps eps'] = I for each member of each pair.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from quell.keys import Purpose, generator

Array = NDArray[Any]
Kind = Literal["gaussian", "orthogonal", "gcmc", "qmc"]


@dataclass(frozen=True)
class Directions:
    """How the N pairs of every iteration are drawn."""

    kind: Kind
    seed: int
    pairs: int
    dim: int
    qmc_shift: bool = True
    """Shift the Halton points by a fresh random vector (modulo 1) every iteration, which makes QMC unbiased."""

    @property
    def symmetric(self) -> bool:
        """Whether the second member of a pair is exactly the negative of the first."""
        return self.kind != "gcmc"

    def pair(self, iteration: int, pair: int) -> tuple[Array, Array]:
        """(eps_plus, eps_minus), float32 [d]; the first is read-only."""
        eps = _plus(self, iteration, pair)
        if self.kind == "gcmc":
            return eps, -eps * np.float32(coupled_length_ratio(eps))
        return eps, -eps

    def member(self, iteration: int, pair: int, sign: int) -> Array:
        """The direction of one member, sign +1 or -1."""
        return self.pair(iteration, pair)[0 if sign > 0 else 1]


@functools.lru_cache(maxsize=1)  # the members of a pair come one after the other
def _plus(directions: Directions, iteration: int, pair: int) -> Array:
    seed, pairs, dim = directions.seed, directions.pairs, directions.dim
    if directions.kind == "orthogonal":
        return _orthogonal(seed, iteration, pairs, dim)[pair]
    if directions.kind == "qmc":
        eps = _qmc(seed, iteration, iteration * pairs + pair, dim, directions.qmc_shift)
    else:
        eps = generator(seed, Purpose.DIRECTION, iteration, pair).standard_normal(dim, dtype=np.float32)
    eps.flags.writeable = False
    return eps


@functools.lru_cache(maxsize=1)
def _orthogonal(seed: int, iteration: int, pairs: int, dim: int) -> Array:
    """Rows: mutually orthogonal within blocks of d, each marginally N(0, I).

    The Q factor of a Gaussian matrix, with R's diagonal made positive, is uniform on orthonormal frames; scaling its
    columns by independent chi_d lengths restores the Gaussian marginal (Choromanski et al., 2018).
    """
    rows = np.empty((pairs, dim), np.float32)
    for block, start in enumerate(range(0, pairs, dim)):
        count = min(dim, pairs - start)
        rng = generator(seed, Purpose.DIRECTION, iteration, block)
        q, r = np.linalg.qr(rng.standard_normal((dim, count)))
        lengths = np.sqrt(rng.chisquare(dim, count))
        rows[start : start + count] = (q * (np.sign(np.diag(r)) * lengths)).T
    rows.flags.writeable = False
    return rows


def coupled_length_ratio(eps: Array) -> float:
    """|eps_minus| / |eps_plus| of a GCMC pair: F(|eps_plus|) + F(|eps_minus|) = 1, F the CDF of chi_d.

    With incomplete gamma functions P, Q: F(l) = P(d/2, l^2/2), so the partner solves P(d/2, l'^2/2) = Q(d/2, l^2/2).
    """
    from scipy.special import gammaincc, gammaincinv

    half, square = eps.size / 2, float(np.square(eps, dtype=np.float64).sum())
    return float(np.sqrt(gammaincinv(half, gammaincc(half, square / 2)) * 2 / square))


def _qmc(seed: int, iteration: int, index: int, dim: int, shift: bool) -> Array:
    """Inverse normal CDF of a Halton point; the sequence goes on from iteration to iteration."""
    from scipy.special import ndtri

    point = halton(index + 1, dim)  # point 0 is the origin, whose inverse CDF is -inf
    if shift:
        point = (point + generator(seed, Purpose.DIRECTION, iteration).random(dim)) % 1.0
    tiny = 2.0**-53  # a shifted coordinate can land on 0
    return ndtri(np.clip(point, tiny, 1 - tiny)).astype(np.float32)


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
def primes(count: int) -> NDArray[np.int64]:
    """The first `count` primes (sieve of Eratosthenes up to the classical bound n (ln n + ln ln n))."""
    bound = 15 if count < 6 else int(count * (np.log(count) + np.log(np.log(count)))) + 1
    sieve = np.ones(bound + 1, bool)
    sieve[:2] = False
    for i in range(2, int(bound**0.5) + 1):
        if sieve[i]:
            sieve[i * i :: i] = False
    return np.flatnonzero(sieve)[:count]
