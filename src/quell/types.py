"""The values that flow between the steps of an iteration: perturb -> rollout -> estimate -> update."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quell.perturb import Directions

Array = NDArray[Any]


@dataclass(frozen=True)
class Episodes:
    """What an engine is asked to run: one episode per (pair, sign).

    A member's parameters are theta + sigma * eps(iteration, pair, sign), or theta itself where sign is 0 or sigma is 0.
    `shared_reset` gives both members of a pair the same environment randomness (reset and process noise), and
    `shared_noise` the same action noise (common random numbers).
    """

    iteration: int
    members: tuple[tuple[int, int], ...]
    sigma: float
    record: bool = False
    evaluation: bool = False
    mean_action: bool = False
    shared_reset: bool = True
    shared_noise: bool = False

    @staticmethod
    def of_pairs(
        iteration: int, pairs: int, sigma: float, *, record: bool, shared_reset: bool, shared_noise: bool = False
    ) -> Episodes:
        """Both members of every pair, plus first: the order every array over members has."""
        members = tuple((pair, sign) for pair in range(pairs) for sign in (1, -1))
        return Episodes(iteration, members, sigma, record=record, shared_reset=shared_reset, shared_noise=shared_noise)

    @staticmethod
    def of_evaluation(iteration: int, episodes: int, *, mean_action: bool) -> Episodes:
        """Episodes of the unperturbed policy."""
        members = tuple((episode, 0) for episode in range(episodes))
        return Episodes(iteration, members, 0.0, evaluation=True, mean_action=mean_action)


@dataclass(frozen=True)
class Trajectories:
    """Recorded episodes, padded with zeros after their last step; what the policy saw and did."""

    obs: Array  # [n, t, o] float32, as the policy saw them (normalised if it normalises)
    actions: Array  # [n, t, a] float32, before any clipping by the environment


@dataclass(frozen=True)
class Rollouts:
    """Results of n episodes. Entries after an episode's last step are zero and count for nothing."""

    rewards: Array  # [n, t] float64
    steps: NDArray[np.int64]  # [n] real environment steps
    terminated: NDArray[np.bool_]  # [n] ended by the environment, as opposed to cut off at the horizon
    trajectories: Trajectories | None
    obs_sums: Array  # [n, 2, o] float64: sum and sum of squares of raw observations

    def copied(self) -> Rollouts:
        """The same results in memory of their own: an engine reuses its arrays."""
        kept = {name: getattr(self, name).copy() for name in ("rewards", "steps", "terminated", "obs_sums")}
        paths = self.trajectories
        return Rollouts(**kept, trajectories=Trajectories(paths.obs.copy(), paths.actions.copy()) if paths else None)

    @property
    def returns(self) -> Array:
        """Undiscounted returns J_i, [n]."""
        return self.rewards.sum(axis=1)


@dataclass(frozen=True)
class Batch:
    """All that an estimator may see of one iteration; members are ordered pair 0 +, pair 0 -, pair 1 +, ..."""

    theta: Array  # [d] float32, where the directions are centred
    sigma: float
    iteration: int
    directions: Directions
    rollouts: Rollouts
    shared_noise: bool = False  # the members of a pair acted with the same noise, so they are not independent

    @property
    def pairs(self) -> int:
        return len(self.rollouts.steps) // 2
