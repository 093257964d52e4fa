"""Runs that differ in their seeds alone, side by side in one program.

Each run is an ordinary one, in a thread of this process. They meet at every iteration: the last one to arrive has the
program run for all. A run that has ended leaves its place empty, so that the program stays the same.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

from quell.estimate import Problem
from quell.rollout import Engine, Stages
from quell.rollout.device import Device
from quell.rollout.device.engine import DeviceEngine, can_be_traced

Asking = tuple[Stages[Any], Any]
Answer = tuple[Any, dict[str, float]]


@dataclass(eq=False)
class Table:
    """Where so many runs meet."""

    settings: Device
    runs: int
    left: set[int] = field(default_factory=set)
    """Seeds of those that go on no more."""
    changed: threading.Condition = field(default_factory=threading.Condition)
    asking: dict[int, Asking] = field(default_factory=dict)
    answers: dict[int, Answer | BaseException] = field(default_factory=dict)
    last: dict[int, Asking] = field(default_factory=dict)
    """What every run asked for the last time; of those that ended, too."""
    engine: Any = None
    """One of the runs', for all."""

    exact = False

    @property
    def name(self) -> str:
        return self.settings.name

    def validate(self) -> None:
        self.settings.validate()

    def make(self, task: Any, problem: Problem, *, members: int, states: int = 0) -> Engine:
        return Seat(self, task, problem)

    def ask(self, engine: DeviceEngine, number: int, asking: Asking) -> Answer:
        """One run's next iteration, once all others that go on have asked for theirs."""
        with self.changed:
            self.engine = engine
            self.asking[number] = self.last[number] = asking
            self._answered_if_all_ask()
            self.changed.wait_for(lambda: number in self.answers)
            answer = self.answers.pop(number)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def leave(self, number: int) -> None:
        """A run goes on no more, or never began."""
        with self.changed:
            self.left.add(number)
            self._answered_if_all_ask()

    def _answered_if_all_ask(self) -> None:
        if not self.asking or len(self.asking) + len(self.left) < self.runs:
            return
        here = sorted(self.last)
        try:
            stages, states = zip(*(self.last[number] for number in here), strict=True)
            found: list[Any] = self.engine.side_by_side(list(stages), list(states))
        except BaseException as error:  # each run has it, and is saved
            found = [error] * len(here)
        self.answers |= {number: one for number, one in zip(here, found, strict=True) if number in self.asking}
        self.asking.clear()
        self.changed.notify_all()


class Seat(DeviceEngine):
    """One run's engine."""

    def __init__(self, table: Table, task: Any, problem: Problem) -> None:
        super().__init__(task, problem, table.settings)
        self._table = table

    def iterate(self, stages: Stages[Any], state: Any) -> Answer:
        if not can_be_traced(stages, state):
            return stages.in_turn(state)
        return self._table.ask(self, self.problem.seed, (stages, state))

    def close(self) -> None:
        self._table.leave(self.problem.seed)
        super().close()
