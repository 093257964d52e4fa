"""All that changes during a run, and so all that a checkpoint holds."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from quell import registry
from quell.config import Config, to_dict
from quell.errors import QuellError, UsageError
from quell.estimate import Problem
from quell.policy.network import Policy
from quell.registry import is_own
from quell.runs.checkpoint import Saved
from quell.types import Array, ObsStats, State, restored
from quell.update import Step, from_arrays, to_arrays

COUNTERS = ("iteration", "steps", "eval_steps", "seconds", "trouble", "trouble_in_a_row", "episode_length")
MEASURED = ("seconds", "episode_length", "obs_count")
"""Of the numbers in a checkpoint, those that need not be whole."""
CHANGED = "changed."
"""Before the names of settings that were changed on the way."""
SUMS = ("total", "squares")
"""Of observations."""


@dataclass(frozen=True)
class Learned:
    """A policy on the way: the newest, or the one with the highest score of all evaluations so far; and when it was."""

    score: float
    """Mean return with mean actions; NaN if the policy was not evaluated."""
    theta: Array
    obs: ObsStats
    iteration: int
    steps: int


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
    best: Learned | None = None
    """None before the first evaluation."""
    changes: Mapping[str, float] = field(default_factory=dict)
    """Settings of the step that a callback has changed on the way, by name."""

    def current(self, step: Step) -> Step:
        """The step with these changes."""
        if not self.changes:
            return step
        changed: Step = registry.tidy(registry.replace(step, self.changes, "step."))
        return changed

    def change(self, step: Step, settings: Mapping[str, Any]) -> "TrainState":
        """With other settings of the step; a UsageError if they make no sense."""
        for name, value in settings.items():
            if isinstance(value, bool) or not isinstance(value, int | float | np.number):
                raise UsageError(f"`{name}={value!r:.80}` must be a number: no other setting can change during a run")
        changed = replace(self, changes={**self.changes, **{name: float(value) for name, value in settings.items()}})
        registry.check(changed.current(step), "step.")
        return changed

    def judged(self, score: float) -> "TrainState":
        """With this policy as the best if its score is; the newest of equals."""
        if not np.isfinite(score) or (self.best is not None and score < self.best.score):
            return self
        return replace(self, best=Learned(score, self.theta, self.obs, self.iteration, self.steps))

    def finished(self, config: Config) -> bool:
        """Whether there is nothing left to do."""
        return config.finished(self.steps, self.best.score if self.best else -math.inf)

    def to_checkpoint(self, config: Config) -> Saved:
        memory = {f"estimator.{name}": np.asarray(value) for name, value in self.estimator.items()}
        arrays = {"theta": np.asarray(self.theta), **to_arrays(self.step), **memory}
        arrays |= {"obs.total": self.obs.total, "obs.squares": self.obs.squares}
        arrays |= {f"{CHANGED}{name}": np.array([value]) for name, value in self.changes.items()}
        facts = {name: getattr(self, name) for name in COUNTERS} | {"obs_count": self.obs.count}
        if best := self.best:
            arrays |= {"best.score": np.array([best.score]), "best.theta": np.asarray(best.theta)}
            arrays |= {"best.obs.total": best.obs.total, "best.obs.squares": best.obs.squares}
            facts |= {"best.iteration": best.iteration, "best.steps": best.steps, "best.obs_count": best.obs.count}
        return arrays, {**facts, "config": to_dict(config)}

    @staticmethod
    def from_checkpoint(config: Config, problem: Problem, saved: Saved) -> "TrainState":
        newest, best = learned(problem.policy, saved)
        arrays, facts = saved
        memory = {name.removeprefix("estimator."): a for name, a in arrays.items() if name.startswith("estimator.")}
        fresh, exactly = config.estimator.init(problem), is_own("estimator", config.estimator)
        if strange := memory.keys() - fresh.keys():
            raise QuellError(f"this configuration has no {f'estimator.{min(strange)}':.80}, which the checkpoint holds")
        for name, array in fresh.items():
            stored = memory.get(name)
            memory[name] = restored(f"estimator.{name}", stored, array, exactly=exactly, either_precision=True)
        step = from_arrays(config.step, problem.policy, newest.theta, arrays)
        _check_facts(facts, COUNTERS)
        counters = {name: facts[name] for name in COUNTERS}
        state = TrainState(newest.theta, step, memory, newest.obs, **counters, best=best)
        changes = {name.removeprefix(CHANGED): a for name, a in arrays.items() if name.startswith(CHANGED)}
        for name, array in changes.items():
            restored(CHANGED + name, array, np.zeros(1))
        try:
            return state.change(config.step, {name: array[0] for name, array in changes.items()})
        except UsageError as error:
            raise QuellError(f"the checkpoint's changed settings are invalid: {error}") from None


def learned(policy: Policy, saved: Saved) -> tuple[Learned, Learned | None]:
    """The newest policy in a checkpoint, and the best, which older ones lack; says when they are not such policies."""
    return _learned(policy, saved, ""), _learned(policy, saved, "best.") if "best.theta" in saved[0] else None


def _learned(policy: Policy, saved: Saved, prefix: str) -> Learned:
    arrays, facts = saved
    wanted = {"theta": np.zeros(policy.dim, np.float32), **{f"obs.{n}": np.zeros(policy.obs_size) for n in SUMS}}
    wanted |= {"score": np.zeros(1)} if prefix else {}
    fitting = {prefix + name: restored(prefix + name, arrays.get(prefix + name), one) for name, one in wanted.items()}
    arrays = arrays | fitting
    _check_facts(facts, [prefix + name for name in ("iteration", "steps", "obs_count")])
    obs = ObsStats(facts[f"{prefix}obs_count"], arrays[f"{prefix}obs.total"], arrays[f"{prefix}obs.squares"])
    score = float(arrays[f"{prefix}score"].sum()) if prefix else math.nan
    return Learned(score, arrays[f"{prefix}theta"], obs, facts[f"{prefix}iteration"], facts[f"{prefix}steps"])


def _check_facts(facts: dict[str, Any], names: Sequence[str]) -> None:
    if missing := [name for name in names if name not in facts]:
        raise QuellError(f"the checkpoint lacks {', '.join(missing)}")
    for name in names:
        if name.rpartition(".")[2] not in MEASURED and not isinstance(facts[name], int):
            raise QuellError(f"the checkpoint's {name} is no whole number: {facts[name]!r:.40}")
