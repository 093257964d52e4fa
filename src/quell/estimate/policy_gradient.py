"""PG: the likelihood-ratio policy gradient (eq. 5), and the pieces of it that the control variate reuses.

    PG = sum_t gamma^t (G_t - b_t) grad log pi(a_t | s_t),    G_t = sum_{t' >= t} gamma^{t'-t} r_{t'}

At theta + sigma eps_i and averaged over i it is RE (eq. 7), an estimate of the same gradient as ES.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from quell.estimate import Estimate, State, total_variance
from quell.policy import Policy
from quell.reduce import Sums, accumulate
from quell.returns import alive, discounts, finite_pairs, leave_one_out, leave_pair_out, reward_to_go
from quell.types import Batch

Array = NDArray[Any]
Baseline = Literal["none", "leave-one-out"]


@dataclass(frozen=True)
class Advantages:
    """Reward-to-go less its baseline, for every discount, member and step (0 after the end)."""

    togo: Array  # [k, 2N, t]: G_t
    values: Array  # [k, 2N, t]: G_t - b_t
    good: Array  # bool [N] pairs whose rewards are finite


def advantages(batch: Batch, gammas: Sequence[float], baseline: Baseline) -> Advantages:
    """G_t - b_t with b_t = 0, or the mean of G_t over the other members still running at step t.

    Where the members of a pair share their action noise, the mean is over the other pairs instead. The members of bad
    pairs (non-finite rewards) are left out of everybody's baseline.
    """
    rewards = batch.rollouts.rewards
    good = finite_pairs(rewards)
    members = np.repeat(good, 2)
    togo = reward_to_go(np.where(members[:, None], rewards, 0.0), gammas)
    if baseline == "none":
        return Advantages(togo, togo, good)
    running = alive(batch.rollouts.steps, rewards.shape[1]) & members[:, None]
    total, count = togo.sum(axis=1, keepdims=True), running.sum(axis=0)
    others = leave_pair_out(total, count, togo, running) if batch.shared_noise else leave_one_out(total, count, togo)
    return Advantages(togo, np.where(running, togo - others, 0.0), good)


def step_weights(values: Array, gammas: Sequence[float]) -> Array:
    """gamma^t * (G_t - b_t): what multiplies each step's score, [k, n, t]."""
    return np.stack([discounts(gamma, values.shape[-1]) for gamma in gammas])[:, None] * values


def pair_scores(policy: Policy, batch: Batch, pair: int, thetas: Array, weights: Array) -> Array:
    """sum_t weights[k, t] grad log pi_{theta_m}(a_t | s_t) for the two members of a pair: [2, k, d] float32.

    Steps are padded to a power of two (at most the horizon), so that few shapes are ever compiled; padding weighs 0.
    The shape depends on the pair alone, never on who computes it, which keeps results bit-identical.
    """
    from quell.scores import weighted_scores

    trajectories = batch.rollouts.trajectories
    assert trajectories is not None, "this estimator needs recorded trajectories"
    rows = slice(2 * pair, 2 * pair + 2)
    length = padded_length(int(batch.rollouts.steps[rows].max()), trajectories.obs.shape[1])
    sums = weighted_scores(policy)(
        thetas,
        trajectories.obs[rows, :length],
        trajectories.actions[rows, :length],
        np.ascontiguousarray(weights[:, :, :length].transpose(1, 0, 2), np.float32),
    )
    return np.asarray(sums)


def padded_length(steps: int, horizon: int) -> int:
    """The next power of two from 64 up, at most the horizon."""
    return min(max(64, 1 << (max(steps, 1) - 1).bit_length()), horizon)


@dataclass(frozen=True)
class PolicyGradient:
    """Vanilla PG at theta from 2N full episodes, one update per batch.

    Rewards are divided by the standard deviation of the batch's returns, as the other methods' are.
    """

    policy: Policy
    gamma: float = 0.99
    baseline: Baseline = "none"
    perturbs = False
    records = True
    updates = 1

    def init(self) -> State:
        return {}

    def prepare(self, batch: Batch, state: State) -> tuple[Advantages, Array]:
        prepared = advantages(batch, [self.gamma], self.baseline)
        returns = batch.rollouts.returns[np.repeat(prepared.good, 2)]
        spread = returns.std() if len(returns) else 0.0
        weights = step_weights(prepared.values, [self.gamma])
        return prepared, weights / spread if spread > 0 else np.zeros_like(weights)

    def contribution(
        self, batch: Batch, prepared: tuple[Advantages, Array], pairs: Iterable[int], theta: Array
    ) -> Sums:
        found, weights = prepared
        sums: Sums = {"count": np.zeros(()), "g": np.zeros(len(theta)), "gg": np.zeros(len(theta))}
        thetas = np.stack([theta, theta])
        for pair in pairs:
            if found.good[pair]:
                for g in pair_scores(self.policy, batch, pair, thetas, weights[:, 2 * pair : 2 * pair + 2])[:, 0]:
                    accumulate(sums, count=1.0, g=g, gg=np.square(g, dtype=np.float64))
        return sums

    def combine(self, sums: Sums, prepared: Any, state: State) -> Estimate:
        count = float(sums["count"])
        metrics = {"variance/method": total_variance(sums["g"], sums["gg"], count)}
        return Estimate((sums["g"] / max(count, 1)).astype(np.float32), state, metrics)
