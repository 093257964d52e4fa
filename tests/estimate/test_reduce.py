"""Sums whose rounding does not depend on who computed which part."""

from __future__ import annotations

import itertools

import numpy as np
from conftest import tree_sum

from quell.estimate.policy_gradient import padded_length
from quell.estimate.reduce import LEAVES, Tree, blocks, shards

RNG = np.random.default_rng(0)


def test_blocks_and_tree_cover_every_pair_once() -> None:
    for pairs in (1, 2, 5, 64, 65, 300):
        covered = [pair for block in blocks(pairs) for pair in block]
        assert covered == list(range(pairs))
        assert len(blocks(pairs)) <= LEAVES
        parts = [{"x": RNG.standard_normal(3)} for _ in blocks(pairs)]
        tree = Tree(len(parts))
        for leaf in RNG.permutation(len(parts)):  # whatever order they arrive in
            tree.add((0, int(leaf)), {"x": parts[leaf]["x"].copy()})
        assert (tree.total["x"] == tree_sum(parts)["x"]).all()


def test_padding_depends_on_the_pair_alone() -> None:
    assert [padded_length(s, 1000) for s in (1, 64, 65, 500, 513, 1000)] == [64, 64, 128, 512, 1000, 1000]
    assert padded_length(5, 30) == 30


def test_any_split_of_the_tree_gives_the_same_bits() -> None:
    rng = np.random.default_rng(0)
    for leaves, workers in itertools.product((1, 2, 5, 7, 64, 100), (1, 2, 3, 8)):
        parts = [{"x": rng.standard_normal(3) * 10.0 ** rng.integers(-8, 8)} for _ in range(leaves)]
        whole = Tree(leaves)
        for shard in reversed(shards(leaves, workers)):
            held = Tree(leaves)
            for leaf in shard:
                held.add((0, leaf), {"x": parts[leaf]["x"].copy()})
            assert len(held.nodes) <= max(1, 2 * np.log2(leaves))
            for node, sums in held.nodes.items():
                whole.add(node, sums)
        assert (whole.total["x"] == tree_sum(parts)["x"]).all()
