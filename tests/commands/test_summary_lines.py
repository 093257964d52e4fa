"""What a finished run prints: the score, how noisy its gradients were, what went wrong and what did not."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from quell.api import Result
from quell.commands.common import report
from quell.training.methods import make_config

EVALUATED = {"eval/return": 40.0, "eval/return_std": 1.0, "eval/mean_action": 50.0, "eval/mean_action_std": 2.0}


def row(iteration: int, **more: float) -> dict[str, Any]:
    facts = {"iteration": iteration, "steps": 10 * iteration, "return/mean": 30.0, "return/max": 60.0}
    return {**facts, "trouble/flat": 0.0, "trouble/total": 0.0, **more}


def printed(rows: list[dict[str, Any]], capsys: pytest.CaptureFixture[str], **settings: Any) -> list[str]:
    config = make_config("swimmer", overrides={"steps": 10 * len(rows), **settings})
    policy: Any = SimpleNamespace(task=SimpleNamespace(notes=list))
    rows[-1] |= EVALUATED
    assert report(Result(Path("runs/a"), config, len(rows), 10 * len(rows), policy, rows, best=50.0)) == 0
    return capsys.readouterr().out.splitlines()


def measured(iteration: int, es: float, method: float, natural: float = 1.0) -> dict[str, Any]:
    variances = {"variance/es": es, "variance/method": method, "variance/ratio": method / es}
    return row(iteration, **variances, **{"variance/in_step_metric": natural})


def test_the_score_is_that_of_mean_actions(capsys: pytest.CaptureFixture[str]) -> None:
    """It comes first, as everywhere; the other one says what it is."""
    _, first, second, *_ = printed([row(1)], capsys)
    assert first.split() == ["return", "50.0", "±", "2.0", "(mean", "action)"]
    assert second.split() == ["40.0", "±", "1.0", "(actions", "sampled)"]


def test_a_small_variance_is_not_rounded_to_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [measured(1, 2.0, 1.9, natural=0.0), measured(2, 1e6, 3.0), measured(3, 1e6, 4.64)]
    assert "  gradient variance  3.8e-06 of plain ES's, in the metric of the natural step" in printed(rows, capsys)


def test_variance_is_shown_of_what_was_trained_not_of_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [measured(1, 2.0, 1.0, natural=0.0)]
    custom = printed(rows, capsys, estimator="control-variate", step="adam")
    assert "  gradient variance  0.5 of plain ES's" in custom
    plain = printed([measured(1, 2.0, 2.0, natural=0.0)], capsys, estimator="es", step="adam")
    assert not any("gradient variance" in line for line in plain), "plain ES beside itself"
    assert not any("gradient variance" in line for line in printed([row(1)], capsys)), "not known"


def test_a_solved_task_is_no_trouble(capsys: pytest.CaptureFixture[str]) -> None:
    """CartPole: all episodes are as long as they can be, and there is nothing left to learn."""
    solved = {"trouble/flat": 1.0, "return/mean": 500.0, "return/max": 500.0}
    said = printed([row(1), row(2), row(3, **solved)], capsys)
    assert "  in 1 iteration every episode returned 500, the most of the run" in said
    assert not any("trouble" in line for line in said)


def test_flat_batches_before_anything_is_found_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    flat = {"trouble/flat": 1.0, "return/mean": -200.0, "return/max": -200.0}
    said = printed([row(1, **flat), row(2, **flat), row(3)], capsys)
    assert "  in 2 iterations every episode returned the same: nothing to learn from (trouble/flat)" in said


def test_trouble_is_counted_in_english(capsys: pytest.CaptureFixture[str]) -> None:
    for count, words in ((1, "1 iteration "), (2, "2 iterations ")):
        said = printed([row(1), row(2, **{"trouble/total": float(count)})], capsys)
        assert f"  trouble in {words}(see trouble/* in metrics.jsonl)" in said
