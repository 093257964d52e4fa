"""ARS: ES that listens to its best directions only (Mania et al., 2018, V1-t and V2-t).

    g = 1/b sum over the b best pairs of X_i,    X_i = (J_i+ - J_i-) / (2 sigma s) eps_i

A pair is as good as the better of its two members; s is the spread of the 2b returns in use. With a linear
deterministic policy, normalised observations and a plain step of rate 2 sigma alpha, this is ARS with step size alpha.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from quell.estimate import Problem, Rows
from quell.estimate.es import Es
from quell.estimate.returns import finite_pairs, shaped_fitness
from quell.registry import Range
from quell.types import Array, Batch, State, namespace


@dataclass(frozen=True, kw_only=True)
class Ars(Es):
    """ES on the best pairs of a batch."""

    name: ClassVar[str] = "ars"
    top: Annotated[float, Range(above=0, high=1)] = 0.5
    """Share of the pairs that are used, the best; 1 is plain ES."""
    per_step: float = 0.0
    """Added to every step's reward while training, such as -1 if the task pays 1 for each step survived."""

    @property
    def biased(self) -> bool:
        return super().biased or self.top < 1 or self.per_step != 0

    def prepare(self, problem: Problem, batch: Batch, state: State) -> Rows:
        returns = batch.rollouts.returns + self.per_step * batch.rollouts.steps
        xp, good = namespace(returns), finite_pairs(returns)
        chosen = good & self._best(returns, good)
        fitness, _, good = shaped_fitness(xp.where(xp.repeat(chosen, 2), returns, xp.nan), self.shaping)
        return Rows({"fitness": fitness.reshape(-1, 2), "good": good}, episodes=batch.episodes)

    def _best(self, returns: Array, good: Array) -> Array:
        """[N] bool: which pairs are among the best; the earlier of two equal ones."""
        xp = namespace(returns)
        better = xp.where(good, returns.reshape(-1, 2).max(axis=1), -xp.inf)
        wanted = xp.maximum(1, xp.round(self.top * good.sum()))
        return xp.argsort(xp.argsort(-better, stable=True), stable=True) < wanted


ESTIMATORS = [Ars]
