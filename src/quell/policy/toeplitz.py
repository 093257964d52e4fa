"""Networks with Toeplitz weight matrices: W_ij = t_(i - j), inputs + outputs - 1 numbers in place of their product.

They are the compact policies of Choromanski et al. (2018), with which ES learned to walk with a few hundred parameters:
two layers of 32 between 17 observations and 6 actions have 225 of them, where full matrices have 1,830.
"""

import functools
import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from quell.policy.network import Policy
from quell.types import Array


@dataclass(frozen=True)
class ToeplitzNetwork(Policy):
    """A Gaussian policy whose layers are W_i' h + b_i, W_i a Toeplitz matrix."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Of the layers, from the observations to the actions."""
        return self.obs_size, *self.hidden, self.action_size

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        named = [{f"t{i}": (n + m - 1,), f"b{i}": (m,)} for i, (n, m) in enumerate(_couples(self.sizes))]
        return {name: shape for layer in named for name, shape in layer.items()}

    def output(self, xp: Any, parts: dict[str, Any], obs: Any) -> Any:
        h, last = obs, len(self.sizes) - 2
        for i, (n, m) in enumerate(_couples(self.sizes)):
            h = h @ parts[f"t{i}"][diagonals(n, m)] + parts[f"b{i}"]
            if i < last:
                h = xp.tanh(h) if self.activation == "tanh" else xp.maximum(h, 0)
        return h

    def init(self, rng: np.random.Generator) -> Array:
        """Diagonals as full matrices have their weights: N(0, 1 / inputs), the last layer's times output_scale."""
        theta = super().init(rng)
        parts, last = self.unflatten(theta), len(self.sizes) - 2
        for i, (n, _) in enumerate(_couples(self.sizes)):
            scale = self.output_scale if i == last else 1.0
            parts[f"t{i}"][:] = scale * rng.standard_normal(parts[f"t{i}"].shape) / np.sqrt(n)
        return theta


def _couples(sizes: tuple[int, ...]) -> list[tuple[int, int]]:
    return list(itertools.pairwise(sizes))


@functools.lru_cache(maxsize=64)
def diagonals(inputs: int, outputs: int) -> Array:
    """Which number stands where in a Toeplitz matrix [inputs, outputs]."""
    return np.arange(inputs)[:, None] - np.arange(outputs) + outputs - 1
