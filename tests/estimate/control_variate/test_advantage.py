"""The control variate with a critic: what it says about its own noise."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from conftest import Collector
from linear_gaussian import POLICY, THETA, LinearGaussian

from quell.errors import UsageError
from quell.estimate.advantage import AdvantageGradient
from quell.estimate.control_variate.advantage import AdvantageControlVariate
from quell.estimate.critic.network import NetworkCritic
from quell.perturb import Unperturbed
from quell.perturb.gaussian import Gaussian


@pytest.mark.parametrize("pairs", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_the_variance_it_tells_is_that_of_its_gradients(pairs: int) -> None:
    """From pairs, or, with one alone, from batch to batch: the mean of what 400 batches tell against the variance of
    their gradients, within 25% (a standard error of either is below 8%)."""
    data = Collector(LinearGaussian(), POLICY, pairs=pairs, directions=Gaussian(sigma=0.3), seed=5)
    estimator = AdvantageControlVariate(gamma=1.0, trace=1.0, critic=NetworkCritic(updates=10))
    state, gradients, told = estimator.init(data.problem), [], []
    for iteration in range(500):
        found = data.estimate(estimator, data.batch(THETA, iteration), state)
        state = found.state
        if iteration >= 100:  # by then scale and critic have settled
            gradients.append(found.gradient)
            told.append(found.metrics["variance/method"])
    own = np.array(gradients, np.float64).var(axis=0, ddof=1).sum()
    assert np.mean(told) == pytest.approx(own, rel=0.25)


def test_one_pair_tells_nothing_at_first() -> None:
    data = Collector(LinearGaussian(), POLICY, pairs=1, directions=Gaussian(sigma=0.3))
    assert "variance/ratio" not in data.estimate(AdvantageControlVariate(), data.batch(THETA)).metrics


CV, PG = AdvantageControlVariate(gamma=0.9), AdvantageGradient(gamma=0.9)


@pytest.mark.parametrize(
    ("estimator", "reward", "moves"),
    [
        *((CV, 1.0, False), (CV, 0.0, True), (AdvantageControlVariate(gamma=1.0, trace=1.0), 1.0, True)),
        *((PG, 1.0, False), (PG, 0.0, True)),
    ],
)
def test_episodes_that_all_earn_the_same_teach_nothing(estimator: Any, reward: float, moves: bool) -> None:
    """What is left of them are the critic's errors; heeded where no reward was seen, and where nothing may be biased
    by what a batch itself says."""
    directions = Gaussian(sigma=0.3) if estimator.needs.perturbed else Unperturbed()
    data = Collector(LinearGaussian(), POLICY, pairs=4, directions=directions)
    state = data.estimate(estimator, data.batch(THETA)).state
    batch = data.batch(THETA, 1)
    same = dataclasses.replace(batch.rollouts, rewards=np.full_like(batch.rollouts.rewards, reward))
    found = data.estimate(estimator, dataclasses.replace(batch, rollouts=same), state)
    assert bool(np.any(found.gradient)) is moves


RISING: dict[str, Any] = {"gamma": 0.99, "trace": 0.9, "last_gamma": 0.9999, "last_trace": 0.999, "rise": 0.5}


@pytest.mark.parametrize(
    ("progress", "expected"),
    [(0.0, (0.99, 0.9)), (0.25, (0.999, 0.99)), (0.5, (0.9999, 0.999)), (1.0, (0.9999, 0.999))],
)
def test_discounts_rise_geometrically(progress: float, expected: tuple[float, float]) -> None:
    assert AdvantageControlVariate(**RISING).discounting(progress) == pytest.approx(expected, rel=1e-12)
    assert AdvantageControlVariate().discounting(progress) == (0.995, 0.97)


@pytest.mark.parametrize("kind", [AdvantageControlVariate, AdvantageGradient])
def test_a_batch_has_the_discount_of_its_time(kind: Any) -> None:
    directions = Gaussian(sigma=0.3) if kind is AdvantageControlVariate else Unperturbed()
    data = Collector(LinearGaussian(), POLICY, pairs=3, directions=directions)
    rising = kind(**RISING)
    now, first = (kind(gamma=gamma, trace=trace) for gamma, trace in map(rising.discounting, (0.3, 0.0)))
    batch = dataclasses.replace(data.batch(THETA), progress=0.3)
    found, expected, before = (data.estimate(e, batch, e.init(data.problem)) for e in (rising, now, first))
    assert found.gradient.tobytes() == expected.gradient.tobytes() != before.gradient.tobytes()
    assert found.metrics["gamma"] == now.gamma


def test_discounts_do_not_fall() -> None:
    wrongs: list[dict[str, Any]] = [{"last_gamma": 0.9}, {"last_trace": 0.5}, {"rise": 0.5}]
    for wrong in wrongs:
        with pytest.raises(UsageError, match=r"can only rise|read only with"):
            AdvantageControlVariate(**wrong).check()
