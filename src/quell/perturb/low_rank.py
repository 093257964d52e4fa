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
from typing import Annotated, Any, ClassVar

import numpy as np

from quell.perturb import Directions, Draw, sigma_of
from quell.policy.network import Policy
from quell.registry import SIZE
from quell.types import Array, Factored, Shape, namespace

TOGETHER = 64  # pairs whose factors are held at once

Part = tuple[Array, Array] | Array  # of a weight matrix: A [m, r] and B' [r, n] / sqrt(r); of anything else: eps


@dataclass(frozen=True, kw_only=True)
class LowRank(Directions):
    """A low-rank perturbation A B' of each weight matrix."""

    name: ClassVar[str] = "low-rank"
    factored: ClassVar[bool] = True
    biased: ClassVar[bool] = True
    traceable: ClassVar[bool] = True
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

    def several(self, draw: Draw, pairs: Sequence[int] | Array) -> dict[str, Part]:
        """eps_plus of some pairs, these in front."""
        if not isinstance(draw.seed, int):
            import jax

            found: dict[str, Part] = jax.vmap(lambda pair: self.drawn(draw, pair))(pairs)
            return found
        each = [self.drawn(draw, int(pair)) for pair in pairs]

        def together(name: str) -> Part:
            parts = [one[name] for one in each]
            if not isinstance(parts[0], tuple):
                return np.stack(parts)
            left, right = (np.stack(side) for side in zip(*parts, strict=True))
            return left, right

        return {name: together(name) for name in each[0]}

    def plus(self, draw: Draw, pair: int) -> Array:
        parts = [part[0] @ part[1] if isinstance(part, tuple) else part for part in self.drawn(draw, pair).values()]
        found: Array = namespace(parts[0]).concatenate([part.ravel() for part in parts])
        return found

    def numbers(self, policy: Policy) -> int:
        return sum(self.rank * sum(s) if len(s) == 2 else math.prod(s) for _, s in policy.layout.values())

    def members(
        self, theta: Array, draw: Draw, chosen: Sequence[tuple[int, int]], shape: Shape | None
    ) -> Array | Factored:
        if not draw.layout:  # a custom network, whose product with a factor is unknown
            return super().members(theta, draw, chosen, shape)
        pairs, signs = np.array(chosen).T
        return self.factors(theta, draw, pairs, signs, shape)

    def factors(self, theta: Array, draw: Draw, pairs: Array, signs: Array, shape: Shape | None) -> Factored:
        """`members`, given as arrays."""
        xp = namespace(theta)
        if xp is np and not signs.any():
            return Factored(theta, {}, {})
        times = signs.astype(np.float32) * xp.float32(sigma_of(self, shape))
        own: dict[str, Array] = {}
        factors: dict[str, tuple[Array, Array]] = {}
        parts = self.several(draw, pairs)
        for name, start, size in draw.layout:
            part = parts[name]
            if isinstance(part, tuple):
                factors[name] = part[0] * times[:, None, None], part[1]
            else:
                own[name] = theta[start : start + size[0]] + times[:, None] * part
        return Factored(theta, own, factors)

    def combine(self, draw: Draw, weights: Array, shape: Shape | None = None) -> tuple[Array, Array]:
        """Matrix by matrix, one product of the factors of so many pairs at a time."""
        xp, count = namespace(weights), len(weights)
        together = min(TOGETHER, count)
        times = (weights[:, 0] - weights[:, 1]).astype(np.float32)
        total, squares = xp.zeros(draw.dim, np.float32), xp.zeros(())
        if xp is np:
            for start in range(0, count, together):
                pairs = np.arange(start, min(start + together, count))
                more, square = self._weighted(draw, pairs, times[pairs])
                total, squares = total + more, squares + square
            return total, squares
        import jax

        behind = -count % together  # pairs again that weigh nothing
        groups = xp.arange(count + behind).reshape(-1, together) % count, xp.pad(times, (0, behind))

        def add(sums: Any, group: Any) -> tuple[Any, None]:
            more = self._weighted(draw, *group)
            return (sums[0] + more[0], sums[1] + more[1]), None

        found: tuple[Array, Array] = jax.lax.scan(add, (total, squares), (groups[0], groups[1].reshape(-1, together)))[
            0
        ]
        return found

    def _weighted(self, draw: Draw, pairs: Array, times: Array) -> tuple[Array, Any]:
        """(sum_i t_i eps_i [d], sum_i t_i^2 |eps_i|^2) of some pairs."""
        xp, sums, norms = namespace(times), [], 0.0
        parts = self.several(draw, pairs)
        for name in [one[0] for one in draw.layout] or list(parts):  # what JAX mapped has another order
            part = parts[name]
            norms = norms + _squares(xp, part)
            if isinstance(part, tuple):
                left, right = part
                left = (times[:, None, None] * left).swapaxes(0, 1).reshape(left.shape[1], -1)
                sums.append(left @ right.reshape(-1, right.shape[-1]))
            else:
                sums.append((times[:, None] * part).sum(axis=0))
        wide = times.astype(np.float64) if xp is np else times
        return xp.concatenate([part.ravel() for part in sums]), xp.vdot(xp.square(wide), norms)


def _squares(xp: Any, part: Part) -> Any:
    """|eps|^2 of several pairs; of factors |A B'|^2 = sum (A'A * B'B)."""
    wide = np.float64 if xp is np else np.float32
    if not isinstance(part, tuple):
        return xp.square(part.astype(wide)).sum(axis=1)
    left, right = (xp.asarray(side, wide) for side in part)
    return ((left.swapaxes(1, 2) @ left) * (right @ right.swapaxes(1, 2))).sum(axis=(1, 2))


DIRECTIONS = [LowRank]
