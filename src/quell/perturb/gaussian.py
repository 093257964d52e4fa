"""Independent Gaussian directions: eps_i ~ N(0, I), antithetic (Salimans et al., 2017)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from quell.perturb import Directions, Draw
from quell.types import Array


@dataclass(frozen=True, kw_only=True)
class Gaussian(Directions):
    """eps_i ~ N(0, I), independent."""

    name: ClassVar[str] = "gaussian"
    traceable: ClassVar[bool] = True

    def plus(self, draw: Draw, pair: int) -> Array:
        return draw.generator(pair).standard_normal(draw.dim, dtype=np.float32)


DIRECTIONS = [Gaussian]
