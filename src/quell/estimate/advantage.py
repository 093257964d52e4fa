"""Policy gradients with a critic: generalised advantages in place of rewards-to-go.

    g = 1/2N sum over members, sum_t A_t / s grad log pi(a_t | s_t)      A_t: GAE(gamma, lambda), s: returns' spread

With a natural step this is what users of good libraries know as TRPO (Schulman et al., 2015); at theta + sigma eps it
is the control variate of `control_variate.advantage`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import numpy as np

from quell.estimate import Estimate, Needs, Problem, Rows, total_variance
from quell.estimate.critic import Critic, generalised_advantages
from quell.estimate.critic.network import NetworkCritic
from quell.estimate.policy_gradient import pair_scores, recorded_length, spread_of_good
from quell.estimate.returns import finite_pairs
from quell.registry import DISCOUNT, SHARE
from quell.types import Array, Batch, Pair, State, Sums


@dataclass(frozen=True, kw_only=True)
class WithCritic:
    """What estimators with generalised advantages share."""

    gamma: Annotated[float, DISCOUNT] = 0.99
    """Discount of the advantages; 1 together with trace 1 is unbiased."""
    trace: Annotated[float, SHARE] = 0.95
    """lambda of GAE: how far an advantage trusts rewards over the critic."""
    critic: Critic = field(default_factory=NetworkCritic)
    """The value function that advantages are measured against."""

    @property
    def biased(self) -> bool:
        return self.gamma < 1 or self.trace < 1

    def rows(self, batch: Batch, good: Array, state: State, scale: float) -> Rows:
        """What `gradients` needs: rewards up to the longest episode's end, and the critic's weights.

        Returns that are all equal have no scale and carry no information: their advantages count 0.
        """
        rollouts = batch.rollouts
        horizon, longest = rollouts.rewards.shape[1], int(rollouts.steps.max())
        rewards = rollouts.rewards[:, :longest].reshape(-1, 2, longest)
        pairs = {"good": good, "rewards": rewards, "terminated": rollouts.terminated.reshape(-1, 2)}
        counted = {"iteration": np.asarray(batch.episodes.iteration), "time": np.arange(horizon) / horizon}
        return Rows(pairs, {"scale": np.asarray(scale or np.inf)} | counted | self.critic.shared(state, batch.pairs))

    def advantages(self, xp: Any, pair: Pair, row: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """(A_t [2, t] up to the longest episode's end, what the critic learns from the pair)."""
        return self.advantages_at(self.gamma, self.trace, xp, pair, row)

    def advantages_at(
        self, gamma: float, trace: float, xp: Any, pair: Pair, row: dict[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        """`advantages` of any discount and lambda; `row` has the weights of the critic for them."""
        end = min(recorded_length(xp, pair), row["rewards"].shape[-1])
        obs, time = pair.obs[:, :end], row["time"][:end]
        running = xp.arange(end) < xp.asarray(pair.steps)[:, None]
        values = xp.where(running, self.critic.predict(xp, row, obs, time), 0.0)
        rewards = xp.where(running, row["rewards"][:, :end], 0.0)
        found = generalised_advantages(xp, rewards, values, pair.steps, row["terminated"], gamma, trace)
        return found, self.critic.terms(xp, row, obs, time, found + values, pair.steps)

    def gradients(
        self, xp: Any, problem: Problem, pair: Pair, row: dict[str, Any], thetas: Any
    ) -> tuple[Any, dict[str, Any]]:
        """(sum_t A_t / s grad log pi of both members [2, d], what the critic learns from the pair)."""
        found, learned = self.advantages(xp, pair, row)
        behind = recorded_length(xp, pair) - found.shape[1]
        weights = xp.concatenate([found / row["scale"], xp.zeros((2, behind))], axis=1)
        return pair_scores(xp, problem.policy, pair, thetas, weights[:, None])[:, 0], learned


@dataclass(frozen=True, kw_only=True)
class AdvantageGradient(WithCritic):
    """The policy gradient at theta with generalised advantages."""

    name: ClassVar[str] = "advantage-gradient"
    needs: ClassVar[Needs] = Needs(perturbed=False, trajectories=True)

    def init(self, problem: Problem) -> State:
        return self.critic.init(problem)

    def unit(self, batch: Batch, state: State) -> float:
        """What rewards are divided by."""
        return spread_of_good(batch)

    def prepare(self, problem: Problem, batch: Batch, state: State) -> Rows:
        return self.rows(batch, finite_pairs(batch.rollouts.rewards), state, self.unit(batch, state))

    def terms(self, problem: Problem, pair: Pair, row: dict[str, Any], theta: Any, xp: Any = np) -> dict[str, Any]:
        gradients, learned = self.gradients(xp, problem, pair, row, xp.stack([theta, theta]))
        wide = gradients.astype(np.float64) if xp is np else gradients
        return {"count": 2.0, "g": wide.sum(axis=0), "gg": xp.square(wide).sum(axis=0), **learned}

    def combine(self, problem: Problem, sums: Sums, rows: Rows, state: State) -> Estimate:
        count = float(sums["count"])
        metrics = {"variance/method": total_variance(sums["g"], sums["gg"], count), "gamma": self.gamma}
        if count and np.isfinite(sums["g"]).all():
            state = self.critic.update(problem, state, sums, int(rows.shared["iteration"]))
        return Estimate((sums["g"] / max(count, 1)).astype(np.float32), state, metrics)


ESTIMATORS = [AdvantageGradient]
