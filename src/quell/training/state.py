"""All that changes during a run, and so all that a checkpoint holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from quell.config import Config, to_dict
from quell.errors import QuellError
from quell.estimate import Problem
from quell.policy.network import Policy
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
        theta, obs = learned(problem.policy, arrays, facts)
        memory = {name.removeprefix("estimator."): a for name, a in arrays.items() if name.startswith("estimator.")}
        fresh = config.estimator.init(problem)
        if {k: v.shape for k, v in fresh.items()} != {k: v.shape for k, v in memory.items()}:
            raise QuellError("the checkpoint's estimator state does not fit this configuration")
        step = from_arrays(config.step, problem.policy, theta, arrays)
        return TrainState(theta, step, memory, obs, **{name: facts[name] for name in COUNTERS})


def learned(policy: Policy, arrays: dict[str, Array], facts: dict[str, Any]) -> tuple[Array, ObsStats]:
    """theta and the observations' statistics in a checkpoint; says when they are not those of such a policy."""
    shapes = {"theta": (policy.dim,), "obs.total": (policy.obs_size,), "obs.squares": (policy.obs_size,)}
    for name, shape in shapes.items():
        found = arrays[name].shape if name in arrays else "nothing"
        if found != shape or arrays[name].dtype.kind != "f" or not np.isfinite(arrays[name]).all():
            raise QuellError(f"the checkpoint's {name} ({found}) does not fit this configuration ({shape})")
    if missing := [name for name in (*COUNTERS, "obs_count") if name not in facts]:
        raise QuellError(f"the checkpoint lacks {', '.join(missing)}")
    return arrays["theta"], ObsStats(facts["obs_count"], arrays["obs.total"], arrays["obs.squares"])
