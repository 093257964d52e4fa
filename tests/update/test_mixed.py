"""A step of two parts: Adam's along the estimate by ES's weight, a natural one along the policy gradient."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from stepping import GAUSSIAN, context, gradient_of

from quell.policy import Policy
from quell.types import Array, Caution
from quell.update import Context
from quell.update.first_order import Adam
from quell.update.mixed import FALL, Mixed
from quell.update.natural import Natural

ESTIMATE, OWN = gradient_of(GAUSSIAN), gradient_of(GAUSSIAN, 2)


def told(weight: float, share: float = 1.0, policy: Policy = GAUSSIAN) -> Context:
    caution = Caution(share=share, es=weight, policy_gradient=gradient_of(policy, 2))
    return dataclasses.replace(context(policy), caution=caution)


def moved(step: Any, gradient: Array, where: Context, policy: Policy = GAUSSIAN) -> Array:
    return step.step(where.theta, gradient, step.init(policy, where.theta), where)[0] - where.theta


def test_without_es_it_is_the_natural_step_along_the_policy_gradient() -> None:
    """Whatever the estimate is."""
    where, usual = told(0.0), moved(Natural(kl=0.02), OWN, context(GAUSSIAN))
    for estimate in (ESTIMATE, 100 * ESTIMATE):
        assert moved(Mixed(kl=0.02), estimate, where) == pytest.approx(usual, abs=1e-7)


def test_with_es_alone_it_is_adams_along_the_estimate() -> None:
    """To the last bit."""
    where = told(1.0)
    assert (moved(Mixed(lr=0.02), ESTIMATE, where) == moved(Adam(lr=0.02), ESTIMATE, where)).all()


@pytest.mark.parametrize("weight", [0.25, 0.5, 0.9])
def test_each_part_has_its_share(weight: float) -> None:
    """Of a small natural step the length is in proportion, so the divergence falls with the square."""
    where = told(weight)
    adam = weight * moved(Adam(lr=0.02), ESTIMATE, where)
    natural = (1 - weight) * moved(Natural(kl=1e-4), OWN, context(GAUSSIAN))
    found = moved(Mixed(kl=1e-4, lr=0.02), ESTIMATE, where)
    assert np.linalg.norm(found - adam - natural) < 0.01 * np.linalg.norm(natural)


def test_an_estimate_of_one_kind_has_half_of_each() -> None:
    where = context(GAUSSIAN)
    half = told(0.5)
    half = dataclasses.replace(half, caution=dataclasses.replace(half.caution, policy_gradient=ESTIMATE))
    assert (moved(Mixed(), ESTIMATE, where) == moved(Mixed(), ESTIMATE, half)).all()


@pytest.mark.parametrize(("weight", "share"), [(1.0, 1.0), (0.5, 1.0), (0.5, 0.5), (0.0, 1.0)])
def test_the_noise_of_actions_falls_by_what_es_has_to_say(weight: float, share: float) -> None:
    """By a tenth of the distance a step; nothing else does, and noise that is small already stays."""
    where, noise = told(weight, share), GAUSSIAN.layout["log_std"][0]
    lost = moved(Mixed(quiet=0.1), ESTIMATE, where) - moved(Mixed(), ESTIMATE, where)
    expected = np.zeros_like(lost)
    expected[noise] = -weight * share * FALL * np.log(GAUSSIAN.init_std / 0.1)
    assert lost == pytest.approx(expected, abs=1e-6)
    assert (moved(Mixed(quiet=0.5), ESTIMATE, where) == moved(Mixed(), ESTIMATE, where)).all()


def test_it_falls_to_where_it_is_quiet_and_no_further() -> None:
    """With a gradient of 0 nothing else moves: after 100 steps e^(-10) of the distance is left."""
    step, where = Mixed(quiet=0.1), told(1.0)
    theta, state = where.theta, step.init(GAUSSIAN, where.theta)
    for _ in range(100):
        theta, state, _ = step.step(theta, 0 * ESTIMATE, state, dataclasses.replace(where, theta=theta))
    assert GAUSSIAN.std(theta) == pytest.approx(0.1, rel=1e-3)
    assert GAUSSIAN.std(theta).min() > 0.1


def test_a_policy_whose_noise_is_not_learned_keeps_it() -> None:
    policy = Policy(5, 3, hidden=(8,), init_std=0.5, learn_std=False)
    where = told(1.0, policy=policy)
    gradient = gradient_of(policy)
    quiet, plain = (moved(Mixed(quiet=q), gradient, where, policy) for q in (0.1, 0.0))
    assert (quiet == plain).all()
