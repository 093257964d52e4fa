"""ES: the score-function gradient of the smoothed objective (eq. 4), antithetic.

    g = 1/N sum_i X_i,    X_i = (J_i+ eps_i+  +  J_i- eps_i-) / (2 sigma)

which is (J+ - J-) / (2 sigma) * eps for a symmetric pair. Directions make it ORTHO, GCMC or QMC, and a policy Det.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from quell.estimate import Estimate, Needs, Problem, Rows, batch_variance, compared, fresh_variance
from quell.estimate.returns import Shaping, shaped_fitness
from quell.perturb.gaussian import Gaussian
from quell.types import Batch, Pair, State, Sums


@dataclass(frozen=True, kw_only=True)
class Es:
    """The plain ES estimator."""

    name: ClassVar[str] = "es"
    needs: ClassVar[Needs] = Needs(perturbed=True, trajectories=False)
    shaping: Shaping = "normalise"
    """What is done to the returns of a batch: (J - mean)/std, centred ranks, or nothing."""

    def init(self, problem: Problem) -> State:
        return fresh_variance(problem, 1)

    def prepare(self, problem: Problem, batch: Batch, state: State) -> Rows:
        fitness, _, good = shaped_fitness(batch.rollouts.returns, self.shaping)
        return Rows({"fitness": fitness.reshape(-1, 2), "good": good})

    def terms(self, problem: Problem, pair: Pair, row: dict[str, Any], theta: Any, xp: Any = np) -> dict[str, Any]:
        x = pair_score(xp, row["fitness"], pair.eps, problem.directions)
        return {"count": 1.0, "x": x, "xx": xp.square(x)}

    def combine(self, problem: Problem, sums: Sums, rows: Rows, state: State) -> Estimate:
        count = float(sums["count"])
        (variance,), learned = batch_variance(problem, state, [sums["x"]], [sums["xx"]], count)
        metrics = {"variance/method": variance}
        if type(problem.directions) is Gaussian:  # what other directions save is not to be seen from their own batches
            metrics = compared(variance, variance)
        return Estimate((sums["x"] / max(count, 1)).astype(np.float32), state | learned, metrics)


def pair_score(xp: Any, values: Any, eps: Any, directions: Any) -> Any:
    """X_i = (J+ eps+ + J- eps-) / (2 sigma), for values (J+, J-), in single precision."""
    twice = 2 * directions.sigma
    if directions.symmetric:
        return xp.float32((values[0] - values[1]) / twice) * eps[0]
    return xp.float32(values[0] / twice) * eps[0] + xp.float32(values[1] / twice) * eps[1]


ESTIMATORS = [Es]
