"""Reward-to-go, baselines and shaping, against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import rankdata

from quell.returns import centred_ranks, finite_pairs, leave_one_out, reward_to_go, shape

RNG = np.random.default_rng(0)


def test_reward_to_go_is_its_definition() -> None:
    rewards = RNG.standard_normal((3, 7))
    for k, gamma in enumerate(gammas := [1.0, 0.9, 0.5]):
        for t in range(7):
            direct = sum(gamma ** (s - t) * rewards[:, s] for s in range(t, 7))
            assert reward_to_go(rewards, gammas)[k, :, t] == pytest.approx(direct)


def test_leave_one_out_is_the_mean_of_the_others() -> None:
    values = RNG.standard_normal((5, 4))
    means = leave_one_out(values.sum(axis=0), np.full(4, 5), values)
    for i in range(5):
        assert means[i] == pytest.approx(np.delete(values, i, axis=0).mean(axis=0))
    assert leave_one_out(np.array(3.0), np.array(1), np.array(3.0)) == 0


def test_centred_ranks() -> None:
    values = np.array([3.0, -1.0, 3.0, 10.0, 0.0])
    assert centred_ranks(values) == pytest.approx((rankdata(values) - 1) / 4 - 0.5)
    assert centred_ranks(np.array([5.0])) == [0]
    assert centred_ranks(np.full(4, 2.0)) == pytest.approx(np.zeros(4))


def test_normalising() -> None:
    returns = RNG.standard_normal(10) * 7 + 100
    fitness, scale = shape(returns, "normalise")
    assert fitness.mean() == pytest.approx(0, abs=1e-12)
    assert fitness.std() == pytest.approx(1)
    assert scale == pytest.approx(1 / returns.std())


def test_huge_returns_stay_finite() -> None:
    returns = np.array([-1e200, -3e200, -2e200, -1e200])
    fitness, scale = shape(returns, "normalise")
    assert fitness == pytest.approx(shape(returns / 1e200, "normalise")[0])
    assert scale == pytest.approx(1 / (np.std(returns / 1e200) * 1e200))


@pytest.mark.parametrize("how", ["normalise", "ranks"])
def test_equal_returns_carry_nothing(how: str) -> None:
    fitness, scale = shape(np.full(6, -3.25), how)  # type: ignore[arg-type]
    assert (fitness == 0).all()
    assert scale == 0


def test_finite_pairs() -> None:
    assert finite_pairs(np.array([1, 2, np.nan, 4, 5, np.inf])).tolist() == [True, False, False]
    rewards = np.zeros((4, 3))
    rewards[3, 1] = np.nan
    assert finite_pairs(rewards).tolist() == [True, False]
