"""Metrics of gradients, steps of a given size, and what they are worth."""

from __future__ import annotations

import numpy as np
import pytest
from small_point import point, run, shape

from quell.measure.fisher import STATES, Geometry, geometry
from quell.measure.gain import gains, step
from quell.measure.points import find_point
from quell.measure.session import Session
from quell.policy.likelihood import mean_kl
from quell.policy.network import Policy
from quell.rollout.cpu import Cpu


def sample(kind: str = "gaussian") -> Geometry:
    policy = Policy(3, 4, kind, (8,), "tanh")  # type: ignore[arg-type]
    rng = np.random.default_rng(0)
    theta = (rng.standard_normal(policy.dim) * 0.3).astype(np.float32)
    return Geometry(policy, theta, rng.standard_normal((50, 3)).astype(np.float32))


@pytest.mark.parametrize("kind", ["gaussian", "categorical"])
def test_policy_metric_against_the_divergence(kind: str) -> None:
    """|A delta|^2 = 2 KL for a small delta."""
    space = sample(kind)
    delta = np.random.default_rng(1).standard_normal(space.policy.dim) * 0.01
    moved = (space.theta + delta).astype(np.float32)
    length = np.square(space.mapped("policy", delta[None])).sum()
    assert length == pytest.approx(2 * float(mean_kl(space.policy)(moved, space.theta, space.states)), rel=0.05)


@pytest.mark.parametrize("kind", ["gaussian", "categorical"])
def test_step_metric(kind: str) -> None:
    """g' F^-1 g for nine gradients, by the Kronecker form written out."""
    space = sample(kind)
    g = np.random.default_rng(1).standard_normal((9, space.policy.dim))
    dense = space.kronecker.apply(np.eye(space.policy.dim), 1.0)
    lengths = np.square(space.mapped("step", g).astype(np.float64)).sum(axis=1)
    assert lengths == pytest.approx((g * np.linalg.solve(dense, g.T).T).sum(axis=1), rel=1e-4)


def test_steps_have_the_size_asked_for() -> None:
    where, rng = point(), np.random.default_rng(1)
    g = rng.standard_normal(where.policy.dim).astype(np.float32)
    space = Geometry(where.policy, where.theta, rng.standard_normal((STATES, 3)).astype(np.float32))
    assert np.linalg.norm(step("raw", 0.4, g, space)) == pytest.approx(0.4, rel=1e-4)
    assert np.abs(step("sign", 0.01, g, space)) == pytest.approx(np.full(len(g), 0.01))
    for kind in ("kl", "natural"):
        moved = where.theta + step(kind, 1e-4, g, space)
        assert float(mean_kl(where.policy)(moved, where.theta, space.states)) == pytest.approx(1e-4, rel=0.1)
        assert (step(kind, 0.1, 0 * g, space) == 0).all()
    assert abs(np.corrcoef(step("kl", 1e-4, g, space), g)[0, 1]) == pytest.approx(1, abs=1e-5)
    assert np.corrcoef(step("natural", 1e-4, g, space), g)[0, 1] < 0.999


def test_states_are_those_the_policy_visits() -> None:
    """Episodes of different lengths: every step counts the same, and the same states come back every time."""
    where = find_point("inverted-pendulum", "init", preset="paper", seed=0, settings={"policy.hidden": ()})
    first, second = (geometry(where, compute=Cpu(workers=workers)) for workers in (1, 2))
    assert first.states.shape == (STATES, where.task.obs_size)
    assert (first.states == second.states).all()
    counts = np.unique(first.states, axis=0, return_counts=True)[1]
    assert 20 < len(counts) < STATES, "all episodes together are shorter than the sample, so that steps are repeated"
    assert max(counts) < 2.5 * np.mean(counts)


def test_gains() -> None:
    found = run(["cv-several"], iterations=12)
    session = Session(found.point, Cpu(workers=1))
    worth = gains(session, found, ["es", "cv-several"], [("raw", 0.3), ("kl", 0.01)], shape(found.point), 10, 4)
    assert [(g.name, g.kind) for g in worth] == [
        ("es", "raw"),
        ("cv-several", "raw"),
        ("es", "kl"),
        ("cv-several", "kl"),
    ]
    assert worth[0].over_es.value == 0
    assert all(g.gain.low < g.gain.value < g.gain.high for g in worth)
    assert worth[1].gain.low > 0, "a step along its gradient climbs"
