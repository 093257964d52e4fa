"""Log-probabilities of actions and their gradients, in JAX.

A "score" here is grad_theta log pi(a | s); policy-gradient estimates are sums of scores with per-step weights.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from quell.policy.network import Policy

LOG_2PI = 1.8378770664093453


def outputs(policy: Policy, theta: jax.Array, obs: jax.Array) -> jax.Array:
    """The network's output [..., action_size] for observations [..., obs_size]."""
    if policy.own:
        return policy.output(jnp, policy.unflatten(theta), obs)
    squash = jax.nn.relu if policy.activation == "relu" else jnp.tanh
    return policy.forward(policy.unflatten(theta), obs, squash)[1]


def log_std(policy: Policy, theta: jax.Array) -> jax.Array:
    """Log standard deviations [action_size] of a Gaussian policy."""
    fixed = not policy.learn_std
    return jnp.full(policy.action_size, jnp.log(policy.init_std)) if fixed else policy.unflatten(theta)["log_std"]


def log_prob(policy: Policy, theta: jax.Array, obs: jax.Array, actions: jax.Array) -> jax.Array:
    """log pi_theta(a | s) for each row: Gaussian density, or log-softmax at the chosen index, summed over choices."""
    out = outputs(policy, theta, obs)
    if policy.kind == "categorical":
        first = jnp.asarray([where.start for where in policy.groups])
        index = actions[..., : len(first)].astype(jnp.int32) + first
        return jnp.take_along_axis(policy.by_choice(jnp, jax.nn.log_softmax, out), index, axis=-1).sum(axis=-1)
    spread = log_std(policy, theta)
    z = (actions - out) * jnp.exp(-spread)
    return -0.5 * (z**2 + 2 * spread + LOG_2PI).sum(axis=-1)


def kl(policy: Policy, theta: jax.Array, old: jax.Array, obs: jax.Array) -> jax.Array:
    """KL(pi_theta || pi_old) for each observation row."""
    out, out_old = outputs(policy, theta, obs), outputs(policy, old, obs)
    if policy.kind == "categorical":
        log_p, log_q = (policy.by_choice(jnp, jax.nn.log_softmax, logits) for logits in (out, out_old))
        return (jnp.exp(log_p) * (log_p - log_q)).sum(axis=-1)
    s, s_old = log_std(policy, theta), log_std(policy, old)
    ratio = jnp.exp(2 * (s - s_old))
    return 0.5 * (ratio - 1 + ((out - out_old) * jnp.exp(-s_old)) ** 2 - 2 * (s - s_old)).sum(axis=-1)


@functools.lru_cache(maxsize=32)
def weighted_scores(policy: Policy) -> Callable[..., Any]:
    """Compiled (theta [m, d], obs [m, t, o], actions [m, t, a], weights [m, k, t]) -> sums [m, k, d].

    sums[m, k] = sum_t weights[m, k, t] * grad log pi_{theta_m}(a_t | s_t): one forward pass serves all k weightings.
    With an axis in front, these are gone through one after the other: whatever the company, the bits are the same.
    """

    def member(theta: jax.Array, obs: jax.Array, actions: jax.Array, weights: jax.Array) -> jax.Array:
        _, pullback = jax.vjp(lambda th: log_prob(policy, th, obs, actions), theta)
        return jax.vmap(lambda w: pullback(w)[0])(weights)

    def members(*arrays: jax.Array) -> jax.Array:
        return jax.vmap(member)(*arrays) if arrays[0].ndim == 2 else jax.lax.map(lambda one: members(*one), arrays)

    return jax.jit(members)


def about_mean(values: jax.Array, p: jax.Array) -> jax.Array:
    """x - sum p x over the last axis."""
    return values - (p * values).sum(axis=-1, keepdims=True)


@functools.lru_cache(maxsize=32)
def policy_change(policy: Policy) -> Callable[..., Any]:
    """Compiled (theta [d], obs [n, o], steps [p, d]) -> A step for each, [p, numbers], with |A step|^2 = step' F step.

    F = E_s[grad log pi grad log pi'] is the Fisher matrix over the states given: KL(theta + step, theta) is about
    step' F step / 2. Gaussian: F = E_s[D' S^-2 D] + 2 on the log-std diagonal, D the derivative of the mean.
    Categorical: F = E_s[D' (diag p - p p') D], D that of the logits, summed over choices. Deterministic: as a Gaussian
    of unit std.
    """

    def change(theta: jax.Array, obs: jax.Array, step: jax.Array) -> jax.Array:
        value, moved = jax.jvp(lambda th: outputs(policy, th, obs), (theta,), (step,))
        scale = 1 / jnp.sqrt(len(obs))
        if policy.kind == "categorical":
            p = policy.by_choice(jnp, jax.nn.softmax, value)
            return (scale * jnp.sqrt(p) * policy.by_choice(jnp, about_mean, moved, p)).ravel()
        if policy.kind == "deterministic":
            return (scale * moved).ravel()
        parts = [(scale * moved * jnp.exp(-log_std(policy, theta))).ravel()]
        if policy.learn_std:
            parts.append(jnp.sqrt(2.0) * policy.unflatten(step)["log_std"])
        return jnp.concatenate(parts)

    return jax.jit(jax.vmap(change, in_axes=(None, None, 0)))


@functools.lru_cache(maxsize=32)
def mean_kl(policy: Policy) -> Callable[..., Any]:
    """Compiled (theta, old, obs [n, o]) -> mean KL(pi_theta || pi_old)."""
    return jax.jit(lambda theta, old, obs: kl(policy, theta, old, obs).mean())


@functools.lru_cache(maxsize=32)
def fisher_product(policy: Policy) -> Callable[..., Any]:
    """Compiled (theta, obs [n, o], v [d]) -> F v: the Hessian of the mean KL at theta, times v."""

    def product(theta: jax.Array, obs: jax.Array, vector: jax.Array) -> jax.Array:
        slope = jax.grad(lambda other: kl(policy, other, theta, obs).mean())
        return jax.jvp(slope, (theta,), (vector,))[1]

    return jax.jit(product)
