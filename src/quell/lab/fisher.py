"""The policy's own metric: how much a change of theta changes what the policy does.

    F = E_s[ grad log pi grad log pi' ],    KL(pi_{theta + delta}, pi_theta) = delta' F delta / 2 + ...

For a Gaussian policy F = E_s[D' S^-2 D] + 2 on the log-std diagonal, D the derivative of the mean; for a categorical
one F = E_s[D' (diag p - p p') D], D that of the logits. Both are A'A for a matrix A that is never formed: A g is one
Jacobian-vector product over a sample of states. A deterministic policy is treated as a Gaussian of unit std.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quell.lab.points import Point
from quell.methods import make_directions
from quell.policy import Policy
from quell.rollout import CpuEngine
from quell.types import Episodes

Array = NDArray[Any]
STATES = 512


def visited_states(point: Point, *, episodes: int, workers: int, seed_block: int = 0) -> Array:
    """Observations [STATES, o] as the policy saw them, evenly spread over some of its unperturbed episodes."""
    directions = make_directions(point.config, point.policy)
    members = tuple((episode, 0) for episode in range(episodes))
    request = Episodes(seed_block, members, 0.0, record=True, evaluation=True)
    with CpuEngine(point.task, point.policy, directions, workers=workers, members=episodes) as engine:
        rollouts = engine.rollout(point.theta, request, point.obs_stats)
        assert rollouts.trajectories is not None
        seen = np.concatenate([rollouts.trajectories.obs[i, :end] for i, end in enumerate(rollouts.steps)])
    return seen[np.linspace(0, len(seen) - 1, STATES).astype(int)]


def in_metric(policy: Policy, theta: Array, states: Array, gradients: Array) -> Array:
    """A g for every row g of `gradients`: [m, numbers], so that |A g|^2 = g'Fg."""
    import jax
    import jax.numpy as jnp

    from quell.scores import log_std, outputs

    centre, seen = jnp.asarray(theta), jnp.asarray(states)

    def transformed(g: jax.Array) -> jax.Array:
        value, change = jax.jvp(lambda th: outputs(policy, th, seen), (centre,), (g,))
        if policy.kind == "categorical":
            p = jax.nn.softmax(value)
            centred = change - (p * change).sum(axis=-1, keepdims=True)
            return (jnp.sqrt(p) * centred).ravel() / jnp.sqrt(len(states))
        if policy.kind == "deterministic":
            return change.ravel() / jnp.sqrt(len(states))
        parts = [(change * jnp.exp(-log_std(policy, centre))).ravel() / jnp.sqrt(len(states))]
        if policy.learn_std:
            parts.append(jnp.sqrt(2.0) * policy.unflatten(g)["log_std"])
        return jnp.concatenate(parts)

    compiled = jax.jit(transformed)
    return np.stack([np.asarray(compiled(np.asarray(g, np.float32))) for g in gradients])


def kl_length(policy: Policy, theta: Array, states: Array, step: Array) -> float:
    """sqrt(2 KL) of a small step, to second order: |A step|."""
    return float(np.linalg.norm(in_metric(policy, theta, states, step[None])[0].astype(np.float64)))
