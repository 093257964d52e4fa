"""The policy's own metric: how much a change of theta changes what the policy does.

    F = E_s[ grad log pi grad log pi' ],    KL(pi_{theta + delta}, pi_theta) = delta' F delta / 2 + ...

F = A'A for a matrix A that is never formed: A g is one Jacobian-vector product over a sample of states
(`quell.policy.likelihood.policy_change`). The variance of an estimator in this metric is tr(F Cov g), the total variance of A g.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quell.policy import Policy
from quell.rollout import CpuEngine
from quell.training.methods import make_directions
from quell.types import Episodes
from quell.variances.points import Point

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
    """A g for every row g of `gradients`: [m, numbers], so that |A g|^2 = g'Fg; a few at a time."""
    from quell.policy.likelihood import policy_change

    change = policy_change(policy)
    parts = [change(theta, states, np.asarray(gradients[i : i + 8], np.float32)) for i in range(0, len(gradients), 8)]
    return np.concatenate([np.asarray(part) for part in parts])


def kl_length(policy: Policy, theta: Array, states: Array, step: Array) -> float:
    """sqrt(2 KL) of a small step, to second order: |A step|."""
    return float(np.linalg.norm(in_metric(policy, theta, states, step[None])[0].astype(np.float64)))
