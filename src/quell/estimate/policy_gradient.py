"""PG: the likelihood-ratio policy gradient (eq. 5), and the pieces of it that the control variate reuses.

    PG = sum_t gamma^t (G_t - b_t) grad log pi(a_t | s_t),    G_t = sum_{t' >= t} gamma^{t'-t} r_{t'}

At theta + sigma eps_i and averaged over i it is RE (eq. 7), an estimate of the same gradient as ES.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from quell.estimate import Estimate, Needs, Problem, Rows, total_variance
from quell.estimate.returns import alike, alive, discounts, finite_pairs, mean_of_others, reward_to_go
from quell.policy.network import Policy
from quell.registry import DISCOUNT
from quell.stats import spread
from quell.types import Array, Batch, Pair, State, Sums, namespace

Baseline = Literal["none", "leave-one-out"]
Scaling = Literal["normalise", "none"]


def advantages(batch: Batch, gammas: Sequence[float], baseline: Baseline) -> tuple[Array, Array, Array]:
    """(G_t, G_t - b_t [k, 2N, t], 0 after the end; which pairs [N] have finite rewards).

    b_t is 0, or the mean of G_t over the other members still running at step t: without those of bad pairs and, where
    the members of a pair share their action noise, without the partner.
    """
    rewards, xp = batch.rollouts.rewards, namespace(batch.rollouts.rewards)
    good = finite_pairs(rewards)
    members = xp.repeat(good, 2)
    to_go = reward_to_go(xp.where(members[:, None], rewards, 0.0), gammas)
    if baseline == "none":
        return to_go, to_go, good
    running = alive(batch.rollouts.steps, rewards.shape[1]) & members[:, None]
    others = mean_of_others(to_go, running, whole_pairs=batch.episodes.shared_noise)
    return to_go, xp.where(running, to_go - others, 0.0), good


def spread_of_good(batch: Batch) -> Any:
    """Standard deviation of the good pairs' returns; 0 if there are none, or all are alike."""
    returns, xp = batch.rollouts.returns, namespace(batch.rollouts.rewards)
    members = xp.repeat(finite_pairs(batch.rollouts.rewards), 2)
    if xp is np:
        chosen = returns[members]
        return spread(chosen) if len(chosen) and not alike(chosen) else 0.0
    largest = xp.where(members, xp.abs(returns), 0.0).max()  # keeps squares of huge returns finite
    unit = returns / xp.where(largest > 0, largest, 1.0)
    found = xp.std(unit, where=members) * largest
    return xp.where(alike(returns, members) | ~members.any(), 0.0, found)


def step_weights(values: Array, gammas: Sequence[float]) -> Array:
    """gamma^t * (G_t - b_t): what multiplies each step's score, [k, n, t]."""
    xp = namespace(values)
    return xp.stack([discounts(xp, gamma, values.shape[-1]) for gamma in gammas])[:, None] * values


def by_pair(values: Array) -> Array:
    """[k, 2N, t] -> [N, 2, k, t]: pairs in front, then members."""
    return values.reshape(len(values), -1, 2, *values.shape[2:]).transpose(1, 2, 0, *range(3, values.ndim + 1))


def pair_scores(xp: Any, policy: Policy, pair: Pair, thetas: Any, weights: Any) -> Any:
    """sum_t weights[m, k, t] grad log pi_{theta_m}(a_t | s_t) for the members of a pair: [..., 2, k, d] float32.

    Steps are padded to a power of two (at most the horizon), so that few shapes are ever compiled; padding weighs 0.
    The shape depends on the pair alone, never on who computes it, which keeps results bit-identical.
    """
    from quell.policy.likelihood import weighted_scores

    end = recorded_length(xp, pair)
    obs, actions, counted = pair.obs[..., :end, :], pair.actions[..., :end, :], weights[..., :end]
    return xp.asarray(weighted_scores(policy)(thetas, obs, actions, xp.asarray(counted, xp.float32)))


def recorded_length(xp: Any, pair: Pair) -> int:
    """How many steps of a pair are looked at: in NumPy the next power of two, in JAX all."""
    assert pair.obs is not None, "this estimator needs recorded trajectories"
    horizon = int(pair.obs.shape[-2])
    return padded_length(int(pair.steps.max()), horizon) if xp is np else horizon


def padded_length(steps: int, horizon: int, least: int = 64) -> int:
    """The next power of two from `least` up, at most the horizon."""
    return min(max(least, 1 << (max(steps, 1) - 1).bit_length()), horizon)


@dataclass(frozen=True, kw_only=True)
class PolicyGradient:
    """Vanilla PG at theta from 2N full episodes, one update per batch."""

    name: ClassVar[str] = "policy-gradient"
    needs: ClassVar[Needs] = Needs(perturbed=False, trajectories=True)
    gamma: Annotated[float, DISCOUNT] = 0.99
    """Discount of the reward-to-go."""
    baseline: Baseline = "none"
    """Baseline of the reward-to-go: none, or the mean over the other members at the same step."""
    shaping: Scaling = "normalise"
    """What is done to the rewards of a batch: divided by the spread of its returns, or nothing."""

    @property
    def biased(self) -> bool:
        return self.gamma < 1 or self.shaping != "none"

    def init(self, problem: Problem) -> State:
        return {}

    def unit(self, batch: Batch, state: State) -> float:
        """What rewards are divided by."""
        return spread_of_good(batch) if self.shaping == "normalise" else 1.0

    def prepare(self, problem: Problem, batch: Batch, state: State) -> Rows:
        (_, values, good), scale = advantages(batch, [self.gamma], self.baseline), self.unit(batch, state)
        weights = step_weights(values, [self.gamma])
        weights = weights / scale if scale > 0 else np.zeros_like(weights)
        return Rows({"weights": by_pair(weights), "good": good})

    def terms(self, problem: Problem, pair: Pair, row: dict[str, Any], theta: Any, xp: Any = np) -> dict[str, Any]:
        scores = pair_scores(xp, problem.policy, pair, xp.stack([theta, theta]), row["weights"])[:, 0]
        wide = scores.astype(np.float64) if xp is np else scores
        return {"count": 2.0, "g": wide.sum(axis=0), "gg": xp.square(wide).sum(axis=0)}

    def combine(self, problem: Problem, sums: Sums, rows: Rows, state: State) -> Estimate:
        count = float(sums["count"])
        metrics = {"variance/method": total_variance(sums["g"], sums["gg"], count)}
        return Estimate((sums["g"] / max(count, 1)).astype(np.float32), state, metrics)


ESTIMATORS = [PolicyGradient]
