"""A search whose trials learn from each other: Optuna's tree-structured Parzen estimator, and its pruners.

The study is a journal of JSON lines beside the records, so that a search that was killed goes on: trials that it had
begun are finished first, and their finished runs are not repeated.
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal

from quell.campaign.tune import FIRST_SEED, Run, Search
from quell.errors import UsageError, require

Pruner = Literal["halving", "median", "none"]
WIDE = 9.0
"""Numbers whose largest is so many times the smallest are drawn by their logarithm."""


@dataclass(frozen=True)
class TpeSearch(Search):
    """Trial 0 is what is in use; the study's trials are counted from 1."""

    label: ClassVar[str] = "tpe"
    pruner: Pruner = "halving"
    together: int = field(default=1, compare=False)
    """Trials that are asked for at once: as many as runs go on side by side."""

    def __post_init__(self) -> None:
        if len(self.tasks) > 1:
            raise UsageError(
                "`sampler='tpe'` cannot learn from the ranks by which several tasks are judged: give one task"
            )
        require("tune", "`sampler='tpe'`")

    @cached_property
    def study(self) -> Any:
        """Optuna's, with all that was tried already."""
        import optuna
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.folder.mkdir(parents=True, exist_ok=True)
        place = self.folder / f"{self.name}-{self.steps}.optuna.jsonl"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # options that Optuna calls experimental
            return optuna.create_study(
                storage=JournalStorage(JournalFileBackend(str(place))),
                study_name=f"{self.method} {self.name}",
                sampler=optuna.samplers.TPESampler(seed=0, constant_liar=True, n_startup_trials=6),
                pruner=self._pruner(),
                direction="maximize",
                load_if_exists=True,
            )

    def _pruner(self) -> Any:
        from optuna import pruners

        if self.pruner == "median":
            return pruners.MedianPruner(n_startup_trials=4)
        if self.pruner == "none":
            return pruners.NopPruner()
        return pruners.SuccessiveHalvingPruner(min_resource=self.rungs[0], reduction_factor=3)

    def settings(self) -> list[dict[str, Any]]:
        known = self.study.get_trials(deepcopy=False)
        return [{}, *({name: _short(value) for name, value in trial.params.items()} for trial in known)]

    def distributions(self) -> dict[str, Any]:
        """The method's space for Optuna: ranges of numbers, and choices of anything else."""
        return {name: _distribution(values) for name, values in self.space.items()}

    def first(self, run: Run) -> list[int]:
        """The trial in use; then trials, so many at a time, each up the budgets until it is pruned."""
        self.do(run, self.stage([0], [FIRST_SEED], self.steps))
        while batch := self._next():
            self._climb(batch, run)
        done = [trial.number + 1 for trial in self.study.get_trials(deepcopy=False) if trial.state.name == "COMPLETE"]
        return self.ranked([0, *done], [FIRST_SEED])

    def _next(self) -> list[Any]:
        """Trials that were begun, and as many new ones as there is room for; none once there are enough."""
        import optuna

        known = self.study.get_trials(deepcopy=False)
        begun = [optuna.trial.Trial(self.study, one._trial_id) for one in known if one.state.name == "RUNNING"]
        room = min(self.together - len(begun), self.trials - 1 - len(known))
        return begun + [self.study.ask(self.distributions()) for _ in range(room)]

    def _climb(self, batch: Sequence[Any], run: Run) -> None:
        """Some trials side by side, rung by rung."""
        from optuna.trial import TrialState

        left, (task,) = list(batch), self.tasks
        for steps in self.rungs:
            self.do(run, self.stage([one.number + 1 for one in left], [FIRST_SEED], steps))
            for one in tuple(left):
                score = self.score(one.number + 1, task, [FIRST_SEED], steps)
                if not math.isfinite(score):
                    self.study.tell(one, state=TrialState.FAIL)
                    left.remove(one)
                    continue
                if steps not in self.study.get_trials(deepcopy=False)[one.number].intermediate_values:
                    one.report(score, steps)
                if steps == self.steps:
                    self.study.tell(one, score)
                elif one.should_prune():
                    self.study.tell(one, state=TrialState.PRUNED)
                    left.remove(one)


def _short(value: Any) -> Any:
    """Four digits of what was drawn: no search knows more."""
    return float(f"{value:.4g}") if isinstance(value, float) else value


def _distribution(values: Sequence[Any]) -> Any:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    if not numbers:
        return CategoricalDistribution(list(values))
    low, high = min(values), max(values)
    wide = low > 0 and high / low >= WIDE
    if all(isinstance(value, int) for value in values):
        return IntDistribution(low, high, log=wide)
    return FloatDistribution(float(low), float(high), log=wide)
