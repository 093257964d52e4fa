"""Learning, end to end: slow, so outside `make test`."""

from __future__ import annotations

from pathlib import Path

import pytest

import quell

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("method", ["es", "natural-cv"])
def test_cartpole_is_solved(method: str, tmp_path: Path) -> None:
    """Discrete actions: 475 of 500, the threshold at which Gymnasium calls it solved, with default settings."""
    result = quell.train("gym:CartPole-v1", method=method, steps=400_000, out=tmp_path, progress=False)
    assert quell.evaluate(result, episodes=50).returns.mean() >= 475


def test_swimmer_swims(tmp_path: Path) -> None:
    """The tuned control variate passes the paper's final score (237 after 2e7 steps) within 5e5 steps."""
    result = quell.train("swimmer", steps=500_000, out=tmp_path, progress=False)
    assert quell.evaluate(result, episodes=20).returns.mean() > 237


def test_lqr_stays_below_its_optimum(tmp_path: Path) -> None:
    """No policy beats Riccati's: a score above it would mean that the task is wrong."""
    from quell.tasks.lqr import Lqr302, optimal_return

    result = quell.train("lqr-302", method="es", steps=300_000, out=tmp_path, progress=False)
    returns = quell.evaluate(result, episodes=200, mean_action=True).returns
    assert returns.mean() < optimal_return(Lqr302()) + 3 * returns.std() / 200**0.5
