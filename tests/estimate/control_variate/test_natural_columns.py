"""The control variate with a critic: what it says about its own noise."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from conftest import Collector
from linear_gaussian import POLICY, THETA, LinearGaussian

from quell.estimate.control_variate import ControlVariate
from quell.estimate.control_variate.advantages import AdvantageColumn
from quell.estimate.critic.network import NetworkCritic
from quell.perturb.gaussian import Gaussian
from quell.presets import NATURAL_CV
from quell.update import Context
from quell.update.natural import Natural


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


def test_one_pair_has_no_variance_ratio_at_first() -> None:
    data = Collector(LinearGaussian(), POLICY, pairs=1, directions=Gaussian(sigma=0.3))
    assert np.isnan(data.estimate(natural(), data.batch(THETA)).metrics["variance/ratio"])


def test_batches_without_a_difference_teach_no_coefficients() -> None:
    """There ES says nothing, so it would look free of noise: coefficients would go to 0, and leave the policy gradient
    out where rewards are rare."""
    data = Collector(LinearGaussian(), POLICY, pairs=4, directions=Gaussian(sigma=0.3))
    estimator, step = natural(), Natural()
    state, seen = estimator.init(data.problem), step.init(POLICY, THETA)
    moving = np.ones_like(THETA)
    for iteration in range(3):
        batch = data.batch(THETA, iteration, states=20)
        states = batch.rollouts.states
        assert states is not None
        context = Context(POLICY, 0, 1000, THETA, states.reshape(-1, states.shape[-1]))
        _, seen, _ = step.step(THETA, moving, seen, context)
        same = dataclasses.replace(batch.rollouts, rewards=np.zeros_like(batch.rollouts.rewards))
        flat = dataclasses.replace(batch, rollouts=same, metric=step.metric(POLICY, seen))
        found = data.estimate(estimator, flat, state)
        state = found.state
        assert np.any(found.gradient)
        assert found.metrics["eta/mean"] == -1
    assert state["scale"] == 0
    ordinary = dataclasses.replace(data.batch(THETA, 3), metric=step.metric(POLICY, seen))
    known = data.estimate(estimator, ordinary, state).state
    assert (known["products"] != state["products"]).any()
    after = data.estimate(estimator, flat, known).state
    assert (after["products"] == known["products"]).all()
    assert after["scale"] == known["scale"] > 0
