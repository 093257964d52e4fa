"""The Kronecker-factored Fisher metric: against the exact matrix where the form is exact, and as a metric."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from quell.policy.fisher import Metric, factors
from quell.policy.likelihood import policy_change
from quell.policy.network import Policy

DEEP = Policy(4, 3, "gaussian", (6, 5), "tanh", init_std=0.7)
POLICIES = {
    "gaussian": DEEP,
    "relu": Policy(4, 3, "gaussian", (6, 5), "relu", init_std=0.7),
    "fixed std": Policy(4, 3, "gaussian", (6,), "tanh", init_std=0.7, learn_std=False),
    "deterministic": Policy(4, 3, "deterministic", (6,), "tanh"),
    "categorical": Policy(4, 3, "categorical", (6, 5), "tanh"),
    "choices": Policy(4, 7, "categorical", (6, 5), "tanh", choices=(3, 2, 2)),
    "bits": Policy(4, 6, "categorical", (6, 5), "tanh", choices=(2, 2, 2)),
}


def sample(policy: Policy, states: int = 200, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """theta and observations, in float64."""
    rng = np.random.default_rng(seed)
    theta = rng.standard_normal(policy.dim) * 0.4
    return theta, rng.standard_normal((states, policy.obs_size)) + 0.5


def metric(policy: Policy, theta: np.ndarray, obs: np.ndarray, damping: float = 0.01) -> Metric:
    return Metric.of(policy, factors(policy)(theta, obs), damping)


def matrix(found: Metric, dim: int, power: float = 1.0) -> np.ndarray:
    return found.apply(np.eye(dim), power)


def exact(policy: Policy, theta: np.ndarray, obs: np.ndarray) -> np.ndarray:
    """F = A'A from the Jacobian of what a change of theta does to the policy; written without any factor."""
    mapped = policy_change(policy)(
        theta.astype(np.float32), obs.astype(np.float32), np.eye(policy.dim, dtype=np.float32)
    )
    return np.asarray(mapped, np.float64) @ np.asarray(mapped, np.float64).T


@pytest.mark.parametrize("kind", ["gaussian", "deterministic"])
def test_exact_for_one_layer(kind: Any) -> None:
    """With one layer and a std that does not depend on the state F is a Kronecker product; both actions of it."""
    policy = Policy(3, 2, kind, (), init_std=0.6)
    theta, obs = sample(policy)
    assert matrix(metric(policy, theta, obs, 0.0), policy.dim) == pytest.approx(exact(policy, theta, obs), abs=1e-5)


def test_exact_for_a_choice_at_one_state() -> None:
    """A categorical policy's B depends on the state, so its form is exact where there is one."""
    policy = Policy(3, 4, "categorical", ())
    theta, obs = sample(policy, states=1)
    assert matrix(metric(policy, theta, obs, 0.0), policy.dim) == pytest.approx(exact(policy, theta, obs), abs=1e-5)


@pytest.mark.parametrize("name", POLICIES)
def test_backward_passes_of_every_layer(name: str) -> None:
    """At a single state sum_k (h h') x (g_k g_k') = A x G, so every layer's block is exact, however deep."""
    policy = POLICIES[name]
    theta, obs = sample(policy, states=1)
    found, true = matrix(metric(policy, theta, obs, 0.0), policy.dim), exact(policy, theta, obs)
    for layer in range(len(policy.layers)):
        where = slice(policy.layout[f"w{layer}"][0].start, policy.layout[f"b{layer}"][0].stop)
        assert np.abs(true[where, where]).max() > 1e-3
        assert found[where, where] == pytest.approx(true[where, where], abs=1e-5)


@pytest.mark.parametrize("name", POLICIES)
def test_blocks(name: str) -> None:
    """Symmetric, positive definite, nothing between layers, 2 for every log std."""
    policy = POLICIES[name]
    theta, obs = sample(policy)
    found = matrix(metric(policy, theta, obs), policy.dim)
    assert found == pytest.approx(found.T, abs=1e-12)
    assert np.linalg.eigvalsh(found).min() >= 0.01 - 1e-9
    ends = [policy.layout[f"b{layer}"][0].stop for layer in range(len(policy.layers))]
    for end in ends:
        assert not found[:end, end:].any()
    if "log_std" in policy.layout:
        where = policy.layout["log_std"][0]
        assert found[where, where] == pytest.approx(2.01 * np.eye(policy.action_size))
        assert exact(policy, theta, obs)[where, where] == pytest.approx(2 * np.eye(policy.action_size), abs=1e-5)


@pytest.mark.parametrize("name", POLICIES)
def test_additive_over_shards(name: str) -> None:
    policy = POLICIES[name]
    theta, obs = sample(policy)
    whole = factors(policy)(theta, obs)
    parts = [factors(policy)(theta, part) for part in np.array_split(obs, 7)]
    assert whole.keys() == parts[0].keys()
    for key, value in whole.items():
        assert sum(part[key] for part in parts) == pytest.approx(value)
    padded = factors(policy)(theta, np.concatenate([obs, np.full((5, 4), 9.0)]), np.repeat([1.0, 0.0], [len(obs), 5]))
    assert all(padded[key] == pytest.approx(value) for key, value in whole.items())


def test_powers() -> None:
    theta, obs = sample(DEEP)
    found, rng = metric(DEEP, theta, obs), np.random.default_rng(1)
    v = rng.standard_normal((5, DEEP.dim)).astype(np.float32)
    half = found.apply(v, -0.5)
    assert half.dtype == np.float64
    assert found.apply(half, -0.5) == pytest.approx(found.apply(v, -1))
    assert found.apply(found.apply(v, -1), 1) == pytest.approx(v)
    assert np.square(half).sum(axis=1) == pytest.approx((v * found.apply(v, -1)).sum(axis=1))
    assert found.apply(v[0], -1) == pytest.approx(found.apply(v, -1)[0])
    dense = np.linalg.inv(matrix(found, DEEP.dim))
    assert found.apply(v, -1) == pytest.approx(v @ dense)


@pytest.mark.parametrize("name", POLICIES)
def test_the_same_in_jax(name: str) -> None:
    """Under `vmap` too: an accelerator may sum them."""
    policy = POLICIES[name]
    theta, obs = (x.astype(np.float32) for x in sample(policy, states=12))
    mapped = jax.vmap(lambda part: factors(policy)(theta, part, xp=jnp))(obs.reshape(3, 4, -1))
    for key, value in factors(policy)(theta, obs).items():
        assert np.asarray(mapped[key].sum(axis=0)) == pytest.approx(value, rel=1e-4, abs=1e-4)


def test_last_layer_of_a_network_is_exact() -> None:
    """What reaches a Gaussian's last layer is 1/std at every state, so its block is exact over many of them too."""
    theta, obs = sample(DEEP, states=2000)
    found, true = matrix(metric(DEEP, theta, obs, 0.0), DEEP.dim), exact(DEEP, theta, obs)
    where = metric(DEEP, theta, obs).blocks[-1].where
    assert found[where, where] == pytest.approx(true[where, where], abs=1e-4)
