"""ES: the score-function gradient of the smoothed objective (eq. 4), antithetic.

    g = 1/N sum_i X_i,    X_i = (J_i+ eps_i+  +  J_i- eps_i-) / (2 sigma)

which is (J+ - J-) / (2 sigma) * eps for a symmetric pair. Directions make it ORTHO, GCMC or QMC, and a policy Det.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from quell.estimate import Estimate, Needs, Problem, Rows, batch_variance, compared, fresh_variance
from quell.estimate.returns import Shaping, shaped_fitness
from quell.perturb import Kind, draw_of, sigma_of
from quell.perturb.gaussian import Gaussian
from quell.types import Batch, Pair, State, Sums, namespace


@dataclass(frozen=True, kw_only=True)
class Es:
    """The plain ES estimator."""

    name: ClassVar[str] = "es"
    needs: ClassVar[Needs] = Needs(perturbed=True, trajectories=False, linear=True, traceable=True)
    shaping: Shaping = "normalise"
    """What is done to the returns of a batch: (J - mean)/std, centred ranks, or nothing."""

    @property
    def biased(self) -> bool:
        return self.shaping != "none"

    def init(self, problem: Problem) -> State:
        return fresh_variance(problem, 1)

    def prepare(self, problem: Problem, batch: Batch, state: State) -> Rows:
        fitness, _, good = shaped_fitness(batch.rollouts.returns, self.shaping)
        return Rows({"fitness": fitness.reshape(-1, 2), "good": good}, episodes=batch.episodes)

    def terms(self, problem: Problem, pair: Pair, row: dict[str, Any], theta: Any, xp: Any = np) -> dict[str, Any]:
        if problem.directions.factored:
            return {"count": 1.0}
        x = pair_score(xp, row["fitness"], pair, problem.directions)
        return {"count": 1.0, "x": x, "xx": xp.square(x)}

    def combine(self, problem: Problem, sums: Sums, rows: Rows, state: State) -> Estimate:
        count, xp = sums["count"], namespace(sums["count"])
        if problem.directions.factored and "x" not in sums:
            sums = sums | self.weighted(problem, rows)
        total, squares = sums["x"], sums["xx"]
        (variance,), learned = batch_variance(problem, state, [total], [squares], count)
        metrics = {"variance/method": variance}
        if type(problem.directions) is Gaussian:  # what other directions save is not to be seen from their own batches
            metrics = compared(variance, variance)
        return Estimate((total / xp.maximum(count, 1)).astype(np.float32), state | learned, metrics)

    def weighted(self, problem: Problem, rows: Rows) -> Sums:
        """The sums of X_i and |X_i|^2 of directions that are never formed, from the weights of all pairs."""
        episodes, directions, xp = rows.episodes, problem.directions, namespace(rows.pairs["good"])
        assert episodes is not None
        weights = rows.pairs["fitness"] / (2 * sigma_of(directions, episodes.shape))
        weights = xp.where(rows.pairs["good"][:, None], weights, 0.0)
        draw = draw_of(problem.policy, problem.seed, episodes)
        return dict(zip(("x", "xx"), directions.combine(draw, weights, episodes.shape), strict=True))


def pair_score(xp: Any, values: Any, pair: Pair, directions: Kind) -> Any:
    """X_i = (J+ e+ + J- e-) / (2 sigma), e = C^-1 eps with C the directions' covariance, mostly 1; in single precision.

    `values` are (J+, J-); for several pairs [n, 2], in front of every array.
    """
    twice = 2 * (directions.sigma if pair.sigma is None else pair.sigma)
    scored = pair.eps if pair.scored is None else pair.scored
    if np.ndim(values) > 1:
        scored, values = xp.moveaxis(xp.asarray(scored), -2, 0), values.T[..., None]
    if directions.symmetric:
        return xp.float32((values[0] - values[1]) / twice) * scored[0]
    return xp.float32(values[0] / twice) * scored[0] + xp.float32(values[1] / twice) * scored[1]


ESTIMATORS = [Es]
