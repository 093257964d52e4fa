"""Every task trains with every method: two short iterations each, through the real engine.

All pairs of a task and a method in `make test-all`; in `make test` every task and every method, one method a task.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pytest

import quell.tasks
from quell.config import Preset
from quell.estimate import Problem
from quell.presets import METHODS
from quell.registry import strategies
from quell.rollout import Engine
from quell.rollout.cpu import Cpu
from quell.tasks.base import Task
from quell.training.iteration import Trainer
from quell.training.methods import make_config

OTHERS = ["gym:CartPole-v1", "gym:Pendulum-v1", "envpool:CartPole-v1"]  # one each of what users bring
TASKS = [name for name in [*quell.tasks.names(), *OTHERS] if name != "dm-quadruped-escape"]  # which is slow


@dataclass(frozen=True)
class Shared:
    """Methods that ask for the same episodes share one engine, because starting one takes longer than the episodes."""

    engines: dict[object, Engine] = field(default_factory=dict)
    name: ClassVar[str] = "shared"

    def validate(self) -> None: ...

    def make(self, task: Task, problem: Problem, *, members: int, states: int = 0) -> Engine:
        key = (task, problem, members, states)
        if key not in self.engines:
            self.engines[key] = Cpu(workers=1).make(task, problem, members=members, states=states)
        return self.engines[key]


def possible(name: str) -> list[str]:
    """Choices have no deterministic policy here."""
    return [method for method in METHODS if method != "det" or not quell.tasks.get(name).discrete]


def one(name: str) -> str:
    """The method that a task is trained with in the quick run: together the tasks go through all of them, in turn."""
    methods = possible(name)
    return methods[TASKS.index(name) % len(methods)]


PRESETS: tuple[Preset, ...] = ("tuned", "paper")


def test_the_quick_run_has_every_method() -> None:
    assert {one(name) for name in TASKS} == METHODS.keys()


@pytest.mark.parametrize("name", TASKS)
def test_task_with_a_method(name: str) -> None:
    train_with([one(name)], name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*TASKS, "dm-quadruped-escape"])
def test_task_with_every_method(name: str) -> None:
    assert train_with(possible(name), name) < len(METHODS), "engines are shared"


@pytest.mark.parametrize("method", METHODS)
def test_both_presets_train_the_same_strategies(method: str) -> None:
    """What a trainer has after a step with either preset: the estimator, directions, step and critic of the same
    classes, under the method's own name."""
    trained, compute = [], Shared()
    try:
        for preset in PRESETS:
            small = {"horizon": 4, "pairs": 2, "batch_steps": 0, "eval_episodes": 1, "policy.hidden": (4,)}
            trainer = Trainer(make_config("lqr-302", method, preset, small).validate(), compute)
            state, _ = trainer.iterate(trainer.initial_state())
            assert state.steps == 16
            assert trainer.config.method == method
            parts = {**strategies(trainer.config), "drawn": trainer.problem.directions}
            trained.append({name: type(part) for name, part in parts.items()})
    finally:
        for engine in compute.engines.values():
            engine.close()
    assert trained[0] == trained[1]


def train_with(methods: list[str], name: str) -> int:
    """Train with each; how many engines it took."""
    compute = Shared()
    try:
        for method in methods:
            two_iterations(name, method, compute)
        return len(compute.engines)
    finally:
        for engine in compute.engines.values():
            engine.close()


def two_iterations(name: str, method: str, compute: Shared) -> None:
    config = make_config(
        name, method, overrides={"horizon": 8, "pairs": 2, "batch_steps": 0, "eval_episodes": 1}
    ).validate()
    trainer = Trainer(config, compute)
    state = trainer.initial_state()
    start, flat = state.theta, True
    for _ in range(2):
        state, row = trainer.iterate(state)
        same = method == "ars" and row["gradient/norm"] == 0  # both members of its best direction may earn the same
        flat = flat and bool(row["trouble/flat"] or same)
        assert row["trouble/skipped"] == 0, method
    assert 0 < state.steps <= 2 * 4 * 8
    assert np.isfinite(state.theta).all(), method
    if not flat:  # eight steps of a sparse reward may all be worth the same
        assert np.abs(state.theta - start).max() > 1e-4, method
    elif config.estimator.needs.perturbed and method != "mixed-cv":  # its policy gradient has a say from the start
        assert (state.theta == start).all(), method
    state, evaluation = trainer.evaluate(state)
    assert np.isfinite(evaluation["eval/return"]), method
