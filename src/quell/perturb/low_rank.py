"""Low-rank directions: A B' / sqrt(rank) for each weight matrix, everything else standard normal.

    eps_W = A B' / sqrt(r),    A [m, r], B [n, r] standard normal:    E[eps] = 0, E[eps eps'] = 1

A member takes (m + n) r numbers instead of m n, and its network acts factor by factor, h W + sigma (h A) B'. ES needs
eps in one place, the weighted sum of all pairs, which is formed matrix by matrix as one product [m, N r] [N r, n]: no
pair ever has a vector of d numbers. (Estimators that need one, such as a control variate, still get it.)

**Biased.** eps is not Gaussian, so J eps / sigma is not the gradient of the smoothed objective. With g the gradient at
theta it is E[eps eps'] g + O(sigma^2) = g + O(sigma^2): right to leading order, and its error is of the order that
smoothing itself has. As the rank grows eps becomes Gaussian, and the bias falls like 1/r.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from quell.perturb import Directions, Draw, sigma_of
from quell.policy.network import Policy
from quell.registry import SIZE
from quell.types import Array, Factored, Shape

TOGETHER = 64  # pairs whose factors are held at once

Part = tuple[Array, Array] | Array  # of a weight matrix: A [m, r] and B' [r, n] / sqrt(r); of anything else: eps


@dataclass(frozen=True, kw_only=True)
class LowRank(Directions):
    """A B' per weight matrix."""

    name: ClassVar[str] = "low-rank"
    factored: ClassVar[bool] = True
    biased: ClassVar[bool] = True
    rank: Annotated[int, SIZE] = 1
    """Rank of a weight matrix's perturbation."""

    def drawn(self, draw: Draw, pair: int) -> dict[str, Part]:
        """eps_plus of a pair, by the parts of the policy in their order."""
        rng = draw.generator(pair)

        def part(shape: tuple[int, ...]) -> Part:
            if len(shape) != 2:
                return rng.standard_normal(shape, dtype=np.float32)
            left, right = (rng.standard_normal((size, self.rank), dtype=np.float32) for size in shape)
            return left, right.T / np.float32(np.sqrt(self.rank))

        return {name: part(shape) for name, _, shape in draw.layout or (("theta", 0, (draw.dim,)),)}

    def plus(self, draw: Draw, pair: int) -> Array:
        parts = self.drawn(draw, pair).values()
        return np.concatenate([np.ravel(part[0] @ part[1] if isinstance(part, tuple) else part) for part in parts])

    def numbers(self, policy: Policy) -> int:
        return sum(self.rank * sum(s) if len(s) == 2 else math.prod(s) for _, s in policy.layout.values())

    def members(
        self, theta: Array, draw: Draw, chosen: Sequence[tuple[int, int]], shape: Shape | None
    ) -> Array | Factored:
        if not draw.layout:  # a custom network, whose product with a factor is unknown
            return super().members(theta, draw, chosen, shape)
        signs = [sign for _, sign in chosen]
        if not any(signs):
            return Factored(theta, {}, {})
        times = np.array(signs, np.float32) * np.float32(sigma_of(self, shape))
        drawn = [self.drawn(draw, pair) for pair, _ in chosen]
        own: dict[str, Array] = {}
        factors: dict[str, tuple[Array, Array]] = {}
        for name, start, size in draw.layout:
            parts = [one[name] for one in drawn]
            if len(size) == 2:
                left, right = (np.stack(side) for side in zip(*parts, strict=True))
                factors[name] = left * times[:, None, None], right
            else:
                own[name] = theta[start : start + len(parts[0])] + times[:, None] * np.stack(parts)
        return Factored(theta, own, factors)

    def combine(self, draw: Draw, weights: Array, shape: Shape | None = None) -> tuple[Array, Array]:
        """Matrix by matrix, one product of the factors of so many pairs at a time."""
        total, squares = np.zeros(draw.dim, np.float32), np.zeros(())
        for start in range(0, len(weights), TOGETHER):
            times = (weights[start : start + TOGETHER, 0] - weights[start : start + TOGETHER, 1]).astype(np.float32)
            drawn = [self.drawn(draw, start + k) for k in range(len(times))]
            for name, begin, size in draw.layout or (("theta", 0, (draw.dim,)),):
                where, parts = total[begin : begin + math.prod(size)].reshape(size), [one[name] for one in drawn]
                if len(size) == 2:
                    left = np.concatenate([t * part[0] for t, part in zip(times, parts, strict=True)], axis=1)
                    where += left @ np.concatenate([part[1] for part in parts])
                else:
                    where += sum(t * part for t, part in zip(times, parts, strict=True))
            norms = [sum(_square(part) for part in one.values()) for one in drawn]
            squares = squares + np.vdot(np.square(times, dtype=np.float64), norms)
        return total, squares


def _square(part: Part) -> float:
    """|eps|^2; of factors |A B'|^2 = sum (A'A * B'B)."""
    if not isinstance(part, tuple):
        return float(np.vdot(part, part))
    left, right = (side.astype(np.float64) for side in part)
    return float(((left.T @ left) * (right @ right.T)).sum())


DIRECTIONS = [LowRank]
