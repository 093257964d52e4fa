"""What every registered kind of directions keeps to."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from strategies import all_of, label

from quell.keys import Purpose
from quell.perturb import Draw, draw_of, draw_pair, sigma_of
from quell.perturb.qmc import Qmc
from quell.policy import Policy
from quell.policy.act import actor
from quell.policy.fisher import Metric, factors
from quell.types import Episodes, Factored, Shape

KINDS = [*all_of("directions"), Qmc(shift=True)]
RANDOM = [kind for kind in KINDS if kind.sigma > 0 and kind != Qmc()]  # an unshifted Halton sequence draws nothing
POLICY = Policy(3, 2, hidden=(4,), activation="tanh", init_std=0.5)
THETA = POLICY.init(np.random.default_rng(1))
STATES = np.random.default_rng(2).standard_normal((256, 3)) * [3.0, 1.0, 0.1]
METRIC = Metric.of(POLICY, factors(POLICY)(THETA.astype(np.float64), STATES))
everyone = pytest.mark.parametrize("directions", KINDS, ids=label)
random_ones = pytest.mark.parametrize("directions", RANDOM, ids=label)


def pair(directions: Any, pair: int = 1, **address: Any) -> tuple[np.ndarray, np.ndarray]:
    draw = Draw(**{"seed": 3, "iteration": 2, "pairs": 4, "dim": 30, **address})
    plus, minus = draw_pair(directions, draw, pair)
    return plus.copy(), minus.copy()


@random_ones
def test_second_moment_is_the_identity(directions: Any) -> None:
    """E[eps eps'] = I for both members within 5 standard errors, 1/sqrt(n) off the diagonal and sqrt(2/n) on it.

    n = 6,000 iterations, of which one pair each (the pairs of an iteration need not be independent): an error of scale
    of 5% would be 5.5 standard errors.
    """
    sample = np.array([pair(directions, t % 4, iteration=t, dim=6) for t in range(6000)], np.float64)
    for member in (0, 1):
        eps = sample[:, member]
        z = (eps.T @ eps / len(eps) - np.eye(6)) * np.sqrt(len(eps) / (1 + np.eye(6)))
        assert np.abs(z).max() < 5
        assert np.abs(eps.mean(axis=0)).max() * np.sqrt(len(eps)) < 5


def in_nats(directions: Any, nats: float = 0.05) -> tuple[Any, Shape | None]:
    """The same directions of a size in nats, and what they take from the metric."""
    if directions.sigma > 0:
        directions = dataclasses.replace(directions, nats=nats)
        assert directions.needs_metric
    return directions, directions.prepare(METRIC)


def drawn(directions: Any, shape: Shape | None, iterations: int, pairs: int = 1) -> np.ndarray:
    """eps_plus of the first pair of many iterations [iterations, d]."""
    episodes = [Episodes.of_pairs(t, pairs) for t in range(iterations)]
    return np.array([draw_pair(directions, draw_of(POLICY, 5, one), 0, shape)[0] for one in episodes], np.float64)


@random_ones
def test_the_second_moment_is_the_inverse_of_what_inverse_applies(directions: Any) -> None:
    """E[eps (C^-1 eps)'] = 1 within 5.5 standard errors at 4,000 draws, whatever a metric made of the covariance. The
    error of a product is at most sqrt(2 C_ii C^-1_jj / n), 0.03 for an isotropic kind: 10% of scale would show."""
    directions, shape = in_nats(directions)
    eps = drawn(directions, shape, 4000)
    scored = directions.inverse(eps, shape)
    products = eps[:, :, None] * scored[:, None, :]
    z = (products.mean(axis=0) - np.eye(POLICY.dim)) / (products.std(axis=0) / np.sqrt(len(eps)))
    assert np.abs(z).max() < 5.5


@random_ones
def test_a_size_in_nats_is_the_mean_divergence(directions: Any) -> None:
    """sigma^2 E[eps' F eps] / 2 = nats to 5%, F the metric without its damping; a standard error is below 1%."""
    directions, shape = in_nats(directions, 0.07)
    assert shape is not None
    eps = drawn(directions, shape, 4000)
    bare = dataclasses.replace(METRIC, damping=0.0)
    kl = sigma_of(directions, shape) ** 2 * (eps * bare.apply(eps, 1)).sum(axis=1) / 2
    assert kl.std() / np.sqrt(len(kl)) < 0.07 * 0.03
    assert kl.mean() == pytest.approx(0.07, rel=0.1)


@random_ones
def test_before_there_is_a_metric_sigma_is_as_given(directions: Any) -> None:
    directions, _ = in_nats(dataclasses.replace(directions, sigma=0.4))
    for nothing in (None, dataclasses.replace(METRIC, known=False)):
        shape = directions.prepare(nothing)
        assert shape is None
        assert sigma_of(directions, shape) == 0.4


@everyone
def test_combine_is_the_weighted_sum_of_directions(directions: Any) -> None:
    """And the sum of squared lengths, both of C^-1 eps; single precision."""
    directions, shape = in_nats(directions)
    draw, weights = draw_of(POLICY, 5, Episodes.of_pairs(2, 7)), np.random.default_rng(0).standard_normal((7, 2))
    scored = [directions.inverse(np.array(draw_pair(directions, draw, i, shape), np.float64), shape) for i in range(7)]
    each = np.array([w @ vectors for w, vectors in zip(weights, scored, strict=True)])
    total, squares = directions.combine(draw, weights, shape)
    assert total == pytest.approx(each.sum(axis=0), rel=1e-4, abs=1e-5 * np.abs(each).max())
    assert float(squares) == pytest.approx(np.square(each).sum(), rel=1e-5)


@everyone
def test_members_act_as_theta_plus_sigma_eps_does(directions: Any) -> None:
    """Whatever a kind makes of it, to single precision; and a member's action is the same bits in any company."""
    directions, shape = in_nats(directions)
    draw, chosen = draw_of(POLICY, 5, Episodes.of_pairs(2, 4)), [(0, 1), (0, -1), (3, 1), (2, -1)]
    eps = [draw_pair(directions, draw, pair, shape)[sign < 0] for pair, sign in chosen]
    plain = np.stack([THETA + np.float32(sigma_of(directions, shape)) * one for one in eps])
    rng = np.random.default_rng(3)
    obs, noise = rng.standard_normal((4, 3)).astype(np.float32), rng.standard_normal((4, 2)).astype(np.float32)
    acted = actor(POLICY, directions.members(THETA, draw, chosen, shape))(obs, noise)
    assert acted == pytest.approx(actor(POLICY, plain)(obs, noise), rel=1e-4, abs=1e-5)
    for k, member in enumerate(chosen):
        alone = actor(POLICY, directions.members(THETA, draw, [member], shape))(obs[k : k + 1], noise[k : k + 1])
        assert alone.tobytes() == acted[k : k + 1].tobytes()


@everyone
def test_unperturbed_members_act_with_theta_itself(directions: Any) -> None:
    draw, obs = draw_of(POLICY, 5, Episodes.of_pairs(2, 4)), np.ones((3, 3), np.float32)
    acting = directions.members(THETA, draw, [(0, 0), (1, 0), (2, 0)], None)
    plain = actor(POLICY, np.stack([THETA] * 3), mean_action=True)(obs, np.zeros((1, 1)))
    assert actor(POLICY, acting, mean_action=True)(obs, np.zeros((1, 1))).tobytes() == plain.tobytes()


@everyone
def test_numbers_are_those_that_members_take(directions: Any) -> None:
    acting = directions.members(THETA, draw_of(POLICY, 5, Episodes.of_pairs(2, 4)), [(0, 1), (1, -1)], None)
    arrays = [acting]
    if isinstance(acting, Factored):
        arrays = [*acting.own.values(), *(side for sides in acting.factors.values() for side in sides)]
    assert sum(array.size for array in arrays) == 2 * directions.numbers(POLICY)


@everyone
def test_a_pair_is_symmetric_if_and_only_if_it_says_so(directions: Any) -> None:
    symmetric = [np.array_equal(plus, -minus) for plus, minus in (pair(directions, i) for i in range(4))]
    assert all(symmetric) if directions.symmetric else not any(symmetric)


@everyone
def test_the_same_pair_from_the_same_address(directions: Any) -> None:
    first = pair(directions)
    draw_pair.cache_clear()
    for other in range(4):  # whatever was asked for in between
        pair(directions, other, iteration=5)
    again = pair(directions)
    assert all((a == b).all() and a.dtype == np.float32 for a, b in zip(first, again, strict=True))


@random_ones
@pytest.mark.parametrize(
    "address",
    [{"seed": 4}, {"iteration": 3}, {"pair": 2}, {"purpose": Purpose.MEASURE_DIRECTION}, {"block": (1,)}],
    ids=lambda a: next(iter(a)),
)
def test_other_addresses_have_other_directions(directions: Any, address: dict[str, Any]) -> None:
    assert np.abs(pair(directions)[0] - pair(directions, **address)[0]).max() > 0.1


@random_ones
def test_how_many_blocks_there_are_is_part_of_the_address(directions: Any) -> None:
    drawn = [pair(directions, block=block)[0] for block in ((), (0,), (1,), (0, 1))]
    assert len({eps.tobytes() for eps in drawn}) == 4


@random_ones
def test_sigma_is_not_in_the_directions(directions: Any) -> None:
    """They are drawn for unit variance; theta + sigma eps is said in one place."""
    louder = dataclasses.replace(directions, sigma=7.0)
    assert (pair(louder)[0] == pair(directions)[0]).all()


@random_ones
def test_independent_pairs_do_not_know_how_many_there_are(directions: Any) -> None:
    if not directions.independent:
        pytest.skip("drawn jointly")
    assert (pair(directions, pairs=4)[0] == pair(directions, pairs=9)[0]).all()
