"""Sums over pairs whose rounding does not depend on who computed which part.

Floating-point addition is not associative, so the order is fixed: pairs are cut into at most 1024 consecutive blocks, a
block is summed in pair order, and blocks are added along a binary tree. Any number of threads or machines that compute
whole blocks get the same bits, and whoever holds whole subtrees may add them up before sending them on.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

Sums = dict[str, NDArray[Any]]
"""Named additive quantities: two of them add name by name."""
Node = tuple[int, int]
"""(level, index): the sum of leaves index * 2^level to (index + 1) * 2^level - 1."""

LEAVES = 1024  # also the largest number of workers that can share an iteration


def blocks(pairs: int) -> list[range]:
    """Consecutive pairs that are summed together."""
    size = -(-pairs // LEAVES)
    return [range(start, min(start + size, pairs)) for start in range(0, pairs, size)]


def shards(leaves: int, workers: int) -> list[range]:
    """Consecutive leaves for each of at most `workers`, as equal as can be."""
    workers = max(1, min(leaves, workers))
    edges = [leaves * k // workers for k in range(workers + 1)]
    return [range(*ends) for ends in itertools.pairwise(edges)]


class Tree:
    """Sums of some of the tree's leaves, merged as far as complete subtrees allow.

    A range of leaves is held as at most 2 log2(leaves) nodes, and all of them as one: the total.
    """

    def __init__(self, leaves: int) -> None:
        self.leaves = leaves
        self.nodes: dict[Node, Sums] = {}

    def add(self, node: Node, sums: Sums) -> None:
        """Put a node in place and merge upwards while its sibling is there."""
        level, index = node
        while (width := -(-self.leaves >> level)) > 1:  # nodes on this level
            sibling = index ^ 1
            if sibling < width:  # the last of an odd number goes up as it is
                if (level, sibling) not in self.nodes:
                    break
                other = self.nodes.pop((level, sibling))
                left, right = (sums, other) if index < sibling else (other, sums)
                sums = {name: left[name] + right[name] for name in left}
            level, index = level + 1, index // 2
        self.nodes[level, index] = sums

    @property
    def total(self) -> Sums:
        """The sum of all leaves, once all are there."""
        (total,) = self.nodes.values()
        return total


def accumulate(sums: Sums, **terms: Any) -> None:
    """Add terms in place, in float64; the first term makes the entry."""
    for name, term in terms.items():
        if name in sums:
            sums[name] += term
        else:
            sums[name] = np.array(term, np.float64)
