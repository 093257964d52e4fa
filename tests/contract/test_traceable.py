"""What says that it is traceable runs inside a compiled program too, and comes to the same as with NumPy."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import Collector
from linear_gaussian import POLICY as SMALL
from linear_gaussian import THETA as SMALL_THETA
from linear_gaussian import LinearGaussian
from strategies import all_of, directions_for, estimators, label

from quell import registry
from quell.estimate import estimate
from quell.estimate.reduce import pair_of
from quell.perturb.gcmc import Gcmc
from quell.perturb.orthogonal import Orthogonal
from quell.policy import Policy
from quell.types import Pair
from quell.update import Context

POLICY = Policy(5, 2, hidden=(8,), activation="tanh", init_std=0.5)
RNG = np.random.default_rng(0)
THETA = POLICY.init(RNG)
GRADIENTS = RNG.standard_normal((3, POLICY.dim)).astype(np.float32)
STATES = RNG.standard_normal((64, 5)).astype(np.float32)
STEPS = [step for step in all_of("step") if step.traceable]


def test_adam_sgd_and_natural_steps_can_be_traced() -> None:
    assert {registry.name_of(step) for step in STEPS} >= {"adam", "sgd", "natural"}


def as_jax(tree: Any) -> Any:
    return jax.tree.map(jnp.asarray, tree)


@pytest.mark.parametrize("schedule", ["constant", "linear"])
@pytest.mark.parametrize("step", STEPS, ids=label)
def test_a_step_is_the_same_inside_a_compiled_program(step: Any, schedule: str) -> None:
    """Three steps, each from the one before; single precision against double: 1e-3 of the way that theta goes. The
    second call with the same shapes compiles nothing."""
    step = registry.replace(step, {"schedule": schedule})
    compiled = 0

    def one(theta: Any, gradient: Any, state: Any, spent: Any, states: Any) -> Any:
        nonlocal compiled
        compiled += 1
        context = Context(POLICY, spent, 1000, theta, states if step.states else None)
        moved, state, facts = step.step(theta, gradient, state, context)
        return moved, state, {name: jnp.asarray(value) for name, value in facts.items()}

    traced = jax.jit(one)
    theta, state = THETA, step.init(POLICY, THETA)
    other, other_state = jnp.asarray(THETA), as_jax(state)
    for number, gradient in enumerate(GRADIENTS):
        context = Context(POLICY, 100 * number, 1000, theta, STATES if step.states else None)
        moved, state, facts = step.step(theta, gradient, state, context)
        other, other_state, other_facts = traced(other, gradient, other_state, 100 * number, STATES)
        way = float(np.linalg.norm(moved - theta))
        assert way > 0
        assert np.linalg.norm(np.asarray(other) - moved) < 1e-3 * way * (number + 1)
        assert facts.keys() == other_facts.keys()
        assert {name: float(v) for name, v in facts.items()} == pytest.approx(
            {name: float(v) for name, v in other_facts.items()}, rel=5e-3, abs=1e-6
        )
        theta = moved
    assert compiled == 1


ESTIMATORS = [
    (estimator, directions)
    for estimator in estimators()
    if estimator.needs.traceable
    for directions in (directions_for(estimator), Orthogonal(sigma=0.3), Gcmc(sigma=0.3))
]


def test_es_can_be_traced() -> None:
    assert {registry.name_of(estimator) for estimator, _ in ESTIMATORS} >= {"es"}


@pytest.mark.parametrize("shaping", ["normalise", "ranks", "none"])
@pytest.mark.parametrize(("estimator", "directions"), ESTIMATORS, ids=lambda value: label(value))
def test_an_estimate_is_the_same_inside_a_compiled_program(estimator: Any, directions: Any, shaping: str) -> None:
    """prepare, the terms of all pairs at once, and combine in one program, against NumPy: 1e-4 of the gradient's norm.
    One of the pairs has a return that is no number; the second batch compiles nothing."""
    estimator = dataclasses.replace(estimator, shaping=shaping)
    data = Collector(LinearGaussian(), SMALL, pairs=6, directions=directions)
    problem, compiled = data.problem, 0

    def whole(rollouts: Any, state: Any, eps: Any, template: Any) -> Any:
        nonlocal compiled
        compiled += 1
        batch = dataclasses.replace(template, rollouts=dataclasses.replace(template.rollouts, **rollouts))
        rows = estimator.prepare(problem, batch, state)

        def one(number: Any) -> Any:
            row = rows.row(number)
            terms = estimator.terms(problem, Pair(eps[number], rollouts["steps"][number]), row, SMALL_THETA, jnp)
            return {name: jnp.where(row["good"], term, 0.0) for name, term in terms.items()}

        sums = {name: values.sum(axis=0) for name, values in jax.vmap(one)(jnp.arange(6)).items()}
        found = estimator.combine(problem, sums, rows, state)
        return found.gradient, found.state, found.metrics

    first = data.batch(SMALL_THETA, 0)
    traced = jax.jit(lambda rollouts, state, eps: whole(rollouts, state, eps, first))
    state = estimator.init(problem)
    other_state = as_jax(state)
    for iteration in range(2):
        batch = data.batch(SMALL_THETA, iteration)
        batch.rollouts.rewards[2, 1] = np.nan
        found = estimate(estimator, problem, batch, state, total=data.total)
        eps = np.array([pair_of(problem, batch.episodes, batch.rollouts, pair).eps for pair in range(6)])
        rollouts = as_jax({"rewards": batch.rollouts.rewards, "steps": batch.rollouts.steps})
        gradient, other_state, metrics = traced(rollouts, other_state, jnp.asarray(eps))
        error = np.linalg.norm(np.asarray(gradient) - found.gradient)
        assert error < 1e-4 * np.linalg.norm(found.gradient)
        assert {name: float(value) for name, value in metrics.items()} == pytest.approx(
            {name: float(value) for name, value in found.metrics.items()}, rel=1e-3, nan_ok=True
        )
        state = found.state
    assert compiled == 1
