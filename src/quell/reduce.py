"""Sums over pairs whose rounding does not depend on who computed which part.

Floating-point addition is not associative, so the order is fixed: pairs are cut into at most 64 consecutive blocks, a
block is summed in pair order, and blocks are added along a binary tree. Any number of threads or machines that compute
whole blocks get the same bits.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Sums = dict[str, NDArray[Any]]
"""Named additive quantities: two of them add name by name."""

LEAVES = 64


def blocks(pairs: int) -> list[range]:
    """Consecutive pairs that are summed together."""
    size = -(-pairs // LEAVES)
    return [range(start, min(start + size, pairs)) for start in range(0, pairs, size)]


def tree_sum(parts: Iterable[Sums]) -> Sums:
    """Sum along a binary tree over the list: neighbours first, then neighbouring sums."""
    level = list(parts)
    while len(level) > 1:
        odd = level[-1:] if len(level) % 2 else []
        level = [{k: a[k] + b[k] for k in a} for a, b in zip(level[::2], level[1::2], strict=False)] + odd
    return level[0]


def accumulate(sums: Sums, **terms: Any) -> None:
    """Add terms in place, in float64; the first term makes the entry."""
    for name, term in terms.items():
        if name in sums:
            sums[name] += term
        else:
            sums[name] = np.array(term, np.float64)
