"""Estimators: variance estimates, learners of eta and gamma, surrogates, and behaviour on bad numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import numpy as np
import pytest
from conftest import Collector, tree_sum
from linear_gaussian import LinearGaussian
from threadpoolctl import threadpool_info, threadpool_limits

from quell.adapt import EsGamma, FixedEta, FixedGamma, MomentsEta, SgdEta
from quell.choose import Chooser
from quell.estimate import estimate, total_variance
from quell.estimate.auto import AutoControlVariate
from quell.estimate.control_variate import ControlVariate
from quell.estimate.policy_gradient import PolicyGradient, padded_length
from quell.estimate.score import Score, shaped_fitness
from quell.estimate.surrogate import Surrogate
from quell.estimate.value import ValueFunction
from quell.policy import Policy
from quell.reduce import LEAVES, Tree, blocks
from quell.scores import log_prob
from quell.tasks.base import Array, Task
from quell.types import Batch

RNG = np.random.default_rng(0)
POLICY = Policy(1, 2, hidden=(), init_std=0.7)
THETA = np.array([0.1, -0.2, 0.15, 0.1, -0.4, -0.2], np.float32)


def small_batch(pairs: int = 6, kind: str = "gaussian", sigma: float = 0.3) -> Batch:
    return Collector(LinearGaussian(), POLICY, pairs=pairs, kind=kind).batch(THETA, sigma)


def with_rewards(batch: Batch, rewards: Array) -> Batch:
    return dataclasses.replace(batch, rollouts=dataclasses.replace(batch.rollouts, rewards=rewards))


def estimators() -> list[object]:
    return [
        Score(),
        Score("ranks"),
        ControlVariate(POLICY, FixedEta(6, -0.5), FixedGamma(0.9)),
        ControlVariate(POLICY, SgdEta(6), EsGamma(0)),
        ControlVariate(POLICY, MomentsEta(6, (slice(0, 4), slice(4, 6))), FixedGamma(1.0), "ranks", "leave-one-out"),
        ControlVariate(POLICY, FixedEta(6, -0.5), FixedGamma(1.0), "normalise", ValueFunction("linear", 1)),
        AutoControlVariate(
            POLICY, Chooser(6, (slice(0, 6),), 3, ((0,), (0, 1, 2))), (1.0, 0.9), (ValueFunction("network", 1),)
        ),
        PolicyGradient(POLICY),
        Surrogate(POLICY, "ppo", normalise_advantages=True),
        Surrogate(POLICY, "trpo"),
    ]


class Watching(Score):
    """Notes how many threads a matrix product may take at every stage."""

    threads: ClassVar[list[int]] = []

    def prepare(self, *args: Any) -> Any:
        self.threads.extend(blas_threads())
        return super().prepare(*args)

    def contribution(self, *args: Any) -> Any:
        self.threads.extend(blas_threads())
        return super().contribution(*args)

    def combine(self, *args: Any) -> Any:
        self.threads.extend(blas_threads())
        return super().combine(*args)


def blas_threads() -> list[int]:
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def test_an_estimate_leaves_the_other_cores_alone() -> None:
    """BLAS stays on one thread in every stage, also on a pool's threads, and gets its threads back afterwards."""
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        with ThreadPoolExecutor(2) as pool:
            estimate(Watching(), small_batch(), {}, mapper=pool.map)
        assert blas_threads() == before
    if max(before, default=1) > 1:  # a BLAS that can take more than one thread at all
        assert Watching.threads
        assert set(Watching.threads) == {1}


def test_estimated_variance_is_the_variance_over_batches() -> None:
    """400 batches of 4 pairs: the mean estimate against the spread of the gradients, for ES and CV; 15% tolerance.

    A variance over 400 repeats has a relative error of about sqrt(2/400) = 7% per coordinate, less for their sum.
    """
    collector = Collector(LinearGaussian(), POLICY, pairs=4)
    for estimator in (Score("none"), ControlVariate(POLICY, FixedEta(6, -0.6), FixedGamma(0.9), "none")):
        found = [estimate(estimator, collector.batch(THETA, 0.3, t), {}) for t in range(400)]
        spread = np.var([f.gradient for f in found], axis=0, ddof=1).sum()
        assert np.mean([f.metrics["variance/method"] for f in found]) == pytest.approx(spread, rel=0.15)


def test_total_variance_by_hand() -> None:
    values = np.array([[1.0, 0.0], [3.0, 0.0], [5.0, 3.0]])
    expected = values.var(axis=0, ddof=1).sum() / 3
    assert total_variance(values.sum(axis=0), np.square(values).sum(axis=0), 3) == pytest.approx(expected)
    assert np.isnan(total_variance(values[0], values[0] ** 2, 1))


@dataclass(frozen=True, kw_only=True)
class OneStep(Task):
    """Theorem 1's problem: reward alpha . a after one action, observation 0 so that only the biases matter."""

    horizon: int = 1
    name: ClassVar[str] = "one-step"
    summary: ClassVar[str] = "one-step linear reward"
    obs_size: ClassVar[int] = 1
    action_size: ClassVar[int] = 8

    def simulator(self, members: int) -> OneStep:
        return self

    def reset(self, generators: Sequence[np.random.Generator]) -> Array:
        return np.zeros((len(generators), 1))

    def step(self, actions: Array, active: Array) -> tuple[Array, Array, Array]:
        reward = actions.astype(float) @ (np.arange(1, 9) / np.linalg.norm(np.arange(1, 9)))
        return np.zeros((len(actions), 1)), reward, np.zeros(len(actions), bool)


@pytest.mark.parametrize("rho", [0.5, 2.0])
def test_moments_find_the_optimal_coefficient(rho: float) -> None:
    """In Theorem 1's problem with antithetic pairs, units |alpha|^2 per pair and d = 8:

    V[X] = (1 + rho^2/2) d + 1,  V[RE] = ((1 + 1/rho^2) d + 1) / 2,  Cov(X, RE) = 1/2,
    eta* = -(V[X] - 1/2) / (V[X] + V[RE] - 1),  V[CV] = V[X] + eta* (V[X] - 1/2).
    """
    d, sigma = 8, 0.1
    policy = Policy(1, d, hidden=(), init_std=rho * sigma, learn_std=False)
    biases = policy.layout["b0"][0]
    collector = Collector(OneStep(), policy, pairs=500)
    eta = MomentsEta(policy.dim, (slice(0, biases.start), biases), decay=1.0, per="layer")
    estimator = ControlVariate(policy, eta, FixedGamma(1.0), "none")
    theta, state = np.zeros(policy.dim, np.float32), estimator.init()
    for t in range(12):
        state = estimate(estimator, collector.batch(theta, sigma, t), state).state
    es = (1 + rho**2 / 2) * d + 1
    re = ((1 + 1 / rho**2) * d + 1) / 2
    optimum = -(es - 0.5) / (es + re - 1)
    assert eta.eta(state)[biases] == pytest.approx(np.full(d, optimum), abs=0.04)
    data = collector.batch(theta, sigma, 99)
    sums = estimator.contribution(data, estimator.prepare(data, state), range(500), theta)
    coefficient = eta.eta(state)[biases]
    x, y = sums["x"][biases], sums["y"][biases]
    squares = (sums["xx"] + 2 * eta.eta(state) * sums["xy"] + eta.eta(state) ** 2 * sums["yy"])[biases]
    assert total_variance(x, sums["xx"][biases], 500) * 500 == pytest.approx(es, rel=0.15)
    measured = total_variance(x + coefficient * y, squares, 500) * 500
    assert measured == pytest.approx(es + optimum * (es - 0.5), rel=0.15)


def test_shrinkage_pulls_coordinates_to_their_layer() -> None:
    layers = (slice(0, 3), slice(3, 6))
    state = {"xy": np.array([1.0, 2, 3, 4, 5, 6]), "yy": np.array([2.0, 2, 2, 2, 0, 2]), "pairs": np.asarray(10.0)}
    own = -np.array([0.5, 1, 1.5, 2, 0, 3])
    layer = -np.array([1.0, 1, 1, 15 / 4, 15 / 4, 15 / 4])
    assert MomentsEta(6, layers, shrinkage=0.0).eta(state) == pytest.approx(own)
    assert MomentsEta(6, layers, shrinkage=30.0).eta(state) == pytest.approx(0.25 * own + 0.75 * layer)
    assert MomentsEta(6, layers, per="layer").eta(state) == pytest.approx(layer)
    assert MomentsEta(6, layers, per="scalar").eta(state) == pytest.approx(np.full(6, -2.1))
    assert (MomentsEta(6, layers).eta(MomentsEta(6, layers).init()) == 0).all()


def test_sgd_follows_the_printed_rule_and_the_guard_stops_divergence() -> None:
    sums = {"xy": np.array([4.0, 4.0]), "yy": np.array([8.0, 8e6])}
    learner = SgdEta(2, rate=1e-3)
    state, metrics = learner.update({"eta": np.array([0.5, 0.5])}, sums, 2.0)
    printed = 0.5 - 1e-3 * (2 * 0.5 * 8 / 4 + 2 * 4 / 4)
    assert state["eta"] == pytest.approx([printed, -4 / 8e6])  # the second lands on its batch's minimum
    assert metrics["eta/guarded"] == 0.5
    for _ in range(200):
        state, _ = learner.update(state, sums, 2.0)
        assert np.abs(state["eta"]).max() <= 0.5


def test_gamma_descends_the_variance() -> None:
    """With a made-up v(phi) that grows with phi, phi must fall; with v constant it must stay."""
    learner = EsGamma(seed=0, start=0.99, rate=0.05)
    state = learner.init()
    start = float(state["phi"])
    for iteration in range(30):
        gammas = np.array(learner.gammas(state, iteration))
        phis = np.log(1 - gammas[1:])
        v = np.exp(2 * phis)
        sums = {"x": np.zeros(1), "trials": np.sqrt(v)[:, None]}
        state = learner.update(state, iteration, sums, np.ones(1), 1.0)
    assert float(state["phi"]) < start - 0.5
    flat = learner.update(state, 0, {"x": np.ones(1), "trials": np.zeros((10, 1))}, np.ones(1), 1.0)
    assert flat["phi"] == state["phi"]
    assert learner.gammas(learner.init(), 0)[0] == pytest.approx(0.99)


def test_gcmc_fitness_is_centred_on_the_other_pairs() -> None:
    returns = np.array([1.0, 2.0, 3.0, 5.0, 10.0, 20.0])
    fitness = shaped_fitness(returns, "none").fitness
    assert fitness[:2] == pytest.approx(np.array([1.0, 2.0]) - np.mean([3, 5, 10, 20]))


def test_surrogates_reduce_to_the_plain_gradient_on_the_first_update() -> None:
    """At theta = old, PPO's and TRPO's gradients are both the mean of A_t grad log pi."""
    data = small_batch(sigma=0.0)
    ppo = estimate(Surrogate(POLICY, "ppo"), data, {}).gradient
    trpo = estimate(Surrogate(POLICY, "trpo", penalty=1.0), data, {}).gradient
    assert ppo == pytest.approx(trpo, rel=1e-4)
    prepared = Surrogate(POLICY, "ppo").prepare(data, {})
    paths = data.rollouts.trajectories
    assert paths is not None

    def mean(theta: jax.Array) -> jax.Array:
        return (prepared.values * log_prob(POLICY, theta, paths.obs, paths.actions)).sum() / prepared.steps

    assert ppo == pytest.approx(np.asarray(jax.grad(mean)(THETA)), rel=1e-3, abs=1e-5)


def test_clipping_and_the_penalty_act_away_from_the_old_policy() -> None:
    data = small_batch(sigma=0.0)
    far = THETA + np.float32(0.5)
    clipped = estimate(Surrogate(POLICY, "ppo", clip=0.2), data, {}, theta=far).gradient
    free = estimate(Surrogate(POLICY, "ppo", clip=1e9), data, {}, theta=far).gradient
    assert np.linalg.norm(clipped - free) > 0.1 * np.linalg.norm(free)
    loose = estimate(Surrogate(POLICY, "trpo", penalty=0.0), data, {}, theta=far)
    tight = estimate(Surrogate(POLICY, "trpo", penalty=10.0), data, {}, theta=far)
    towards_old = (THETA - far) @ (tight.gradient - loose.gradient)
    assert towards_old > 0
    assert tight.metrics["pg/kl"] > 0.1


@pytest.mark.parametrize("estimator", estimators(), ids=lambda e: f"{type(e).__name__}-{getattr(e, 'kind', '')}")
class TestBadNumbers:
    """What goes wrong in a batch never becomes a NaN in the gradient."""

    def gradient(self, estimator: object, rewards: Array, data: Batch) -> Array:
        return estimate(estimator, with_rewards(data, rewards), estimator.init()).gradient  # type: ignore[attr-defined,arg-type]

    def test_a_nan_reward_costs_its_pair_only(self, estimator: object) -> None:
        """The gradient is what the other pairs alone would give."""
        data = small_batch()
        rewards = data.rollouts.rewards.copy()
        rewards[5, 2] = np.nan  # the second member of pair 2
        found = self.gradient(estimator, rewards, data)
        changed = rewards.copy()
        changed[4:6] = 7.0  # whatever the bad pair's other rewards are does not matter
        changed[5, 2] = np.nan
        assert np.isfinite(found).all()
        assert np.linalg.norm(found) > 0
        assert (self.gradient(estimator, changed, data) == found).all()

    def test_equal_returns_give_a_zero_gradient(self, estimator: object) -> None:
        """Policy-gradient methods may still see structure within an episode, so only finiteness is asked of those."""
        data = small_batch()
        found = self.gradient(estimator, np.full_like(data.rollouts.rewards, 2.0), data)
        assert np.isfinite(found).all()
        if estimator.perturbs:  # type: ignore[attr-defined]
            assert (found == 0).all()

    def test_huge_returns(self, estimator: object) -> None:
        data = small_batch()
        assert np.isfinite(self.gradient(estimator, data.rollouts.rewards * 1e38, data)).all()

    def test_all_pairs_bad(self, estimator: object) -> None:
        data = small_batch()
        assert (self.gradient(estimator, np.full_like(data.rollouts.rewards, np.nan), data) == 0).all()


def test_zero_variance_control_variate() -> None:
    """Y = 0 in a coordinate: eta stays 0 there and nothing divides by zero."""
    learner = MomentsEta(3, (slice(0, 3),), shrinkage=0.0)
    sums = {"xy": np.array([1.0, 0.0, 0.0]), "yy": np.array([2.0, 0.0, 0.0])}
    state, _ = learner.update(learner.init(), sums, 5)
    assert learner.eta(state).tolist() == [-0.5, 0.0, 0.0]


def test_an_overflowing_policy_gradient_falls_back_to_es() -> None:
    data = small_batch()
    paths = data.rollouts.trajectories
    assert paths is not None
    wild = dataclasses.replace(paths, actions=paths.actions * np.float32(1e30))
    data = dataclasses.replace(data, rollouts=dataclasses.replace(data.rollouts, trajectories=wild))
    estimator = ControlVariate(POLICY, FixedEta(6, -0.5), FixedGamma(0.9))
    found = estimate(estimator, data, estimator.init())
    assert found.metrics["trouble/cv_dropped"] == 1
    assert (found.gradient == estimate(Score(), data, {}).gradient).all()


def test_one_pair_is_enough_for_a_gradient() -> None:
    for estimator in estimators():
        found = estimate(estimator, small_batch(pairs=1), estimator.init())  # type: ignore[attr-defined,arg-type]
        assert np.isfinite(found.gradient).all()


def test_blocks_and_tree_cover_every_pair_once() -> None:
    for pairs in (1, 2, 5, 64, 65, 300):
        covered = [pair for block in blocks(pairs) for pair in block]
        assert covered == list(range(pairs))
        assert len(blocks(pairs)) <= LEAVES
        parts = [{"x": RNG.standard_normal(3)} for _ in blocks(pairs)]
        tree = Tree(len(parts))
        for leaf in RNG.permutation(len(parts)):  # whatever order they arrive in
            tree.add((0, int(leaf)), parts[leaf])
        assert (tree.total["x"] == tree_sum(parts)["x"]).all()


def test_padding_depends_on_the_pair_alone() -> None:
    assert [padded_length(s, 1000) for s in (1, 64, 65, 500, 513, 1000)] == [64, 64, 128, 512, 1000, 1000]
    assert padded_length(5, 30) == 30
