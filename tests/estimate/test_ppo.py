"""PPO with epochs of minibatches: against an update written out with optax, and what ends a batch early."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from conftest import Collector
from linear_gaussian import POLICY, THETA, LinearGaussian

from quell.estimate.ppo import Ppo
from quell.keys import Purpose, generator
from quell.perturb import Unperturbed
from quell.policy.likelihood import log_prob

STEPS = 2 * 6 * 6  # members of six pairs, six steps each


DATA = Collector(LinearGaussian(), POLICY, pairs=6, directions=Unperturbed())


def test_an_update_equals_optax() -> None:
    """Two epochs of three minibatches, clipped, on advantages of mean 0 and spread 1, played by theta."""
    settings = Ppo(epochs=2, minibatch=STEPS // 3, lr=0.05, clip=0.1, longest=0.3)
    batch = DATA.batch(THETA)
    steps = DATA.sums(settings, batch)["collected.steps"]
    assert len(steps) == STEPS
    obs, actions, played = steps[:, : POLICY.obs_size], steps[:, POLICY.obs_size : -2], steps[:, -2]
    assert played == pytest.approx(
        np.asarray(log_prob(POLICY, *map(jnp.asarray, (THETA, obs, actions)))), rel=1e-4, abs=1e-5
    )
    advantage = (steps[:, -1] - steps[:, -1].mean()) / steps[:, -1].std()

    def loss(theta: Any, rows: Any) -> Any:
        ratio = jnp.exp(log_prob(POLICY, theta, obs[rows], actions[rows]) - played[rows])
        a = advantage[rows]
        return -jnp.minimum(ratio * a, jnp.clip(ratio, 0.9, 1.1) * a).mean()

    rule = optax.chain(optax.clip_by_global_norm(0.3), optax.adam(0.05, eps=1e-5))
    theta, memory = jnp.asarray(THETA), rule.init(jnp.asarray(THETA))
    rng = generator(DATA.problem.seed, Purpose.EPOCHS, 0)
    for _ in range(2):
        for rows in rng.permutation(STEPS).reshape(3, -1):
            change, memory = rule.update(jax.grad(loss)(theta, rows), memory)
            theta = optax.apply_updates(theta, change)
    found = DATA.estimate(settings, batch)
    assert found.gradient == pytest.approx(np.asarray(theta) - THETA, rel=2e-3, abs=2e-5)
    assert np.linalg.norm(found.gradient) > 0.1
    assert found.metrics["pg/updates"] == 6


def test_a_divergence_ends_the_batch() -> None:
    free = Ppo(epochs=20, minibatch=STEPS, lr=0.05)
    batch = DATA.batch(THETA)
    assert DATA.estimate(free, batch).metrics["pg/updates"] == 20
    stopped = DATA.estimate(dataclasses.replace(free, kl_stop=0.02), batch).metrics
    assert 1 < stopped["pg/updates"] < 20
    assert 0.02 < stopped["pg/kl"] < 0.1  # it stops right behind


def test_clipping_shortens_the_way() -> None:
    """Many epochs on one batch go on for ever, unless ratios are clipped."""
    batch = DATA.batch(THETA)
    lengths = [
        np.linalg.norm(DATA.estimate(Ppo(epochs=200, minibatch=STEPS, lr=0.03, clip=clip), batch).gradient)
        for clip in (0.1, 1e6)
    ]
    assert lengths[0] < 0.5 * lengths[1]
