"""The paper's columns: Y = ES(gamma) - RE(gamma), two estimates of the gradient of the discounted objective (eq. 8)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from quell.estimate import Problem, Rows
from quell.estimate.control_variate.columns import Scale
from quell.estimate.control_variate.discount import Discount, LearnedDiscount
from quell.estimate.es import pair_score
from quell.estimate.policy_gradient import Baseline, advantages, by_pair, pair_scores, step_weights
from quell.estimate.returns import less_other_pairs
from quell.perturb import perturbed
from quell.types import Array, Batch, Metrics, Pair, State, Sums, namespace


@dataclass(frozen=True, kw_only=True)
class DiscountedColumns:
    """ES(gamma) minus the likelihood-ratio gradient RE(gamma), for one or several discounts."""

    name: ClassVar[str] = "discounted"
    together: ClassVar[bool] = False
    traceable: ClassVar[bool] = True
    biased: ClassVar[bool] = False
    baseline: Baseline = "none"
    """Baseline of the reward-to-go: none, or the mean over the other members at the same step."""
    discount: Discount = field(default_factory=LearnedDiscount)
    """The discounts: fixed, or one that is learned by ES on the squared norm of the estimate (the paper)."""

    @property
    def count(self) -> int:
        return self.discount.columns

    def init(self, problem: Problem) -> State:
        return self.discount.init()

    def prepare(self, problem: Problem, batch: Batch, good: Array, state: State, scale: Scale) -> Rows:
        xp = namespace(batch.rollouts.rewards)
        gammas = self.discount.at(xp, problem.seed, state, batch.episodes.iteration)
        to_go, values, _ = advantages(batch, gammas, self.baseline)
        centred = less_other_pairs(to_go[:, :, 0] * scale.times, good.sum())
        weights = step_weights(values * scale.times, gammas)
        shared = {"iteration": batch.episodes.iteration, "gammas": list(gammas)}
        return Rows({"returns": by_pair(centred), "weights": by_pair(weights)}, shared)

    def sight(self, batch: Batch) -> Any:
        return 1.0

    def terms(
        self, xp: Any, problem: Problem, pair: Pair, row: dict[str, Any], theta: Any, x: Any
    ) -> tuple[Any, dict[str, Any]]:
        thetas = xp.stack([perturbed(theta, pair.sigma, eps) for eps in pair.eps])
        scores = pair_scores(xp, problem.policy, pair, thetas, row["weights"])
        gradients = xp.add(scores[0], scores[1]) / 2
        smoothed = [pair_score(xp, returns, pair, problem.directions) for returns in row["returns"].T]
        columns = xp.stack([s - g for s, g in zip(smoothed, gradients, strict=True)])
        trials = columns[self.count :]  # discounts to be learned from
        return columns[: self.count], {"trials": trials.astype(np.float64) if xp is np else trials} if len(
            trials
        ) else {}

    def update(self, problem: Problem, state: State, sums: Sums, rows: Rows, beta: Array) -> State:
        if "trials" not in sums:
            return state
        trials = (sums["columns"][0] + beta[0] * sums["trials"]) / sums["count"]
        return self.discount.update(problem.seed, state, rows.shared["iteration"], trials)

    def share(self, state: State, rows: Rows, sums: Sums) -> Any:
        return 1.0

    def metrics(self, rows: Rows) -> Metrics:
        return {"gamma": rows.shared["gammas"][0]}


COLUMNS = [DiscountedColumns]
