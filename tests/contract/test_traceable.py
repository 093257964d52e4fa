"""What says that it is traceable runs inside a compiled program too, and comes to the same as with NumPy."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from strategies import all_of, label

from quell import registry
from quell.policy import Policy
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
