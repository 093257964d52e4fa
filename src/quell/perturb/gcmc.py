"""GCMC: geometrically coupled pairs, opposite directions whose lengths are coupled (Rowland et al., 2018).

    eps_minus = -eps_plus * l' / l,     F(l) + F(l') = 1,     F the CDF of chi_d

A long member is paired with a short one, and each is N(0, I) by itself.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from quell.perturb.gaussian import Gaussian
from quell.types import Array


@dataclass(frozen=True, kw_only=True)
class Gcmc(Gaussian):
    """Independent pairs, whose two members are opposite and have coupled lengths."""

    name: ClassVar[str] = "gcmc"
    traceable: ClassVar[bool] = False
    symmetric: ClassVar[bool] = False

    def minus(self, eps: Array) -> Array:
        return -eps * np.float32(coupled_length_ratio(eps))


def coupled_length_ratio(eps: Array) -> float:
    """|eps_minus| / |eps_plus|. With incomplete gamma functions P, Q: F(l) = P(d/2, l^2/2), so the partner solves
    P(d/2, l'^2/2) = Q(d/2, l^2/2)."""
    from scipy.special import gammaincc, gammaincinv

    half, square = eps.size / 2, float(np.square(eps, dtype=np.float64).sum())
    return float(np.sqrt(gammaincinv(half, gammaincc(half, square / 2)) * 2 / square))


DIRECTIONS = [Gcmc]
