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
from quell.types import Batch, Pair, State, Sums


@dataclass(frozen=True, kw_only=True)
class ActorCritic(WithCritic):
    """The policy gradient at theta with generalised advantages."""

    name: ClassVar[str] = "actor-critic"
    needs: ClassVar[Needs] = Needs(perturbed=False, trajectories=True)
    line_search: bool = False
    """Have a natural step shortened until it gains by the importance-weighted surrogate too, or not taken."""
    shaping: Scaling = "normalise"
    """What is done to the rewards of a batch: divided by the spread of its returns, or nothing."""

    @property
    def biased(self) -> bool:
        return super().biased or self.shaping != "none"

    def init(self, problem: Problem) -> State:
        return {**nothing_seen(), **self.critic.init(problem)}

    def unit(self, batch: Batch, state: State) -> float:
        """What rewards are divided by."""
        return spread_of_good(batch) or 1.0 if self.shaping == "normalise" else 1.0

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
        count = float(sums["count"])
        metrics = {
            "variance/method": total_variance(sums["g"], sums["gg"], count),
            "gamma": self.gamma,
        }
        share = self.share(state, rows, sums)
        if count and np.isfinite(sums["g"]).all():
            state = self.learned(problem, state, rows, sums)
        judge = None
        if self.line_search:
            steps = sums["collected.steps"]
            judge = surrogate(problem.policy, steps[np.isfinite(steps).all(axis=1)])
        return Estimate((sums["g"] / max(count, 1)).astype(np.float32), state, metrics, judge, share)


ESTIMATORS = [ActorCritic]
