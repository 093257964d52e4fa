"""Gradients whose square single precision cannot hold: nothing freezes, and it is counted and said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import optax
import pytest

import quell
from quell.errors import TroubleError
from quell.runs import Run, checkpoint
from quell.training.methods import make_config, make_problem, make_task
from quell.update import Context, is_finite, to_arrays
from quell.update.first_order import Adam, FirstOrder, Sgd, shortened

pytestmark = pytest.mark.usefixtures("in_process")
LARGE = 1e22  # its square is infinite in single precision


def context() -> tuple[Context, np.ndarray]:
    config = make_config("lqr", "es")
    policy = make_problem(config, make_task(config)).policy
    theta = np.zeros(policy.dim, np.float32)
    return Context(policy, 0, 1000, theta), theta


@pytest.mark.parametrize("rule", [Adam()])
def test_a_large_gradient_overflows_the_second_moment(rule: FirstOrder) -> None:
    where, theta = context()
    gradient = np.full_like(theta, LARGE)
    _, state, _ = rule.step(theta, gradient, rule.init(where.policy, theta), where)
    assert not is_finite(np, state)


@pytest.mark.parametrize("rule", [Adam(max_norm=1.0), Sgd(max_norm=1.0)])
def test_a_clipped_gradient_does_not(rule: FirstOrder) -> None:
    where, theta = context()
    gradient = np.full_like(theta, LARGE)
    moved, state, _ = rule.step(theta, gradient, rule.init(where.policy, theta), where)
    assert is_finite(np, state)
    assert np.isfinite(moved).all()
    assert (moved > 0).all()


def test_clipping_is_that_of_optax() -> None:
    gradient = np.random.default_rng(0).normal(size=50).astype(np.float32)
    for longest in (0.5, 5.0, 50.0):
        clip = optax.clip_by_global_norm(longest)
        theirs, _ = clip.update(gradient, clip.init(gradient))
        np.testing.assert_allclose(shortened(gradient, longest), theirs, rtol=1e-6)
    assert shortened(gradient, 0.0) is gradient


def test_a_gradient_is_shortened_in_its_own_precision() -> None:
    """One rounding, of the product: to divide in double precision and round then gives other last bits."""
    gradient = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    norm = np.linalg.norm(gradient.astype(np.float64))
    assert shortened(gradient, 1.0).dtype == np.float32
    assert (shortened(gradient, 1.0) == gradient * np.float32(1.0 / norm)).all()


def test_lqr_stops_and_says_so_instead_of_freezing(tmp_path: Path) -> None:
    with pytest.raises(TroubleError, match="max-norm"):
        quell.train(
            "lqr", method="cv", preset="paper", steps=400_000, out=tmp_path, name="x", progress=False, workers=1
        )
    run = Run.open(tmp_path / "lqr" / "cv" / "x")
    rows = list(run.metrics())
    assert [row["trouble/skipped"] for row in rows[-10:]] == [1.0] * 10
    saved = checkpoint.load_newest(run.checkpoints)
    assert saved is not None
    assert all(np.isfinite(array).all() for array in saved[0].values())


def test_lqr_goes_on_with_a_clip(tmp_path: Path) -> None:
    settings = {"steps": 200_000, "max_norm": 1.0, "progress": False, "workers": 1}
    result = quell.train("lqr", method="cv", preset="paper", out=tmp_path, **settings)  # type: ignore[call-overload]
    assert sum(row["trouble/skipped"] for row in result.history) == 0
    saved = checkpoint.load_newest(result.path / "checkpoints")
    assert saved is not None
    moments = [array for name, array in saved[0].items() if name.startswith("optimiser.")]
    assert all(np.isfinite(array).all() for array in moments)
    assert (moments[-1] > 0).any()


@pytest.mark.usefixtures("in_process")
def test_a_natural_step_without_a_divergence_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Context, "kl", lambda self, theta: np.nan)
    result = quell.train("inverted-pendulum", steps=1, batch_steps=0, out=tmp_path, progress=False)
    (row,) = result.history
    assert (row["trouble/skipped"], row["trouble/total"], row["update/ratio"]) == (1, 1, 0)


def test_the_default_keeps_every_bit() -> None:
    where, theta = context()
    gradient = np.random.default_rng(1).normal(size=theta.shape).astype(np.float32)
    rule, rates = Adam(), optax.scale_by_adam(0.9, 0.999, 1e-8)
    moved, state, _ = rule.step(theta, gradient, rule.init(where.policy, theta), where)
    direction, _ = rates.update(gradient, rates.init(theta))
    np.testing.assert_allclose(moved, theta + np.float32(rule.lr) * np.asarray(direction), rtol=1e-6)
    assert to_arrays(state).keys() == {"optimiser.0", "optimiser.1", "optimiser.2"}
