"""The policy gradient at theta with a critic's advantages.

    g = 1/2N sum over members, sum_t A_t / s grad log pi(a_t | s_t)      A_t: GAE(gamma, lambda), s: returns' spread

With a natural step that also gains by the surrogate (`line_search`) this is what users of good libraries know as TRPO
(Schulman et al., 2015).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from quell.estimate import Estimate, Needs, Problem, Rows, total_variance
from quell.estimate.advantages import WithCritic, played_steps, surrogate
from quell.estimate.flat import nothing_seen
from quell.estimate.policy_gradient import Scaling, spread_of_good
from quell.estimate.returns import finite_pairs
from quell.types import Batch, Caution, Pair, State, Sums, either, namespace


@dataclass(frozen=True, kw_only=True)
class ActorCritic(WithCritic):
    """The policy gradient at theta with generalised advantages."""

    name: ClassVar[str] = "actor-critic"
    line_search: bool = False
    """Shorten a natural step until the importance-weighted surrogate gains too; if it never does, do not take it."""
    shaping: Scaling = "normalise"
    """What is done to the rewards of a batch: divided by the spread of its returns, or nothing."""

    @property
    def needs(self) -> Needs:
        return Needs(perturbed=False, trajectories=True, traceable=self.traceable)

    @property
    def biased(self) -> bool:
        return super().biased or self.shaping != "none"

    def init(self, problem: Problem) -> State:
        return {**nothing_seen(), **self.critic.init(problem)}

    def unit(self, batch: Batch, state: State) -> Any:
        """What rewards are divided by; 0 where there is nothing to divide by."""
        return spread_of_good(batch) if self.shaping == "normalise" else 1.0

    def prepare(self, problem: Problem, batch: Batch, state: State) -> Rows:
        return self.rows(problem, batch, finite_pairs(batch.rollouts.rewards), state, self.unit(batch, state))

    def terms(self, problem: Problem, pair: Pair, row: dict[str, Any], theta: Any, xp: Any = np) -> dict[str, Any]:
        found, learned = self.advantages(xp, pair, row)
        gradients = self.gradients(xp, problem, pair, row, xp.stack([theta, theta]), found)
        wide = gradients.astype(np.float64) if xp is np else gradients
        if self.line_search:
            learned["collected.steps"] = played_steps(xp, problem.policy, pair, theta, found)
        return {"count": 2.0, "g": wide.sum(axis=0), "gg": xp.square(wide).sum(axis=0), **learned}

    def combine(self, problem: Problem, sums: Sums, rows: Rows, state: State) -> Estimate:
        count, xp = sums["count"], namespace(sums["g"])
        metrics = {
            "variance/method": total_variance(sums["g"], sums["gg"], count),
            "gamma": self.gamma,
        }
        share = self.share(state, rows, sums)
        sound = (count > 0) & xp.isfinite(sums["g"]).all()
        state = either(sound, lambda: self.learned(problem, state, rows, sums), state)
        judge = surrogate(problem.policy, sums["collected.steps"]) if self.line_search else None
        gradient = (sums["g"] / xp.maximum(count, 1)).astype(np.float32)
        return Estimate(gradient, state, metrics, Caution(judge, share))


ESTIMATORS = [ActorCritic]
