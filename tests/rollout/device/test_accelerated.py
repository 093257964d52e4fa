"""Environments of Brax and MuJoCo Playground on the device engine; a stand-in for theirs where they are not here."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import quell.tasks
from quell.errors import MissingExtra, UsageError, installed
from quell.estimate import Problem
from quell.keys import Stream
from quell.perturb import Unperturbed
from quell.policy import Policy
from quell.rollout.device import Device
from quell.tasks.foreign.accelerated import AcceleratedTask
from quell.types import Episodes


class State(NamedTuple):
    obs: Any
    reward: Any
    done: Any


class Drift:
    """One number that drifts by the action; it pays what it is, and ends beyond 1. As their environments look."""

    action_size = 1

    def reset(self, key: Any) -> State:
        import jax

        assert key.dtype == np.uint32
        start = jax.random.uniform(key, (1,), maxval=0.1)
        return State({"state": start, "privileged": jax.numpy.zeros(3)}, start[0] * 0, start[0] * 0)

    def step(self, state: State, action: Any) -> State:
        moved = state.obs["state"] + action
        return State(state.obs | {"state": moved}, moved[0], (moved[0] > 1).astype(np.float32))


def test_an_environment_is_played_as_it_is() -> None:
    """A constant action of 0.3 (0.5 is cut to what the environment takes: none): four steps until it is beyond 1."""
    task = AcceleratedTask(name="brax:drift", env=Drift(), horizon=20)
    policy = Policy(1, 1, "deterministic", hidden=())
    theta = np.array([0.0, 0.3], np.float32)
    with Device().make(task, Problem(policy, Unperturbed(), 0), members=6) as engine:
        played = engine.rollout(theta, Episodes.unperturbed(0, 6, Stream.FRESH, record=True))
        first = np.asarray(engine._paths["obs"])[:, 0, 0]  # type: ignore[attr-defined]
    assert played.terminated.all()
    assert played.steps.tolist() == [4] * 6
    assert len(set(first.tolist())) == 6
    np.testing.assert_allclose(played.returns, 4 * first + 0.3 * 10, rtol=1e-5)
    with pytest.raises(UsageError, match="'brax:drift' runs on `engine=device` alone"):
        task.simulator(1)


@pytest.mark.parametrize("library", ["brax", "playground"])
def test_a_missing_library_is_named(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(quell.errors.EXTRAS, library, "no_such_module")
    with pytest.raises(MissingExtra, match=rf"pip install 'quell\[{library}\]'"):
        quell.tasks.get(f"{library}:ant")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:Brax System")  # of Brax's own code
@pytest.mark.parametrize("name", ["brax:inverted_pendulum", "playground:CartpoleBalance"])
def test_theirs_are_played(name: str) -> None:
    library = name.partition(":")[0]
    if not installed(library):
        pytest.skip(f"needs the extra {library}")
    with pytest.raises(UsageError, match="has no environment 'nothing'"):
        quell.tasks.get(f"{library}:nothing")
    task = quell.tasks.get(name, horizon=8)
    policy = Policy(task.obs_size, task.action_size, hidden=())
    theta = policy.init(np.random.default_rng(0))
    with Device().make(task, Problem(policy, Unperturbed(), 0), members=3) as engine:
        played = engine.rollout(theta, Episodes.unperturbed(0, 3, Stream.FRESH))
    assert np.isfinite(played.returns).all()
    assert (played.steps > 0).all()
