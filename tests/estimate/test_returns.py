"""Reward-to-go, baselines and shaping, against their definitions."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import rankdata

from quell.estimate.returns import (
    centred_ranks,
    finite_pairs,
    less_other_pairs,
    mean_of_others,
    next_reward_seen,
    reward_to_go,
    shape,
    shaped_fitness,
)

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("xp", [np, jnp], ids=["numpy", "jax"])
def test_reward_to_go_is_its_definition(xp: Any) -> None:
    rewards, gammas = RNG.standard_normal((3, 7)), [1.0, 0.9, 0.5]
    found = np.asarray(reward_to_go(xp.asarray(rewards), gammas))
    for k, gamma in enumerate(gammas):
        for t in range(7):
            direct = sum(gamma ** (s - t) * rewards[:, s] for s in range(t, 7))
            assert found[k, :, t] == pytest.approx(direct, abs=1e-12 if xp is np else 1e-5)


def test_mean_of_others_is_the_mean_of_the_others_still_running() -> None:
    values, running = RNG.standard_normal((6, 4)), np.ones((6, 4), bool)
    running[1, 2:] = running[4, 1:] = False
    running[1:, 3] = False  # nobody else is left
    values = np.where(running, values, 0.0)
    means, whole = mean_of_others(values, running), mean_of_others(values, running, whole_pairs=True)
    for i, t in zip(*np.nonzero(running), strict=True):
        others = [j for j in range(6) if running[j, t] and j != i]
        assert means[i, t] == pytest.approx(values[others, t].mean() if others else 0.0)
        strangers = [j for j in others if j != i ^ 1]
        assert whole[i, t] == pytest.approx(values[strangers, t].mean() if strangers else 0.0)


def test_pairs_are_centred_on_the_good_others() -> None:
    values = np.array([1.0, 2.0, 0.0, 0.0, 5.0, 9.0])  # the second pair is bad
    centred = less_other_pairs(values, 2)
    assert centred[[0, 1, 4, 5]] == pytest.approx([1 - 7.0, 2 - 7.0, 5 - 1.5, 9 - 1.5])
    assert (less_other_pairs(values, 1) == values).all()


def test_fitness_is_centred_on_the_other_pairs() -> None:
    returns = np.array([1.0, 2.0, 3.0, 5.0, 10.0, 20.0])
    fitness, _, _ = shaped_fitness(returns, "none")
    assert fitness[:2] == pytest.approx(np.array([1.0, 2.0]) - np.mean([3, 5, 10, 20]))


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


def test_how_much_of_what_is_earned_is_near_enough_to_be_seen() -> None:
    """gamma^wait till the next reward: 1 with a reward at every step, whatever it is; steps with nothing to come, and
    those after an episode's end, do not count; a cost of a hundredth is no reward to wait for."""
    steps = np.array([4, 3])
    dense = np.array([[1.0, -2.0, 1.0, 0.5], [3.0, 1.0, 1.0, 9.0]])
    assert next_reward_seen(dense, steps, 0.5) == 1.0
    late = np.array([[0.0, 0.0, 0.0, 5.0], [0.0, 7.0, 0.0, 9.0]])
    waits = [3, 2, 1, 0, 1, 0]
    assert next_reward_seen(late, steps, 0.5) == pytest.approx(np.mean(0.5 ** np.array(waits)))
    assert next_reward_seen(late - 0.01 * (late == 0), steps, 0.5) == next_reward_seen(late, steps, 0.5)
    assert next_reward_seen(late, steps, 1.0) == 1.0
    assert next_reward_seen(0 * late, steps, 0.5) == 1.0
    assert next_reward_seen(1e300 * late, steps, 0.5) == next_reward_seen(late, steps, 0.5)
    traced = jax.jit(next_reward_seen, static_argnums=2)(jnp.asarray(late), jnp.asarray(steps), 0.5)
    assert float(traced) == pytest.approx(float(next_reward_seen(late, steps, 0.5)))
