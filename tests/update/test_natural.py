"""The natural step: as far as the KL divergence allows, along the inverse Fisher matrix."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from stepping import CATEGORICAL, GAUSSIAN, context, gradient_of

from quell.policy import Policy
from quell.policy.likelihood import fisher_product
from quell.types import Array, Caution
from quell.update import Context
from quell.update.natural import SLACK, Natural


@pytest.mark.parametrize("policy", [GAUSSIAN, CATEGORICAL], ids=["gaussian", "categorical"])
@pytest.mark.parametrize("kl", [1e-4, 1e-2, 0.1])
def test_the_divergence_is_what_was_asked_for(policy: Policy, kl: float) -> None:
    """To second order for small steps, and never more than the slack for long ones."""
    where, step = context(policy), Natural(kl=kl)
    moved, _, facts = step.step(where.theta, gradient_of(policy), step.init(policy, where.theta), where)
    assert facts["update/kl"] == pytest.approx(where.kl(moved))
    assert facts["update/kl"] <= SLACK * kl
    if kl <= 1e-3:
        assert facts["update/kl"] == pytest.approx(kl, rel=0.2)


def test_the_direction_is_the_natural_gradient() -> None:
    """In a policy of one layer the Kronecker form is exact: F times the step is along the gradient (damping aside)."""
    policy = Policy(4, 2, hidden=(), init_std=0.5)
    where = context(policy, states=4000)
    step, gradient = Natural(kl=1e-6, damping=1e-9), gradient_of(policy)
    moved, _, _ = step.step(where.theta, gradient, step.init(policy, where.theta), where)
    taken = (moved - where.theta).astype(np.float64)
    product = np.asarray(fisher_product(policy)(where.theta, where.states, taken.astype(np.float32)), np.float64)
    cosine = product @ gradient / (np.linalg.norm(product) * np.linalg.norm(gradient))
    assert cosine > 0.999
    along = taken @ gradient / (np.linalg.norm(taken) * np.linalg.norm(gradient))
    assert along < 0.99  # which is not the gradient's own direction


def test_the_divergence_falls_with_the_schedule() -> None:
    step = Natural(kl=1e-3, schedule="linear")
    facts = [
        step.step(w.theta, gradient_of(GAUSSIAN), step.init(GAUSSIAN, w.theta), w)[2]["update/kl"]
        for w in (context(GAUSSIAN, steps=0), context(GAUSSIAN, steps=750))
    ]
    assert facts[1] == pytest.approx(facts[0] / 4, rel=0.2)


def test_past_batches_count_by_their_decay() -> None:
    """The same states twice leave the metric as it was; decay 0 forgets all but the last."""
    where, step = context(GAUSSIAN), Natural(decay=0.5)
    state = step.init(GAUSSIAN, where.theta)
    assert not step.metric(GAUSSIAN, state).known
    np.testing.assert_array_equal(step.metric(GAUSSIAN, state).whitening()[0][2], 1.0)
    _, once, _ = step.step(where.theta, gradient_of(GAUSSIAN), state, where)
    _, twice, _ = step.step(where.theta, gradient_of(GAUSSIAN), once, where)
    assert twice["count"] == pytest.approx(1.5 * once["count"])
    vector = gradient_of(GAUSSIAN, 2)
    first, second = step.metric(GAUSSIAN, once), step.metric(GAUSSIAN, twice)
    assert first.known
    np.testing.assert_allclose(first.apply(vector, -1), second.apply(vector, -1), rtol=1e-6)


@pytest.mark.parametrize("gradient", [np.zeros(GAUSSIAN.dim), np.full(GAUSSIAN.dim, np.nan)], ids=["zero", "nan"])
def test_nothing_to_go_by_is_no_step(gradient: Array) -> None:
    where, step = context(GAUSSIAN), Natural()
    moved, _, _ = step.step(where.theta, gradient.astype(np.float32), step.init(GAUSSIAN, where.theta), where)
    assert (moved == where.theta).all()


def test_states_too_large_to_square_are_no_step() -> None:
    """The trainer sees that theta is not finite, skips the step and counts it; what was known stays."""
    policy = Policy(2, 1, hidden=(4,), activation="relu")
    theta = policy.init(np.random.default_rng(0))
    step = Natural()
    state = step.init(policy, theta)
    context = Context(policy, 0, 1000, theta, np.full((8, 2), 1e30, np.float32))
    with np.errstate(all="ignore"):
        moved, following, _ = step.step(theta, np.ones_like(theta), state, context)
    assert not np.isfinite(moved).any()
    assert all((following[name] == state[name]).all() for name in state)


@pytest.mark.parametrize(
    "divergence",
    [lambda theta: np.float64(np.nan), lambda theta: np.float64(np.inf), lambda theta: np.float64(1.0)],
    ids=["nan", "infinite", "too far"],
)
def test_a_divergence_that_is_never_within_the_limit_is_no_step(
    divergence: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even at the last try; the trainer sees that theta is not finite, and what was known stays."""
    where, step = context(GAUSSIAN), Natural(kl=0.03)
    state = step.init(GAUSSIAN, where.theta)
    monkeypatch.setattr(Context, "kl", lambda self, theta: divergence(theta))
    moved, following, facts = step.step(where.theta, gradient_of(GAUSSIAN), state, where)
    assert not np.isfinite(moved).any()
    assert all((following[name] == state[name]).all() for name in state)
    assert facts["update/kl"] == 0


def test_a_length_that_is_not_a_number_is_no_step(monkeypatch: pytest.MonkeyPatch) -> None:
    where, step = context(GAUSSIAN), Natural()
    monkeypatch.setattr(Context, "kl_length", lambda self, direction: np.float64(np.nan))
    moved, _, _ = step.step(where.theta, gradient_of(GAUSSIAN), step.init(GAUSSIAN, where.theta), where)
    assert not np.isfinite(moved).any()


def test_a_step_shorter_than_rounding_is_no_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the end of a falling schedule, where a divergence in single precision is all rounding."""
    where, step = context(GAUSSIAN), Natural(kl=1e-9)
    monkeypatch.setattr(Context, "kl", lambda self, theta: np.float64(2e-7))
    moved, _, _ = step.step(where.theta, gradient_of(GAUSSIAN), step.init(GAUSSIAN, where.theta), where)
    assert np.isfinite(moved).all()


@pytest.mark.parametrize("reach", [0.5, 1e-9], ids=["shortened", "refused"])
def test_a_surrogate_is_heeded(reach: float) -> None:
    """A step that loses by the batch's own word is shortened until it gains, and not taken if no length does."""
    where, step = context(GAUSSIAN), Natural(kl=1e-3)
    given = gradient_of(GAUSSIAN), step.init(GAUSSIAN, where.theta)
    free, _, _ = step.step(where.theta, *given, where)
    whole = float(np.linalg.norm(free - where.theta))
    judged = dataclasses.replace(
        where, caution=Caution(lambda theta: reach * whole - float(np.linalg.norm(theta - where.theta)))
    )
    moved, state, facts = step.step(where.theta, *given, judged)
    assert state["count"] > 0, "the batch counts for the metric in any case"
    assert facts["update/shortened"] > 0
    if reach < 0.1:
        np.testing.assert_array_equal(moved, where.theta)
        assert facts["update/kl"] == 0
    else:
        assert 0.25 * whole < np.linalg.norm(moved - where.theta) < reach * whole
        assert facts["update/kl"] == pytest.approx(where.kl(moved))


def test_what_was_found_while_the_gradient_was_estimated_is_not_looked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    step, where = Natural(), context(GAUSSIAN)
    state, gradient = step.init(GAUSSIAN, where.theta), gradient_of(GAUSSIAN)
    moved, following, _ = step.step(where.theta, gradient, state, where)
    looked = step.look(state, where)
    monkeypatch.delattr(Natural, "look")
    again, same, _ = step.step(where.theta, gradient, state, dataclasses.replace(where, looked=lambda: looked))
    assert again.tobytes() == moved.tobytes()
    assert all(same[name].tobytes() == following[name].tobytes() for name in following)
