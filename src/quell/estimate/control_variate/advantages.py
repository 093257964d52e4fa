"""A column with advantages: the policy gradient of the perturbed members, measured against a critic.

    R_i = mean over the pair of sum_t A_t / s grad log pi(a_t | s_t)        A_t: GAE(gamma, lambda), s: the unit
    Y_i = X_i - R_i

With gamma = lambda = 1 its mean is zero. With less, R aims at a nearer horizon and Y no longer has mean zero: the
column declares it (`biased`), and `quell variance` measures by how much.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from quell.estimate import Problem, Rows
from quell.estimate.advantages import WithCritic
from quell.estimate.control_variate.columns import Scale
from quell.estimate.flat import nothing_seen
from quell.estimate.returns import next_reward_seen
from quell.perturb import perturbed
from quell.registry import DISCOUNT, SHARE
from quell.types import Array, Batch, Metrics, Pair, State, Sums


@dataclass(frozen=True, kw_only=True)
class AdvantageColumn(WithCritic):
    """ES minus the policy gradient with a critic's advantages."""

    name: ClassVar[str] = "advantages"
    count: ClassVar[int] = 1
    gamma: Annotated[float, DISCOUNT] = 0.995
    trace: Annotated[float, SHARE] = 0.97

    @property
    def together(self) -> bool:
        return bool(getattr(self.critic, "together", False))

    def init(self, problem: Problem) -> State:
        return {**nothing_seen(), **self.critic.init(problem)}

    def prepare(self, problem: Problem, batch: Batch, good: Array, state: State, scale: Scale) -> Rows:
        return self.rows(problem, batch, good, state, scale.unit)

    def sight(self, batch: Batch) -> Any:
        return next_reward_seen(batch.rollouts.rewards, batch.rollouts.steps, self.gamma)

    def terms(
        self, xp: Any, problem: Problem, pair: Pair, row: dict[str, Any], theta: Any, x: Any
    ) -> tuple[Any, dict[str, Any]]:
        found, learned = self.advantages(xp, pair, row)
        thetas = perturbed(theta, pair.sigma, xp.asarray(pair.eps))
        gradients = self.gradients(xp, problem, pair, row, thetas, found)
        return (x - (gradients[..., 0, :] + gradients[..., 1, :]) / 2)[..., None, :], learned

    def update(self, problem: Problem, state: State, sums: Sums, rows: Rows, beta: Array) -> State:
        return self.learned(problem, state, rows, sums)

    def metrics(self, rows: Rows) -> Metrics:
        return {"gamma": self.gamma}


COLUMNS = [AdvantageColumn]
