"""What every registered estimator keeps to."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from conftest import Collector
from linear_gaussian import POLICY, THETA, LinearGaussian, smoothed_gradient
from strategies import (
    SIGMA,
    declared,
    directions_for,
    estimators,
    has_critic,
    label,
    purest,
    sampled,
    sees_differences_alone,
    weights_at_first,
)
from troubled import Troubled

import quell.estimate.reduce as reduce_module
from quell import registry
from quell.estimate.critic.network import NetworkCritic
from quell.estimate.reduce import COLLECTED, Tree, blocks, shards, sum_by_loop, sum_by_vmap
from quell.measure.rows import unit
from quell.policy import Policy
from quell.policy.likelihood import weighted_scores
from quell.types import Array, Batch, State, Sums

ESTIMATORS = estimators()
DECLARED = list(dict.fromkeys([*declared(), *(purest(e) for e in ESTIMATORS if not purest(e).biased)]))
everyone = pytest.mark.parametrize("estimator", ESTIMATORS, ids=label)
every_choice = pytest.mark.parametrize("estimator", sampled(ESTIMATORS), ids=label)
"""Everyone in `make test-all`; for what takes long, so many in `make test` that every choice is among them."""


def collector(estimator: Any, pairs: int = 6, **settings: Any) -> Collector:
    return Collector(LinearGaussian(), POLICY, pairs=pairs, directions=directions_for(estimator), **settings)


def changed(batch: Batch, *, rewards: Array | None = None, obs: Array | None = None) -> Batch:
    """The batch with other rewards or observations."""
    rollouts, paths = batch.rollouts, batch.rollouts.trajectories
    assert paths is not None
    if obs is not None:
        rollouts = dataclasses.replace(rollouts, trajectories=dataclasses.replace(paths, obs=obs))
    if rewards is not None:
        rollouts = dataclasses.replace(rollouts, rewards=rewards)
    return dataclasses.replace(batch, rollouts=rollouts)


def sum_once_by_loop(*args: Any) -> Sums:
    (sums,) = sum_by_loop(*args).values()
    return sums


def learned(estimator: Any, data: Collector, batches: int = 2) -> State:
    """The state after some batches, so that coefficients and value functions are at work."""
    state: State = estimator.init(data.problem)
    for iteration in range(100, 100 + batches):
        state = data.estimate(estimator, data.batch(THETA, iteration), state).state
    return state


@everyone
class TestBadNumbers:
    """What goes wrong in a batch never becomes a NaN in the gradient."""

    def test_a_nan_reward_costs_its_pair_only(self, estimator: Any) -> None:
        """The gradient is what the other pairs alone would give, whatever else the bad pair's episodes hold."""
        data = collector(estimator)
        batch = data.batch(THETA)
        state = learned(estimator, data)
        paths = batch.rollouts.trajectories
        assert paths is not None
        rewards = batch.rollouts.rewards.copy()
        rewards[5, 2] = np.nan  # the second member of pair 2
        estimated = data.estimate(estimator, changed(batch, rewards=rewards), state)
        assert np.isfinite(estimated.gradient).all()
        assert np.linalg.norm(estimated.gradient) > 0
        for worse in (7.0, np.inf, 1e300):
            rewards, obs = rewards.copy(), paths.obs.copy()
            rewards[4:6] = worse
            rewards[5, 2] = np.nan
            obs[4:6] = np.nan
            again = data.estimate(estimator, changed(batch, rewards=rewards, obs=obs), state)
            assert (again.gradient == estimated.gradient).all()
            assert all(np.array_equal(again.state[k], v, equal_nan=True) for k, v in estimated.state.items())

    def test_equal_returns_give_a_zero_gradient(self, estimator: Any) -> None:
        """Unless a critic sees more than returns; also where they are equal but for the order in which they are
        summed."""
        data = collector(estimator)
        batch = data.batch(THETA)
        rewards = np.full_like(batch.rollouts.rewards, 2.0)
        shuffled = np.random.default_rng(0).permuted(np.resize([0.1, 0.2, 0.7], rewards.shape), axis=1)
        assert np.ptp(shuffled.sum(axis=1)) > 0, "a test of rounding needs some"
        for same in (rewards, shuffled):
            gradient = data.estimate(estimator, changed(batch, rewards=same)).gradient
            assert np.isfinite(gradient).all()
            moves = has_critic(estimator) and weights_at_first(estimator) != 0
            assert np.any(gradient) == moves

    @pytest.mark.parametrize("factor", [1e38, 1e150, 1e300])
    def test_huge_returns(self, estimator: Any, factor: float) -> None:
        data = collector(estimator)
        batch = data.batch(THETA)
        state = learned(estimator, data)
        estimated = data.estimate(estimator, changed(batch, rewards=batch.rollouts.rewards * factor), state)
        assert np.isfinite(estimated.gradient).all()
        assert all(np.isfinite(value).all() for name, value in estimated.state.items() if name != "last")

    @pytest.mark.parametrize("value", [np.nan, 1e38, -1e38])
    def test_wild_observations(self, estimator: Any, value: float) -> None:
        """Of a pair whose rewards are sound: plain ES does not look; others fall back to it, or show no usable number.

        A gradient that is not finite is skipped and counted by the trainer; the estimator's memory stays sound.
        """
        data = collector(estimator)
        batch = data.batch(THETA)
        state = learned(estimator, data)
        paths = batch.rollouts.trajectories
        assert paths is not None
        obs = paths.obs.copy()
        obs[4:6] = value
        estimated = data.estimate(estimator, changed(batch, obs=obs), state)
        assert all(np.isfinite(value).all() for name, value in estimated.state.items() if name != "last")
        if estimator.needs.perturbed:
            assert np.isfinite(estimated.gradient).all()

    def test_all_pairs_bad(self, estimator: Any) -> None:
        data = collector(estimator)
        batch = data.batch(THETA)
        nothing = changed(batch, rewards=np.full_like(batch.rollouts.rewards, np.nan))
        assert (data.estimate(estimator, nothing).gradient == 0).all()

    def test_one_pair_is_enough_for_a_gradient(self, estimator: Any) -> None:
        data = collector(estimator, pairs=1)
        assert np.isfinite(data.estimate(estimator, data.batch(THETA)).gradient).all()


@everyone
def test_a_constant_added_to_all_rewards_decides_nothing(estimator: Any) -> None:
    """Where all episodes have the same length, as here, it is the same task, so the same batches move theta.

    Seven batches: the same reward on every step, twice; rewards that differ; and again the same on every step, as much
    as was ever earned, less than that, and as much again; rewards that differ. Without a critic, theta moves where
    returns differ. With one it moves every time, though less where there is nothing but the best return to be seen
    (but not along a column of a control variate whose coefficient is still 0).

    Gradients are the same too, to rounding, where nothing but differences between episodes enters them: returns, ranks,
    and reward-to-go less that of the others at the same step. Reward-to-go as it is feels a constant (in expectation it
    cancels), and a critic has to learn the constant first; of those, only whether they move is asked.
    """
    data = collector(estimator, pairs=4)
    batches = [data.batch(THETA, iteration) for iteration in range(7)]
    best = np.ceil(max(batches[number].rollouts.returns.max() for number in (2, 6)) / 6) + 1
    flat = {0: -17.0, 1: -17.0, 3: best, 4: best - 1, 5: best}  # of every step
    found: dict[float, list[Array]] = {}
    for constant in (-1.0, 0.0, 1.0):
        state, found[constant] = estimator.init(data.problem), []
        for number, batch in enumerate(batches):
            rewards = np.full_like(batch.rollouts.rewards, flat.get(number, 0.0))
            rewards = (rewards if number in flat else batch.rollouts.rewards) + constant
            estimated = data.estimate(estimator, changed(batch, rewards=rewards), state)
            state = estimated.state
            found[constant].append(estimated.gradient.astype(np.float64) * estimated.caution.share)
    moves = {constant: [bool(np.any(one)) for one in gradients] for constant, gradients in found.items()}
    assert moves[-1] == moves[0] == moves[1]
    if not has_critic(estimator):
        assert moves[0] == [number not in flat for number in range(7)]
    elif weights_at_first(estimator):
        assert all(moves[0])
    if sees_differences_alone(estimator):
        for gradients in found.values():
            for one, other in zip(gradients, found[0.0], strict=True):
                assert np.linalg.norm(one - other) <= 1e-5 * np.linalg.norm(other)


def mean_gradient(estimator: Any, *, batches: int, pairs: int) -> tuple[Array, Array, Array, bool]:
    """(mean, standard error, exact value) along the exact gradient of the undiscounted return and across it [6], and
    whether a batch's own returns enter the unit of its rewards.

    Gradients are in units that were known before their batch: `unit`, where an estimator has one, is asked of the batch
    before. Critics learn little: what they predict does not matter here, and training takes long.
    """
    if has_critic(estimator):
        where = "columns.critic" if hasattr(estimator, "columns") else "critic"
        estimator = registry.replace(estimator, {where: NetworkCritic(updates=1)})
    data = collector(estimator, pairs=pairs, seed=11)
    state, last, found, own_unit = estimator.init(data.problem), data.batch(THETA, batches), [], False
    for iteration in range(batches):
        batch = data.batch(THETA, iteration)
        scale = unit(estimator, last, state)
        own_unit |= iteration > 0 and scale != unit(estimator, batch, state)
        estimated = data.estimate(estimator, batch, state)
        state, last = estimated.state, batch
        if iteration:  # at first there is no unit but the batch's own
            found.append(estimated.gradient.astype(np.float64) * scale)
    exact = smoothed_gradient(THETA, SIGMA if estimator.needs.perturbed else 0.0, 1.0, 6)
    along = exact / np.linalg.norm(exact)
    parts = np.array(found) @ np.vstack([along, np.linalg.svd(along[None])[2][1:]]).T
    error = parts.std(axis=0, ddof=1) / np.sqrt(len(parts))
    return parts.mean(axis=0), error, np.append(np.linalg.norm(exact), np.zeros(5)), own_unit


@pytest.mark.parametrize("estimator", sampled(DECLARED), ids=label)
def test_biased_is_declared_exactly_where_it_is_true(estimator: Any) -> None:
    """The mean of 300 estimates from 4 pairs each, learning all the while, against the closed form; both ways, so that
    neither a missing nor an idle declaration passes.

    Power: 4.5 standard errors are less than half of the gradient's length, and what is biased here is off by that or
    more, or says in what unit of its own batch it is. Only the choice of the best directions hardly shows on a task as
    smooth as this one.
    """
    mean, error, exact, own_unit = mean_gradient(estimator, batches=300, pairs=4)
    off = np.abs(mean - exact) > 4.5 * error
    if not estimator.biased:
        assert 4.5 * error.max() < 0.5 * exact[0]
        assert not off.any()
        assert not own_unit
    elif getattr(estimator, "top", 1.0) == 1.0:
        assert off.any() or own_unit


NEARLY = [e for e in ESTIMATORS if e.biased and (hasattr(e, "updates") or hasattr(e, "line_search"))]
"""What is in units of its own batch alone, once its gamma is 1: surrogates, which weigh steps by A_t, and TRPO."""


@pytest.mark.parametrize("estimator", sampled(NEARLY), ids=label)
def test_an_own_unit_hardly_turns_the_gradient(estimator: Any) -> None:
    """With 8 pairs the parts across the exact gradient are 0, but for 5% of the part along it, which is clearly there:
    more than 8 standard errors."""
    full = {name: 1.0 for name in ("gamma", "trace") if hasattr(estimator, name)}
    mean, error, _, _ = mean_gradient(dataclasses.replace(estimator, **full), batches=300, pairs=8)
    assert mean[0] > 8 * error[0], "it does not point uphill clearly enough for a test"
    assert np.abs(mean[1:] / error[1:]).max() < 4.5 + 0.05 * mean[0] / error[1:].min()


@everyone
def test_the_same_bits_for_one_two_and_three_shards(estimator: Any) -> None:
    """Shards see their own rows alone, sum whole blocks, and the tree is put together elsewhere."""
    data = Collector(Troubled(trouble="ends"), Policy(2, 2), pairs=7, directions=directions_for(estimator))
    theta = data.theta()
    batch = data.batch(theta)
    rows = estimator.prepare(data.problem, batch, estimator.init(data.problem))
    cut = blocks(batch.pairs)
    totals = []
    for workers in (1, 2, 3):
        tree = Tree(len(cut))
        for leaves in shards(len(cut), workers):
            pairs = range(cut[leaves[0]].start, cut[leaves[-1]].stop)
            nodes = sum_by_loop(estimator, data.problem, batch, rows.part(pairs), theta, leaves=leaves)
            for node, sums in nodes.items():
                tree.add(node, sums)
        totals.append(tree.total)
    for other in totals[1:]:
        assert other.keys() == totals[0].keys()
        assert all((other[name] == totals[0][name]).all() for name in other)


@contextmanager
def compilations() -> Iterator[list[str]]:
    """What JAX compiles meanwhile."""
    import jax

    compiled: list[str] = []

    def note(event: str, duration_secs: float, **_: str | int) -> None:
        if "backend_compile" in event:
            compiled.append(event)

    jax.monitoring.register_event_duration_secs_listener(note)
    try:
        yield compiled
    finally:
        jax.monitoring.unregister_event_duration_listener(note)


@pytest.mark.parametrize("estimator", sampled(ESTIMATORS), ids=label, scope="class")
class TestMap:
    """Sums by the loop and by the map; one estimator after the other, so that its tests share what it compiles."""

    def collected(self, estimator: Any) -> tuple[Collector, Array]:
        """Episodes of different lengths."""
        data = Collector(Troubled(trouble="ends"), Policy(2, 2), pairs=7, directions=directions_for(estimator))
        return data, data.theta()

    @pytest.mark.parametrize("how", [sum_once_by_loop, sum_by_vmap])
    def test_a_bad_pairs_terms_are_exactly_zero(self, estimator: Any, how: Any) -> None:
        data, theta = self.collected(estimator)
        batch = data.batch(theta)
        bad = changed(batch, rewards=np.full_like(batch.rollouts.rewards, np.nan))
        with np.errstate(all="ignore"):
            rows = estimator.prepare(data.problem, bad, estimator.init(data.problem))
        sums = how(estimator, data.problem, bad, rows, theta)
        assert all((value == 0).all() for name, value in sums.items() if not name.startswith(COLLECTED))
        handed_over = [value for name, value in sums.items() if name.startswith(COLLECTED)]
        assert all(np.isnan(rows).all() for rows in handed_over)  # which a critic passes over, or there are none

    def test_the_loop_equals_the_map(self, estimator: Any) -> None:
        """The map is in single precision: sums agree to 1e-4 of their largest entry, gradients to 1e-3 of their
        length."""
        data, theta = self.collected(estimator)
        state = data.estimate(estimator, data.batch(theta, 1)).state
        batch = data.batch(theta)
        rewards = batch.rollouts.rewards.copy()
        rewards[3, 0] = np.nan  # bad pairs are masked in both
        batch = changed(batch, rewards=rewards)
        rows = estimator.prepare(data.problem, batch, state)
        loop, mapped = (how(estimator, data.problem, batch, rows, theta) for how in (sum_once_by_loop, sum_by_vmap))
        assert loop.keys() == mapped.keys()
        for name, values in loop.items():
            mine, theirs = values, mapped[name]
            if name.startswith(COLLECTED):  # the loop leaves a bad pair's rows out, the map marks them
                theirs = theirs[np.isfinite(theirs).reshape(len(theirs), -1).all(axis=1)]
            assert theirs == pytest.approx(mine, abs=1e-4 * max(float(np.abs(mine).max()), 1e-6)), name
        one, other = (estimator.combine(data.problem, sums, rows, state).gradient for sums in (loop, mapped))
        assert np.linalg.norm(one - other) < 1e-3 * np.linalg.norm(one)

    @pytest.mark.parametrize("how", [sum_once_by_loop, sum_by_vmap])
    def test_the_second_call_does_not_compile(self, estimator: Any, how: Any) -> None:
        """Shapes never depend on data: other episodes, bad pairs or theta compile nothing new."""
        with compilations() as compiled:
            data, theta = self.collected(estimator)
            state = estimator.init(data.problem)
            for iteration in range(3):
                batch = data.batch(theta + np.float32(0.01 * iteration), iteration)
                if iteration == 2:
                    rewards = batch.rollouts.rewards.copy()
                    rewards[0] = np.nan
                    batch = changed(batch, rewards=rewards)
                rows = estimator.prepare(data.problem, batch, state)
                sums = how(estimator, data.problem, batch, rows, batch.theta)
                state = estimator.combine(data.problem, sums, rows, state).state
                if iteration == 0:
                    compiled.clear()
            assert not compiled


def test_compiling_is_noticed() -> None:
    """The event that the test above listens to is there."""
    with compilations() as compiled:
        reduce_module._mapped.cache_clear()
        weighted_scores.cache_clear()
        policy = Policy(1, 1, hidden=(3,))
        arrays = (
            np.zeros((2, policy.dim), np.float32),
            np.zeros((2, 5, 1), np.float32),
            np.zeros((2, 5, 1), np.float32),
        )
        weighted_scores(policy)(*arrays, np.zeros((2, 1, 5), np.float32))
        assert compiled


@everyone
def test_a_state_is_named_arrays_that_keep_their_shape(estimator: Any) -> None:
    """So that a checkpoint can hold it and know it again."""
    data = collector(estimator)
    fresh, later = estimator.init(data.problem), learned(estimator, data)
    assert {name: (a.shape, a.dtype) for name, a in fresh.items()} == {
        name: (np.asarray(a).shape, np.asarray(a).dtype) for name, a in later.items()
    }
