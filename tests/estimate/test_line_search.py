"""The surrogate that TRPO's steps are judged by: its definition, its slope, and what it does to a run."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from conftest import Collector
from linear_gaussian import POLICY, THETA, LinearGaussian

from quell.errors import UsageError
from quell.estimate.actor_critic import ActorCritic
from quell.perturb import Unperturbed
from quell.policy.likelihood import log_prob
from quell.training.methods import make_config

DATA = Collector(LinearGaussian(), POLICY, pairs=6, directions=Unperturbed())
SEARCHING = ActorCritic(line_search=True)


def test_it_is_the_mean_importance_weighted_advantage() -> None:
    batch = DATA.batch(THETA)
    steps = DATA.sums(SEARCHING, batch)["collected.steps"]
    obs, actions, played = steps[:, : POLICY.obs_size], steps[:, POLICY.obs_size : -2], steps[:, -2]
    moved = THETA + 0.05 * np.random.default_rng(0).standard_normal(len(THETA)).astype(np.float32)
    ratio = np.exp(np.asarray(log_prob(POLICY, *map(jnp.asarray, (moved, obs, actions)))) - played)
    found = DATA.estimate(SEARCHING, batch).caution.surrogate
    assert found is not None
    assert found(THETA) == pytest.approx(0, abs=1e-4)
    assert found(moved) == pytest.approx(((ratio - 1) * steps[:, -1]).mean(), rel=1e-3)


def test_its_slope_is_the_gradient() -> None:
    """Up to the unit of rewards, and an episode's length: the gradient adds up an episode's steps."""
    found = DATA.estimate(SEARCHING, DATA.batch(THETA))
    gain = found.caution.surrogate
    assert gain is not None
    direction = found.gradient / np.linalg.norm(found.gradient)
    cross = np.random.default_rng(1).standard_normal(len(THETA))
    cross -= (cross @ direction) * direction
    ahead, aside = (
        (gain((THETA + 0.01 * way).astype("f4")) - gain((THETA - 0.01 * way).astype("f4"))) / 0.02
        for way in (direction, cross / np.linalg.norm(cross))
    )
    assert ahead > 0
    assert abs(aside) < 0.02 * ahead


def test_without_it_nothing_is_collected() -> None:
    """And the gradient is the same."""
    plain, batch = ActorCritic(), DATA.batch(THETA)
    assert "collected.steps" not in DATA.sums(plain, batch)
    assert DATA.estimate(plain, batch).caution.surrogate is None
    np.testing.assert_array_equal(DATA.estimate(plain, batch).gradient, DATA.estimate(SEARCHING, batch).gradient)


def test_a_step_that_does_not_search_is_told_so() -> None:
    assert make_config("hopper", "trpo").validate().estimator.line_search  # type: ignore[attr-defined]
    plain = make_config("hopper", "trpo", overrides={"step": "adam"}).validate()
    assert not plain.estimator.line_search  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match="not read with step adam"):
        make_config("hopper", "trpo", overrides={"step": "adam", "line_search": True}).validate()
