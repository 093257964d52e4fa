"""What every registered step keeps to."""

from __future__ import annotations

import dataclasses
from typing import Any, get_args

import numpy as np
import optax
import pytest
from strategies import all_of, label

from quell import registry
from quell.errors import UsageError
from quell.policy import Policy
from quell.types import Array, Caution
from quell.update import Context, from_arrays, to_arrays
from quell.update.first_order import OwnOptax

STEPS = all_of("step")
everyone = pytest.mark.parametrize("step", STEPS, ids=label)
POLICY = Policy(3, 2, hidden=())
TARGET = np.linspace(-1, 1, POLICY.dim).astype(np.float32)
SEEN = np.random.default_rng(0).standard_normal((64, POLICY.obs_size)).astype(np.float32)
SCALES = np.linspace(0.5, 2, POLICY.dim).astype(np.float32)
THEIRS = {
    "adam": lambda s: optax.adam(s.lr, s.b1, s.b2, s.eps),
    "sgd": lambda s: optax.sgd(s.lr),
}
"""optax's own optimisers with the same settings."""


def slope(theta: Array) -> Array:
    """Of -sum scale (theta - target)^2 / 2."""
    return SCALES * (TARGET - theta)


def height(theta: Array) -> float:
    return float(-(SCALES * np.square(theta - TARGET)).sum() / 2)


def walk(step: Any, steps: int, theta: Array | None = None, state: Any = None) -> tuple[Array, Any]:
    theta = np.zeros(POLICY.dim, np.float32) if theta is None else theta
    state = step.init(POLICY, theta) if state is None else state
    for done in range(steps):
        seen = SEEN if step.states else None
        context = Context(POLICY, 10 * (1 + done), 1000, theta, seen)
        theta, state, metrics = step.step(theta, slope(theta), state, context)
        assert theta.dtype == np.float32
        assert all(np.isfinite(value) for value in metrics.values())
    return theta, state


@everyone
def test_moves_uphill(step: Any) -> None:
    assert height(walk(step, 1)[0]) > height(np.zeros(POLICY.dim))
    assert height(walk(step, 200)[0]) > 0.1 * height(np.zeros(POLICY.dim))


@pytest.mark.parametrize("step", [*STEPS, OwnOptax(optax.adam(0.01))], ids=registry.name_of)
def test_a_share_of_a_step_is_that_much_shorter(step: Any) -> None:
    """In length, to 1%; a divergence falls with its square."""
    theta = np.zeros(POLICY.dim, np.float32)
    whole, half, none = (
        step.step(theta, slope(theta), step.init(POLICY, theta), Context(POLICY, 10, 1000, theta, SEEN, caution))
        for caution in (Caution(share=1.0), Caution(share=0.5), Caution(share=0.0))
    )
    assert half[0] == pytest.approx(whole[0] / 2, rel=0.01)
    assert np.any(whole[0])
    assert (none[0] == theta).all()
    for name in whole[2].keys() & {"learning_rate", "update/kl"}:
        assert half[2][name] == pytest.approx(whole[2][name] / (4 if name == "update/kl" else 2), rel=0.05)


@everyone
def test_its_state_survives_a_checkpoint_exactly(step: Any) -> None:
    theta, state = walk(step, 5)
    arrays = {name: np.array(value) for name, value in to_arrays(state).items()}
    fresh = {name: array.dtype for name, array in to_arrays(step.init(POLICY, theta)).items()}
    assert {name: array.dtype for name, array in arrays.items()} == fresh
    restored = from_arrays(step, POLICY, theta, arrays)
    assert (walk(step, 5, theta, restored)[0] == walk(step, 5, theta, state)[0]).all()


@everyone
def test_a_state_of_another_shape_is_refused(step: Any) -> None:
    _, state = walk(step, 2)
    arrays = {name: np.zeros((*np.shape(value), 2)) for name, value in to_arrays(state).items()}
    if not arrays:
        pytest.skip("it has no state")
    from quell.errors import QuellError

    with pytest.raises(QuellError, match="does not fit"):
        from_arrays(step, POLICY, TARGET, arrays)


@everyone
def test_every_setting_matters(step: Any) -> None:
    usual = walk(step, 6)[0]
    for name, hint in registry.hints(type(step)).items():
        value = getattr(step, name)
        others: list[Any] = [o for o in get_args(hint) if isinstance(o, str) and o != value] or [value / 2, 0.1]
        for other in others[:1] if isinstance(value, str) else others[-1:] if value < 1e-3 else others[:1]:
            changed = dataclasses.replace(step, **{name: other})
            try:
                registry.check(changed)
            except UsageError:  # a setting that this step would not feel is refused
                continue
            assert np.abs(walk(changed, 6)[0] - usual).max() > 1e-6, f"{name}={other} changes nothing"


@everyone
def test_equals_optax(step: Any) -> None:
    """Our own wrapping of the rules against optax's optimisers, which descend: eight steps to 1e-6."""
    if step.name not in THEIRS:
        pytest.skip("optax has none like it")
    theirs = THEIRS[step.name](step)
    theta = np.zeros(POLICY.dim, np.float32)
    state = theirs.init(theta)
    for done in range(8):
        update, state = theirs.update(-slope(theta), state, theta)
        theta = np.asarray(optax.apply_updates(theta, update))
        assert walk(step, 1 + done)[0] == pytest.approx(theta, abs=1e-6)
    assert walk(OwnOptax(theirs), 8)[0] == pytest.approx(theta, abs=1e-6)


def test_every_step_of_ours_is_compared() -> None:
    assert set(THEIRS) <= set(registry.table("step"))


@pytest.mark.parametrize("schedule", ["constant", "linear"])
def test_schedules_are_optaxs(schedule: Any) -> None:
    from quell.update.first_order import Sgd

    made = {
        "constant": optax.constant_schedule(0.2),
        "linear": optax.linear_schedule(0.2, 0.0, 1000),
    }[schedule]
    theta = np.zeros(POLICY.dim, np.float32)
    for steps in (0, 1, 500, 1000, 2000):
        context = Context(POLICY, steps, 1000, theta)
        moved, _, metrics = Sgd(lr=0.2, schedule=schedule).step(theta, slope(theta), (), context)
        assert metrics["learning_rate"] == pytest.approx(float(made(steps)))
        assert moved == pytest.approx(float(made(steps)) * slope(theta), abs=1e-6)
