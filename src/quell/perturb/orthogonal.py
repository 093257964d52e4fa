"""ORTHO: mutually orthogonal directions, each marginally N(0, I) (Choromanski et al., 2018).

They are drawn jointly, keyed by (seed, iteration), in blocks of d where there are more pairs than parameters.
"""

import functools
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from quell.perturb import Directions, Draw
from quell.types import Array


@dataclass(frozen=True, kw_only=True)
class Orthogonal(Directions):
    """eps_i orthogonal to one another within blocks of d, with chi_d distributed lengths."""

    name: ClassVar[str] = "orthogonal"
    independent: ClassVar[bool] = False

    def plus(self, draw: Draw, pair: int) -> Array:
        return orthogonal_rows(draw)[pair].copy()


@functools.lru_cache(maxsize=1)
def orthogonal_rows(draw: Draw) -> Array:
    """All directions of an iteration, [pairs, d].

    The Q factor of a Gaussian matrix, with R's diagonal made positive, is uniform on orthonormal frames; scaling its
    columns by independent chi_d lengths restores the Gaussian marginal.
    """
    rows = np.empty((draw.pairs, draw.dim), np.float32)
    for block, start in enumerate(range(0, draw.pairs, draw.dim)):
        count = min(draw.dim, draw.pairs - start)
        rng = draw.generator(block)
        q, r = np.linalg.qr(rng.standard_normal((draw.dim, count)))
        lengths = np.sqrt(rng.chisquare(draw.dim, count))
        rows[start : start + count] = (q * (np.sign(np.diag(r)) * lengths)).T
    return rows


DIRECTIONS = [Orthogonal]
