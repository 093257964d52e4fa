"""Shared by the tests: one number that any changed bit changes."""

from __future__ import annotations

import hashlib

import numpy as np

from quell.types import Rollouts


def digest_of_rollouts(rollouts: Rollouts) -> str:
    """Of everything that episodes left behind."""
    digest = hashlib.sha256()
    paths = rollouts.trajectories
    arrays = [rollouts.rewards, rollouts.steps, rollouts.terminated, rollouts.obs_sums, rollouts.states]
    arrays += [paths.obs, paths.actions] if paths is not None else []
    for array in arrays:
        if array is not None:
            digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
