"""PPO and TRPO: what their gradients are at the old policy, and what clipping and penalty do away from it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import Collector
from linear_gaussian import POLICY, THETA, LinearGaussian

from quell.estimate.surrogate import PaperPpo, PaperTrpo
from quell.perturb import Unperturbed
from quell.policy.likelihood import log_prob

DATA = Collector(LinearGaussian(), POLICY, pairs=6, directions=Unperturbed())


def test_surrogates_reduce_to_the_plain_gradient_on_the_first_update() -> None:
    """At theta = old, PPO's and TRPO's gradients are both the mean of A_t grad log pi."""
    batch = DATA.batch(THETA)
    ppo = DATA.estimate(PaperPpo(), batch).gradient
    trpo = DATA.estimate(PaperTrpo(kl_penalty=1.0), batch).gradient
    assert ppo == pytest.approx(trpo, rel=1e-4)
    rows = PaperPpo().prepare(DATA.problem, batch, {})
    values = rows.pairs["values"].reshape(12, -1)
    paths = batch.rollouts.trajectories
    assert paths is not None

    def mean(theta: jax.Array) -> jax.Array:
        return (
            values * log_prob(POLICY, theta, jnp.asarray(paths.obs), jnp.asarray(paths.actions))
        ).sum() / rows.shared["steps"]

    assert ppo == pytest.approx(np.asarray(jax.grad(mean)(THETA)), rel=1e-3, abs=1e-5)


def test_clipping_and_the_penalty_act_away_from_the_old_policy() -> None:
    batch = DATA.batch(THETA)
    far = THETA + np.float32(0.5)
    clipped = DATA.estimate(PaperPpo(clip=0.2), batch, theta=far).gradient
    free = DATA.estimate(PaperPpo(clip=1e9), batch, theta=far).gradient
    assert np.linalg.norm(clipped - free) > 0.1 * np.linalg.norm(free)
    loose = DATA.estimate(PaperTrpo(kl_penalty=0.0), batch, theta=far)
    tight = DATA.estimate(PaperTrpo(kl_penalty=10.0), batch, theta=far)
    towards_old = (THETA - far) @ (tight.gradient - loose.gradient)
    assert towards_old > 0
    assert tight.metrics["pg/kl"] > 0.1


def test_advantages_are_centred_on_request() -> None:
    batch = DATA.batch(THETA)
    for centred in (False, True):
        rows = PaperPpo(normalise_advantages=centred).prepare(DATA.problem, batch, {})
        values = rows.pairs["values"][rows.pairs["mask"] > 0].astype(float)
        assert values.std() == pytest.approx(1, rel=1e-4)
        assert (abs(values.mean()) < 1e-5) == centred


def test_several_updates_are_what_it_needs() -> None:
    assert PaperPpo(updates=7).needs.updates == 7
    assert PaperPpo().needs.updates == 1
    assert PaperPpo().needs.trajectories
    assert not PaperPpo().needs.perturbed
