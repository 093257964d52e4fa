"""What every registered engine keeps to: the same bits for any size, and a sum over all pairs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Here, InProcess
from digests import digest_of_rollouts

import quell
import quell.tasks
from quell import registry
from quell.errors import UsageError
from quell.estimate import Estimate, Problem, estimate
from quell.estimate.control_variate import ControlVariate
from quell.estimate.control_variate.discounted import DiscountedColumns
from quell.keys import Purpose, Stream, generator
from quell.perturb.gaussian import Gaussian
from quell.policy import Policy
from quell.rollout import Stages
from quell.types import Batch, Episodes, ObsStats, Rollouts

TASK = quell.tasks.get("walker2d", horizon=40)
PROBLEM = Problem(Policy(TASK.obs_size, TASK.action_size, output_scale=0.1), Gaussian(sigma=0.05), 2)
THETA = PROBLEM.policy.init(generator(2, Purpose.INIT))
SEEN = ObsStats(100.0, np.full(TASK.obs_size, 20.0), np.full(TASK.obs_size, 300.0))
PAIRS = 5


def played(compute: Any) -> tuple[str, str, Estimate]:
    """(digest of an evaluation, digest of a batch without what may stay elsewhere, an estimate from it)."""
    with compute.make(TASK, PROBLEM, members=2 * PAIRS, states=2) as engine:
        assert callable(engine.total)
        fresh = engine.rollout(THETA, Episodes.unperturbed(0, 3, Stream.FRESH, mean_action=True), SEEN)
        returns = dataclasses.replace(fresh, rewards=fresh.returns)  # all that need travel where nothing is recorded
        evaluation = digest_of_rollouts(returns)
        episodes = Episodes.of_pairs(1, PAIRS, record=True, states=2, longest=30)
        rollouts = engine.rollout(THETA, episodes, SEEN)
        kept = Rollouts(rollouts.rewards, rollouts.steps, rollouts.terminated, None, rollouts.obs_sums, rollouts.states)
        estimator = ControlVariate(columns=DiscountedColumns(baseline="leave-one-out"))
        batch = Batch(THETA, episodes, rollouts)
        state = estimator.init(PROBLEM)
        found = estimate(estimator, PROBLEM, batch, state, total=engine.total)
        assert all(np.isfinite(value) for value in engine.metrics().values())
        return evaluation, digest_of_rollouts(kept), found


@pytest.fixture(scope="module")
def expected() -> tuple[str, str, Estimate]:
    return played(Here())


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """One local cluster for all sizes of the Ray engine."""
    pytest.importorskip("ray")
    from quell.rollout.cluster.session import Session

    session = Session(None, 3)
    try:
        yield
    finally:
        session.close()


EXACT = [name for name, engine in registry.table("engine").items() if getattr(engine, "exact", True)]


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("name", EXACT)
def test_the_same_bits(name: str, workers: int, expected: tuple[str, str, Estimate], request: Any) -> None:
    if name == "ray":
        request.getfixturevalue("cluster")
    evaluation, batch, estimated = played(registry.make("engine", name, {"workers": workers}))
    assert evaluation == expected[0]
    assert batch == expected[1]
    assert (estimated.gradient == expected[2].gradient).all()
    assert all((estimated.state[key] == value).all() for key, value in expected[2].state.items())


def test_the_map_on_the_cpu_agrees_to_single_precision(expected: tuple[str, str, Estimate]) -> None:
    _, batch, estimated = played(registry.make("engine", "cpu", {"workers": 2, "sum": "vmap"}))
    assert batch == expected[1]
    assert estimated.gradient == pytest.approx(
        expected[2].gradient, abs=1e-3 * float(np.abs(expected[2].gradient).max())
    )


@pytest.mark.parametrize("name", registry.table("engine"))
def test_its_settings_are_checked(name: str) -> None:
    size = "workers" if name in EXACT else "devices"
    with pytest.raises(UsageError, match=f"`{size}=0` must be at least 1"):
        registry.make("engine", name, {size: 0}).validate()
    with pytest.raises(UsageError, match=rf"engine.{size[1:]}.*did you mean '{size}'"):
        registry.make("engine", name, {size[1:]: 1})


def test_an_engine_may_do_a_whole_iteration_itself(tmp_path: Path) -> None:
    """What a run's iteration is, its engine has the last word on: here it goes stage by stage, and is counted."""
    done = []

    class Whole(InProcess):
        def iterate(self, stages: Stages[Any], state: Any) -> tuple[Any, dict[str, float]]:
            following, row = stages.in_turn(state)
            done.append(following.iteration)
            return following, row | {"whole/iterations": float(len(done))}

    class There(Here):
        def make(self, task: Any, problem: Problem, *, members: int, states: int = 0) -> InProcess:
            return Whole(task, problem)

    result = quell.train("lqr-302", steps=302 * 2 * 2 * 2, pairs=2, engine=There(), out=tmp_path, progress=False)
    assert done == [row["iteration"] for row in result.history]
    assert [row["whole/iterations"] for row in result.history] == [1.0, 2.0]
