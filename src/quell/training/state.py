"""All that changes during a run, and so all that a checkpoint holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from quell.config import Config, to_dict
from quell.errors import QuellError
from quell.estimate import Problem
from quell.policy.normalise import ObsStats
from quell.types import Array, State
from quell.update import from_arrays, to_arrays

COUNTERS = ("iteration", "steps", "eval_steps", "seconds", "trouble", "trouble_in_a_row", "episode_length")


@dataclass(frozen=True)
class TrainState:
    """Between two iterations."""

    theta: Array
    step: Any
    """The step's state: a tree of arrays."""
    estimator: State
    obs: ObsStats
    iteration: int = 0
    steps: int = 0
    eval_steps: int = 0
    seconds: float = 0.0
    trouble: int = 0
    trouble_in_a_row: int = 0
    episode_length: float = 0.0
    """Running mean of the episodes' lengths; 0 before the first batch."""

    def to_checkpoint(self, config: Config) -> tuple[dict[str, Array], dict[str, Any]]:
        """(arrays, facts)."""
        arrays = {
            "theta": self.theta,
            **to_arrays(self.step),
            **{f"estimator.{name}": value for name, value in self.estimator.items()},
            "obs.total": self.obs.total,
            "obs.squares": self.obs.squares,
        }
        counters = {name: getattr(self, name) for name in COUNTERS}
        return arrays, {**counters, "obs_count": self.obs.count, "config": to_dict(config)}

    @staticmethod
    def from_checkpoint(
        config: Config, problem: Problem, arrays: dict[str, Array], facts: dict[str, Any]
    ) -> TrainState:
        theta = arrays["theta"]
        if theta.shape != (problem.policy.dim,):
            raise QuellError(f"the checkpoint has {theta.size} parameters, this configuration {problem.policy.dim}")
        memory = {name.removeprefix("estimator."): a for name, a in arrays.items() if name.startswith("estimator.")}
        fresh = config.estimator.init(problem)
        if {k: v.shape for k, v in fresh.items()} != {k: v.shape for k, v in memory.items()}:
            raise QuellError("the checkpoint's estimator state does not fit this configuration")
        obs = ObsStats(facts["obs_count"], arrays["obs.total"], arrays["obs.squares"])
        step = from_arrays(config.step, problem.policy, theta, arrays)
        return TrainState(theta, step, memory, obs, **{name: facts[name] for name in COUNTERS})
