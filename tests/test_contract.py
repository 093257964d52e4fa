"""Every task trains with every method: two short iterations each, through the real engine."""

from __future__ import annotations

import numpy as np
import pytest

import quell.tasks
from quell.methods import METHODS, make_config
from quell.trainer import Trainer

OTHERS = ["gym:CartPole-v1", "gym:Pendulum-v1", "envpool:CartPole-v1"]  # one each of what users bring
SLOW = {"dm-quadruped-escape"}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in [*quell.tasks.names(), *OTHERS]]
)
def test_task_with_every_method(name: str) -> None:
    discrete = quell.tasks.get(name).discrete
    for method in METHODS:
        if method == "det" and discrete:
            continue  # ES on a deterministic policy of choices is not a method here; it is refused with a message
        config = make_config(name, method, overrides={"horizon": 8, "pairs": 2, "eval_episodes": 1}).validate()
        trainer = Trainer(config, workers=1)
        try:
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
        finally:
            trainer.close()
