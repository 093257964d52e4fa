"""What steps are tested at: two policies, states that they saw, and gradients."""

from __future__ import annotations

import numpy as np

from quell.keys import Purpose, generator
from quell.policy import Policy
from quell.types import Array
from quell.update import Context

GAUSSIAN = Policy(5, 3, hidden=(8, 8), activation="tanh", init_std=0.5)
CATEGORICAL = Policy(5, 4, "categorical", hidden=(8,), activation="tanh")


def context(policy: Policy, *, steps: int = 0, states: int = 400) -> Context:
    rng = np.random.default_rng(3)
    theta = policy.init(generator(0, Purpose.INIT))
    seen = rng.standard_normal((states, policy.obs_size)).astype(np.float32)
    return Context(policy, steps, 1000, theta, seen)


def gradient_of(policy: Policy, seed: int = 1) -> Array:
    return np.random.default_rng(seed).standard_normal(policy.dim).astype(np.float32)
