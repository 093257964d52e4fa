"""The budget: the pair of episodes that crosses it is the last one played, whoever plays them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import quell
from quell.cli import main
from quell.estimate import Problem
from quell.estimate.reduce import directions_of
from quell.perturb.orthogonal import Orthogonal
from quell.perturb.qmc import Qmc
from quell.policy import Policy
from quell.training.display import Display
from quell.training.iteration import Trainer
from quell.types import Array, Episodes

QUIET: dict[str, Any] = {"progress": False, "eval_every": 0, "eval_episodes": 1}


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, Array]]:
    """(pairs planned, length of every episode) of each batch that is trained on in this process."""
    seen: list[tuple[int, Array]] = []
    play = Trainer._play

    def recorded(trainer: Trainer, state: Any, shape: Any) -> Any:
        episodes, rollouts = play(trainer, state, shape)
        seen.append((trainer.pairs(state), rollouts.steps.copy()))
        assert len(rollouts.steps) == 2 * episodes.pairs
        return episodes, rollouts

    monkeypatch.setattr(Trainer, "_play", recorded)
    return seen


def check(batches: list[tuple[int, Array]], budget: int, steps: int) -> None:
    lengths = np.concatenate([played for _, played in batches])
    assert lengths.sum() == steps
    assert lengths[:-2].sum() < budget <= steps, "the last pair is the one that crosses it"
    assert all(len(played) == 2 * pairs for pairs, played in batches[:-1]), "only the last batch is cut"


TASKS: dict[str, dict[str, Any]] = {
    "lqr": {"horizon": 30, "steps": 1000},  # of fixed length
    "gym:CartPole-v1": {"horizon": 200, "steps": 1000},  # of 10 to 60 steps at first
}


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize(
    ("task", "method", "settings"),
    [
        ("lqr", "es", {"pairs": 8}),
        ("lqr", "ortho", {"pairs": 100}),
        ("gym:CartPole-v1", "es", {"pairs": 8}),
        ("gym:CartPole-v1", "qmc", {"pairs": 8}),
        ("gym:CartPole-v1", "ppo", {"batch_steps": 300}),
        pytest.param("gym:CartPole-v1", "trpo", {"batch_steps": 300}, marks=pytest.mark.slow),
        pytest.param("gym:CartPole-v1", "natural-cv", {"batch_steps": 300}, marks=pytest.mark.slow),
        pytest.param("gym:CartPole-v1", "natural-cv", {"batch_steps": 10**9}, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_pair_that_crosses_the_budget_is_the_last(
    task: str, method: str, settings: dict[str, Any], seed: int, batches: list[tuple[int, Array]], tmp_path: Path
) -> None:
    made = quell.train(task, method=method, out=tmp_path, seed=seed, **QUIET, **TASKS[task], **settings)
    check(batches, TASKS[task]["steps"], made.steps)
    assert made.finished


@pytest.mark.parametrize("workers", [1, 3])
def test_by_any_number_of_workers(workers: int, batches: list[tuple[int, Array]], tmp_path: Path) -> None:
    settings: dict[str, Any] = {**QUIET, **TASKS["gym:CartPole-v1"], "method": "es", "pairs": 8}
    made = quell.train("gym:CartPole-v1", out=tmp_path, workers=workers, **settings)
    check(batches, settings["steps"], made.steps)
    assert (made.steps, made.iteration) == (1018, 3)
    assert len(batches[-1][1]) < 16


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize("directions", ["gaussian", "orthogonal", "qmc"])
def test_iterations_before_the_last_keep_their_bits(directions: str, tmp_path: Path) -> None:
    settings: dict[str, Any] = {**QUIET, "method": "es", "pairs": 4, "horizon": 200, "checkpoint_every": 1}
    settings |= {"keep_checkpoints": 100, "directions": directions}
    long = quell.train("gym:CartPole-v1", steps=2000, out=tmp_path, name="long", **settings)
    ends = [row["steps"] for row in long.history]
    for budget in (ends[1], ends[1] - 1, ends[1] + 1):  # inside; just inside; the third batch is cut
        short = quell.train("gym:CartPole-v1", steps=budget, out=tmp_path, name=f"short-{budget}", **settings)
        same = 3 if budget > ends[1] else 2
        assert short.iteration == same
        whole = same if budget <= ends[1] else same - 1
        before = quell.load(long.path, at=whole).theta, quell.load(short.path, at=whole).theta
        assert before[0].tobytes() == before[1].tobytes(), budget
        if whole < same:
            assert short.steps < ends[2]
            assert short.theta.tobytes() != long.theta.tobytes()


@pytest.mark.parametrize("directions", [Orthogonal(), Qmc(), Qmc(shift=True)])
def test_the_first_pairs_of_a_batch_have_the_directions_of_the_whole(directions: Any) -> None:
    problem, whole = Problem(Policy(3, 2), directions, 0), Episodes.of_pairs(3, 6)
    part = whole.first(2).first(1)
    assert (part.pairs, part.planned, whole.first(6)) == (1, 6, whole)
    for pair in range(2):
        ours, all_of_them = (directions_of(problem, one, pair)[0] for one in (whole.first(2), whole))
        assert ours.tobytes() == all_of_them.tobytes()


@pytest.mark.usefixtures("in_process")
def test_bar_and_summary_agree_and_one_batch_beyond_the_budget_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", "lqr", "--method", "es", "--steps", "150", "--horizon", "40", "--out", str(tmp_path)]
    assert main(words) == 0
    said = capsys.readouterr()
    assert "160 steps, 1 iteration\n" in said.out
    assert "a single iteration: --steps 150 is no more than one batch takes" in said.out
    assert "160 steps" in said.err
    assert main([*words[:5], "800", *words[6:]]) == 0
    assert "a single" not in capsys.readouterr().out


def test_a_bar_shows_the_steps_that_were_made() -> None:
    display = Display("x", 150, plain=False)
    display.on_iteration({"steps": 160, "return/mean": 0.0, "speed": 1.0, "trouble/total": 0.0})
    (bar,) = display._bar.tasks
    assert (bar.completed, bar.percentage) == (160, 100.0)
