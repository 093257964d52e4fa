"""Every task trains with every method: two short iterations each, through the real engine."""

from __future__ import annotations

import numpy as np
import pytest

import quell.tasks
from quell.methods import METHODS, make_config
from quell.rollout import Engine
from quell.trainer import Trainer

OTHERS = ["gym:CartPole-v1", "gym:Pendulum-v1", "envpool:CartPole-v1"]  # one each of what users bring
SLOW = {"dm-quadruped-escape"}


class SharedEngines(Trainer):
    """Methods that ask for the same episodes share one engine, because starting one takes longer than the episodes."""

    engines: dict[object, Engine]

    def _make_engine(self) -> Engine:
        key = (self.policy, self.directions)
        if key not in self.engines:
            self.engines[key] = super()._make_engine()
        return self.engines[key]


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in [*quell.tasks.names(), *OTHERS]]
)
def test_task_with_every_method(name: str) -> None:
    SharedEngines.engines = {}
    try:
        for method in METHODS:
            if method != "det" or not quell.tasks.get(name).discrete:  # choices have no deterministic policy here
                two_iterations(name, method)
    finally:
        for engine in SharedEngines.engines.values():
            engine.close()


def two_iterations(name: str, method: str) -> None:
    config = make_config(name, method, overrides={"horizon": 8, "pairs": 2, "eval_episodes": 1}).validate()
    trainer = SharedEngines(config, 1)
    state = trainer.initial_state()
    start = state.theta
    for _ in range(2):
        state, row = trainer.iterate(state)
    assert state.steps <= 2 * 4 * 8
    assert np.isfinite(state.theta).all(), method
    assert row["trouble/skipped"] == 0, method
    if not row["trouble/flat"]:  # eight steps of a sparse reward may all be worth the same
        assert np.abs(state.theta - start).max() > 0, method
    state, evaluation = trainer.evaluate(state)
    assert np.isfinite(evaluation["eval/return"]), method
