"""Several discounts: the one whose rounds raise the return is used, and with one discount nothing is different."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from conftest import Collector
from linear_gaussian import POLICY, THETA, LinearGaussian

from quell.errors import UsageError
from quell.estimate.control_variate.advantage import AdvantageControlVariate
from quell.estimate.control_variate.refereed import RefereedControlVariate
from quell.types import Batch


@pytest.mark.parametrize("better", [0, 1])
def test_the_discount_that_raises_the_return_is_used(better: int) -> None:
    """A return that rises by 1 in a batch after one discount and falls by 1 after the other, with noise as large."""
    data = Collector(LinearGaussian(), POLICY, pairs=2)
    estimator = RefereedControlVariate(batches=3)
    state, level, used = estimator.init(data.problem), 0.0, []
    played, noise = data.batch(THETA), np.random.default_rng(0)
    for iteration in range(150):
        rewards = np.full_like(played.rollouts.rewards, (level + noise.standard_normal()) / LinearGaussian.horizon)
        rollouts = dataclasses.replace(played.rollouts, rewards=rewards)
        episodes = dataclasses.replace(played.episodes, iteration=iteration)
        state |= estimator._judge(data.problem, Batch(THETA, episodes, rollouts), state)
        used.append(int(state["chosen"]))
        level += 1.0 if used[-1] == better else -1.0
    assert set(used[:30]) == {0, 1}  # both get their chance
    assert np.mean(np.array(used[50:]) == better) > 0.8


def test_a_single_discount_is_the_ordinary_control_variate() -> None:
    data = Collector(LinearGaussian(), POLICY, pairs=3, seed=2)
    one = RefereedControlVariate(gammas=(0.9,), traces=(0.8,))
    ordinary = AdvantageControlVariate(gamma=0.9, trace=0.8)
    batch = data.batch(THETA)
    found, expected = (data.estimate(e, batch, e.init(data.problem)) for e in (one, ordinary))
    unit = np.sqrt(1 - (0.9 * 0.8) ** 2)  # advantages of all discounts are brought to one size
    assert np.allclose(found.gradient, unit * expected.gradient, rtol=1e-4, atol=1e-6)
    assert found.state["critic.w0"].tobytes() == expected.state["critic.w0"].tobytes()


def test_evenly_mixed_without_rounds() -> None:
    data = Collector(LinearGaussian(), POLICY, pairs=2)
    mixed = RefereedControlVariate(batches=0, gammas=(0.5, 1.0), traces=(1.0, 1.0))
    assert data.estimate(mixed, data.batch(THETA)).metrics["gamma"] == 0.75


def test_a_trace_for_every_discount() -> None:
    with pytest.raises(UsageError, match="a number each"):
        RefereedControlVariate(gammas=(0.9, 1.0), traces=(1.0,)).check()
