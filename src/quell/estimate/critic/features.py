"""A critic by least squares on fixed features: additive over pairs, nothing to train."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from quell.estimate import Problem
from quell.estimate.value import ValueFunction
from quell.registry import SHARE, SIZE
from quell.types import State, Sums


@dataclass(frozen=True, kw_only=True)
class FeaturesCritic:
    """Linear in the observation, its square, time, and tanh units whose weights are random and stay so."""

    name: ClassVar[str] = "features"
    together: ClassVar[bool] = False
    units: Annotated[int, SIZE] = 128
    """Random tanh units."""
    decay: Annotated[float, SHARE] = 0.8
    """How much of the data behind the fit survives a batch."""

    def _function(self, obs_size: int) -> ValueFunction:
        return ValueFunction("network", obs_size, decay=self.decay, units=self.units)

    def init(self, problem: Problem) -> State:
        return self._function(problem.policy.obs_size).init()

    def shared(self, state: State, pairs: int) -> dict[str, Any]:
        return {"fit": self._function(0).weights(state)}  # which the size of observations does not enter

    def predict(self, xp: Any, row: dict[str, Any], obs: Any, time: Any) -> Any:
        function = self._function(obs.shape[-1])
        return xp.stack([(function.features(member, xp, time) @ row["fit"])[:, 0] for member in obs])

    def terms(self, xp: Any, row: dict[str, Any], obs: Any, time: Any, target: Any, steps: Any) -> dict[str, Any]:
        return self._function(obs.shape[-1]).apply(row["fit"], obs, target, steps, xp, time)[1]

    def update(self, problem: Problem, state: State, sums: Sums, iteration: int) -> State:
        return self._function(problem.policy.obs_size).update(state, sums)


CRITICS = [FeaturesCritic]
