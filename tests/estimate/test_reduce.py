"""Sums whose rounding does not depend on who computed which part."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
from conftest import Collector, tree_sum

import quell
from quell.estimate import Needs
from quell.estimate.control_variate import ControlVariate
from quell.estimate.policy_gradient import padded_length
from quell.estimate.reduce import LARGE, LEAVES, TOGETHER, Tree, _alike, blocks, shards
from quell.policy import Policy
from quell.policy.fisher import Metric, factors
from quell.presets import NATURAL_CV

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


def test_pairs_computed_together_have_one_padded_length() -> None:
    steps = RNG.integers(1, 1500, size=2 * 700) // RNG.integers(1, 40, size=2 * 700) + 1
    cut = blocks(700)
    longest = [padded_length(int(steps[2 * pair : 2 * pair + 2].max()), TOGETHER) for pair in range(700)]
    groups = list(_alike(steps, cut, range(100, 650), 1000))
    assert sorted({leaf for group in groups for leaf in group}) == list(range(100, 650))
    for group in groups:
        (length,) = {longest[leaf] for leaf in group}
        assert len(group) == TOGETHER // length, "filled up with its last"
        assert group == sorted(group)
    assert list(_alike(steps, cut, range(700), LARGE)) == [[leaf] for leaf in range(700)], "large policies alone"


def test_together_or_one_after_the_other_to_the_last_bit() -> None:
    """Episodes of hoppers that fall after ten to a hundred steps, one of them with a reward that is none."""
    alone = type("Alone", (ControlVariate,), {"needs": Needs(perturbed=True, trajectories=True)})
    data = Collector(quell.tasks.get("hopper", horizon=300), Policy(11, 3, hidden=(8, 8)), pairs=30)
    theta = data.theta()
    batch, estimator = data.batch(theta), NATURAL_CV
    batch.rollouts.rewards[12, 3] = np.nan
    assert batch.rollouts.trajectories is not None
    metric = Metric.of(data.policy, factors(data.policy)(theta, batch.rollouts.trajectories.obs[:, 0]))
    state = data.estimate(estimator, data.batch(theta, 1)).state
    batch = dataclasses.replace(batch, metric=metric)
    assert len({padded_length(int(steps), 300) for steps in batch.rollouts.steps.reshape(-1, 2).max(axis=1)}) > 1
    together, each = (data.sums(one, batch, state) for one in (estimator, alone(**vars(NATURAL_CV))))
    assert estimator.needs.together
    assert together.keys() == each.keys()
    assert all((together[name] == each[name]).all() for name in each)
