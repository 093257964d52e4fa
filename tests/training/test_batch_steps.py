"""Batches in steps: as many pairs as fill them, the same for any number of workers and across a resume."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import quell
from quell.rollout.cpu import Cpu
from quell.training.iteration import Trainer, visited
from quell.training.methods import make_config
from quell.types import Rollouts

SHORT: dict[str, Any] = {"batch_steps": 400, "eval_episodes": 1, "critic.updates": 5}


def train(out: Path, workers: int, *, steps: Any = 2500, **settings: Any) -> quell.Result:
    return quell.train(
        "hopper", steps=steps, workers=workers, out=out, progress=False, eval_every=0, **SHORT, **settings
    )


@pytest.mark.usefixtures("in_process")
def test_pairs_follow_from_the_lengths_so_far() -> None:
    config = make_config("hopper", "es", "tuned", {"batch_steps": 400}).validate()
    trainer = Trainer(config, Cpu(workers=1))
    try:
        state = trainer.initial_state()
        assert trainer.pairs(state) == 400 // (2 * trainer.task.first_length)
        state, row = trainer.iterate(state)
        assert state.episode_length == row["episode_length"]
        assert trainer.pairs(state) == int(np.ceil(400 / (2 * state.episode_length)))
    finally:
        trainer.close()


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize(("task", "pairs"), [("hopper", 100), ("ant", 10), ("gym:CartPole-v1", 10)])
def test_the_first_batch_is_as_long_as_the_task_says(task: str, pairs: int) -> None:
    """A guess of 20 steps would spend 200,000 on an ant, whose first episodes last 1,000."""
    trainer = Trainer(make_config(task, "natural-cv", "tuned", {"batch_steps": 4000}).validate(), Cpu(workers=1))
    try:
        assert trainer.pairs(trainer.initial_state()) == pairs
    finally:
        trainer.close()


@pytest.mark.usefixtures("in_process")
def test_episodes_of_training_may_be_cut() -> None:
    """As many more of them fill a batch, and evaluations last as long as the task says."""
    settings = {"batch_steps": 1200, "train_horizon": 100, "eval_episodes": 1, "critic.updates": 5}
    trainer = Trainer(make_config("swimmer", "natural-cv", "tuned", settings).validate(), Cpu(workers=1))
    try:
        state, row = trainer.iterate(trainer.initial_state())
        assert (row["episode_length"], row["steps"]) == (100, 1200)
        _, judged = trainer.evaluate(state)
        assert judged["eval/steps"] == 2 * 1000
    finally:
        trainer.close()


@pytest.mark.usefixtures("in_process")
def test_a_large_batch_of_long_episodes_is_as_large_as_asked_for() -> None:
    """Not cut at the most pairs that short episodes may have."""
    large = {"batch_steps": 200_000, "horizon": 10, "policy.hidden": (4,)}
    trainer = Trainer(make_config("lqr-302", "es", "tuned", large).validate(), Cpu(workers=1))
    try:
        assert trainer.pairs(trainer.initial_state()) == 10_000
    finally:
        trainer.close()


@pytest.mark.usefixtures("in_process")
def test_a_task_that_never_ends_is_known_from_the_start() -> None:
    config = make_config("swimmer", "natural-cv", "tuned", {"batch_steps": 6000}).validate()
    trainer = Trainer(config, Cpu(workers=1))
    try:
        assert trainer.pairs(trainer.initial_state()) == 3
    finally:
        trainer.close()


def test_the_same_bits_for_any_number_of_workers(tmp_path: Path) -> None:
    alone, *others = (train(tmp_path / str(workers), workers) for workers in (1, 2, 3))
    assert alone.iteration > 2
    for together in others:
        assert alone.iteration == together.iteration
        assert (alone.theta == together.theta).all()


@pytest.mark.usefixtures("in_process")
def test_the_same_bits_across_a_resume(tmp_path: Path) -> None:
    whole = train(tmp_path / "whole", 2, checkpoint_every=1)
    part = train(tmp_path / "part", 1, steps=900, checkpoint_every=1)
    again = quell.resume(part.path, steps=2500, workers=2, progress=False)
    # the schedule looks at the budget, so only a constant one is the same from the start
    whole_constant = train(tmp_path / "w2", 2, checkpoint_every=1, **{"step.schedule": "constant"})
    part_constant = train(tmp_path / "p2", 1, steps=900, checkpoint_every=1, **{"step.schedule": "constant"})
    again_constant = quell.resume(part_constant.path, steps=2500, workers=2, progress=False)
    assert (again_constant.theta == whole_constant.theta).all()
    assert again_constant.iteration == whole_constant.iteration
    assert not (again.theta == whole.theta).all()


def test_states_are_spread_over_all_steps() -> None:
    """Of an episode of 300 steps and one of 900, a quarter and three quarters of the states."""
    states = np.stack([np.full((5, 1), 0.0), np.full((5, 1), 1.0)]).astype(np.float32)
    rollouts = Rollouts(np.zeros((2, 9)), np.array([300, 900]), np.zeros(2, bool), None, np.zeros((2, 2, 1)), states)
    assert visited(rollouts, 400).mean() == pytest.approx(0.75, abs=0.01)
