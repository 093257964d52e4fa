"""The control variate with a critic: what it says about its own noise."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from conftest import Collector
from linear_gaussian import POLICY, THETA, LinearGaussian

from quell.estimate.actor_critic import ActorCritic
from quell.estimate.control_variate import ControlVariate
from quell.estimate.control_variate.advantages import AdvantageColumn
from quell.estimate.critic.network import NetworkCritic
from quell.perturb import Unperturbed
from quell.perturb.gaussian import Gaussian
from quell.presets import NATURAL_CV


def natural(**settings: Any) -> ControlVariate:
    """The default's estimator."""
    return dataclasses.replace(NATURAL_CV, columns=AdvantageColumn(**settings))


@pytest.mark.parametrize("pairs", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_the_variance_it_tells_is_that_of_its_gradients(pairs: int) -> None:
    """From pairs, or, with one alone, from batch to batch: the mean of what 400 batches tell against the variance of
    their gradients, within 25% (a standard error of either is below 8%)."""
    data = Collector(LinearGaussian(), POLICY, pairs=pairs, directions=Gaussian(sigma=0.3), seed=5)
    estimator = natural(gamma=1.0, trace=1.0, critic=NetworkCritic(updates=10))
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
    assert np.isnan(data.estimate(natural(), data.batch(THETA)).metrics["variance/ratio"])


CV, PG = natural(gamma=0.9), ActorCritic(gamma=0.9)


@pytest.mark.parametrize(
    ("estimator", "reward", "moves"),
    [
        *((CV, 1.0, False), (CV, 0.0, True), (natural(gamma=1.0, trace=1.0), 1.0, True)),
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
