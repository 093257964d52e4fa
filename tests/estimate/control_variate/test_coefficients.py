"""Coefficients of one column: the closed form from moments, the paper's descent and its guard."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from conftest import Collector

from quell.estimate import total_variance
from quell.estimate.control_variate import ControlVariate
from quell.estimate.control_variate.coefficients import (
    FixedCoefficient,
    LayerCoefficients,
    MomentsCoefficients,
    SgdCoefficients,
    Space,
    second_moment,
)
from quell.estimate.control_variate.discount import FixedDiscounts
from quell.estimate.control_variate.discounted import DiscountedColumns
from quell.perturb.gaussian import Gaussian
from quell.policy import Policy
from quell.tasks.base import Task
from quell.types import Array


def products(xy: Sequence[float], yy: Sequence[float]) -> Array:
    """What a batch says of one column; E[X^2] plays no part."""
    return np.array([np.zeros(len(xy)), xy, yy])


@dataclass(frozen=True, kw_only=True)
class OneStep(Task):
    """Theorem 1's problem: reward alpha . a after one action, observation 0 so that only the biases matter."""

    horizon: int = 1
    name = "one-step"
    summary = "one-step linear reward"
    obs_size = 1
    action_size = 8

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
    data = Collector(OneStep(), policy, pairs=500, directions=Gaussian(sigma=sigma))
    coefficients = MomentsCoefficients(decay=1.0, shrinkage=1e12)
    estimator = ControlVariate(
        shaping="none", columns=DiscountedColumns(discount=FixedDiscounts(gammas=(1.0,))), coefficients=coefficients
    )
    theta, state = np.zeros(policy.dim, np.float32), estimator.init(data.problem)
    for t in range(4):
        state = data.estimate(estimator, data.batch(theta, t), state).state
    es = (1 + rho**2 / 2) * d + 1
    re = ((1 + 1 / rho**2) * d + 1) / 2
    optimum = -(es - 0.5) / (es + re - 1)
    eta = coefficients.coefficients(estimator.space(data.problem), state)[0][biases]
    assert eta == pytest.approx(np.full(d, optimum), abs=0.04)
    sums = data.sums(estimator, data.batch(theta, 99), state)
    (x, y), (xx, xy, yy) = sums["columns"][:, biases], sums["products"][:, biases]
    squares = xx + 2 * eta * xy + eta**2 * yy
    assert total_variance(x, xx, 500) * 500 == pytest.approx(es, rel=0.15)
    measured = total_variance(x + eta * y, squares, 500) * 500
    assert measured == pytest.approx(es + optimum * (es - 0.5), rel=0.15)


def test_shrinkage_pulls_coordinates_to_their_layer() -> None:
    space = Space(6, 1, (slice(0, 3), slice(3, 6)), (slice(0, 6),))
    state = {"xy": np.array([1.0, 2, 3, 4, 5, 6]), "yy": np.array([2.0, 2, 2, 2, 0, 2]), "pairs": np.asarray(10.0)}
    own = -np.array([0.5, 1, 1.5, 2, 0, 3])
    layer = -np.array([1.0, 1, 1, 15 / 4, 15 / 4, 15 / 4])

    def eta(rule: MomentsCoefficients) -> Array:
        return rule.coefficients(space, state)[0]

    assert eta(MomentsCoefficients(shrinkage=0.0)) == pytest.approx(own)
    assert eta(MomentsCoefficients(shrinkage=30.0)) == pytest.approx(0.25 * own + 0.75 * layer)
    fresh = MomentsCoefficients()
    assert (fresh.coefficients(space, fresh.init(space)) == 0).all()


def test_sgd_follows_the_printed_rule_and_the_guard_stops_divergence() -> None:
    space, batch = Space(2, 1, (slice(0, 2),), (slice(0, 2),)), products([4.0, 4.0], [8.0, 8e6])
    rule = SgdCoefficients(rate=1e-3)
    state, metrics = rule.update(space, {"eta": np.array([0.5, 0.5])}, batch, 2.0)
    printed = 0.5 - 1e-3 * (2 * 0.5 * 8 / 4 + 2 * 4 / 4)
    assert state["eta"] == pytest.approx([printed, -4 / 8e6])  # the second lands on its batch's minimum
    assert metrics["eta/guarded"] == 0.5
    for _ in range(200):
        state, _ = rule.update(space, state, batch, 2.0)
        assert np.abs(state["eta"]).max() <= 0.5


def test_zero_variance_control_variate() -> None:
    """Y = 0 in a coordinate: eta stays 0 there and nothing divides by zero."""
    space, rule = Space(3, 1, (slice(0, 3),), (slice(0, 3),)), MomentsCoefficients(shrinkage=0.0)
    state, _ = rule.update(space, rule.init(space), products([1.0, 0.0, 0.0], [2.0, 0.0, 0.0]), 5)
    assert rule.coefficients(space, state)[0].tolist() == [-0.5, 0.0, 0.0]


def test_a_fixed_coefficient_learns_nothing() -> None:
    space, rule = Space(3, 1, (slice(0, 3),), (slice(0, 3),)), FixedCoefficient(value=-0.25)
    assert rule.update(space, rule.init(space), products([1.0] * 3, [2.0] * 3), 5) == ({}, {})
    assert (rule.coefficients(space, {}) == -0.25).all()


def test_layers_weigh_several_columns() -> None:
    """Least squares on known second moments, in each of two layers; a column that repeats another does no harm."""
    rng = np.random.default_rng(0)
    space, rule = Space(2, 2, (), (slice(0, 1), slice(1, 2))), LayerCoefficients(decay=0.0)
    fresh = rule.coefficients(space, rule.init(space))
    assert fresh == pytest.approx(np.array([[-1.0, -1.0], [0.0, 0.0]]), rel=1e-5), "the first column alone, whole"
    pairs = rng.standard_normal((1000, 2, 3))  # of layers, of (X, Y_1, Y_2)
    mixed = np.array([[1.0, 0.4, -0.2], [0.0, 1.0, 0.5], [0.0, 0.0, 0.7]])
    columns = pairs @ mixed
    sums = np.einsum("nli,nlj->ijl", columns, columns)[np.triu_indices(3)]
    state, _ = rule.update(space, rule.init(space), sums, 1000)
    beta = rule.coefficients(space, state)
    for layer in range(2):
        exact = -np.linalg.lstsq(columns[:, layer, 1:], columns[:, layer, 0], rcond=None)[0]
        assert beta[:, layer] == pytest.approx(exact, abs=1e-4)
        left = columns[:, layer, 0] + columns[:, layer, 1:] @ beta[:, layer]
        assert second_moment(sums, beta)[layer] == pytest.approx(np.square(left).sum())
    columns[..., 2] = columns[..., 1]
    sums = np.einsum("nli,nlj->ijl", columns, columns)[np.triu_indices(3)]
    state, _ = rule.update(space, rule.init(space), sums, 1000)
    both = rule.coefficients(space, state).sum(axis=0)
    one = -(columns[..., 0] * columns[..., 1]).sum(axis=0) / np.square(columns[..., 1]).sum(axis=0)
    assert both == pytest.approx(one, rel=1e-4)


def test_the_descent_starts_where_it_is_told() -> None:
    """From -1 the first estimate is the policy gradient's; from there eta takes the same steps."""
    rule, space = SgdCoefficients(start=-1.0, rate=0.1), Space(3, 1, (slice(0, 3),), (slice(0, 3),))
    state = rule.init(space)
    assert np.array_equal(rule.coefficients(space, state), np.full((1, 3), -1.0))
    following, _ = rule.update(space, state, products([0.5, 1, 0], [1, 1, 1]), 1)
    assert following["eta"] == pytest.approx([-0.9, -1.0, -0.8])
