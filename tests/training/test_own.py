"""Strategies of a user's own: trained with as objects, loaded by anybody, continued only with the object at hand."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import optax
import pytest

import quell
from quell import registry
from quell.errors import UsageError
from quell.estimate.control_variate import ControlVariate
from quell.estimate.control_variate.coefficients import SgdCoefficients, Space
from quell.estimate.es import Es
from quell.perturb.gaussian import Gaussian
from quell.registry import NO_SETTING, POSITIVE
from quell.types import Array, Metrics, State
from quell.update import STATES, Context
from quell.update.first_order import Adam, OwnOptax

pytestmark = pytest.mark.usefixtures("in_process")
SHORT: dict[str, Any] = {"horizon": 20, "pairs": 2, "steps": 240, "eval_episodes": 1, "progress": False, "workers": 1}


@dataclass(frozen=True, kw_only=True)
class Halved(Es):
    """ES times a factor."""

    factor: Annotated[float, POSITIVE] = 0.5

    name: ClassVar[str] = "halved"

    def combine(self, *args: Any) -> quell.Estimate:
        estimated = super().combine(*args)
        return quell.Estimate(np.float32(self.factor) * estimated.gradient, estimated.state, estimated.metrics)


@dataclass(frozen=True, kw_only=True)
class Axes(Gaussian):
    """One coordinate at a time."""

    name: ClassVar[str] = "axes"

    def plus(self, draw: quell.Draw, pair: int) -> Array:
        eps = np.zeros(draw.dim, np.float32)
        eps[(draw.iteration * draw.pairs + pair) % draw.dim] = np.sqrt(draw.dim)
        return eps


@dataclass(frozen=True, kw_only=True)
class Cautious:
    """A step that looks: as long as the KL divergence on the batch's own states allows."""

    limit: float = 1e-4
    states: int = 4
    looked: list[tuple[int, float, float]] = field(default_factory=list, metadata=NO_SETTING)

    name: ClassVar[str] = "cautious"

    def init(self, policy: quell.Policy, theta: Array) -> Any:
        return ()

    def metric(self, policy: quell.Policy, state: Any) -> None:
        return None

    def step(self, theta: Array, gradient: Array, state: Any, context: Context) -> tuple[Array, Any, Metrics]:
        assert context.states is not None
        assert (context.theta == theta).all()
        curvature = float(gradient @ context.fisher_product(gradient))
        rate = np.float32(np.sqrt(2 * self.limit / curvature))
        moved = theta + rate * gradient
        self.looked.append((len(context.states), context.kl(moved), curvature))
        return moved, state, {}


def test_an_own_estimator(tmp_path: Path) -> None:
    """Under SGD half the gradient is half the step; a run's folder can be read by all, and continued by its owner."""
    settings = {**SHORT, "out": tmp_path, "step": "sgd", "lr": 0.01, "steps": 80}
    own = quell.train("lqr-302", estimator=Halved(), method="es", name="own", **settings)
    plain = quell.train("lqr-302", estimator=Es(), method="es", name="plain", **settings)
    start = quell.load(own.path, at=0).theta
    assert own.theta - start == pytest.approx((plain.theta - start) / 2, rel=1e-3, abs=1e-6)
    described = json.loads((own.path / "config.json").read_text())["estimator"]
    assert described == {"name": "halved", "shaping": "normalise", "factor": 0.5}
    loaded = quell.load(own.path)
    assert isinstance(loaded.config.estimator, registry.Elsewhere)
    assert quell.evaluate(loaded, episodes=2, workers=1).returns.shape == (2,)
    with pytest.raises(UsageError, match=r"estimator 'halved' is not quell's own: pass it as estimator=\.\.\."):
        quell.resume(own.path, steps=160, progress=False)
    with pytest.raises(UsageError, match=r"estimator.factor differs"):
        quell.resume(own.path, steps=160, estimator=Halved(factor=0.25), progress=False)
    resumed = quell.resume(own.path, steps=160, estimator=Halved(), progress=False)
    whole = quell.train("lqr-302", estimator=Halved(), method="es", name="whole", **{**settings, "steps": 160})
    assert resumed.finished
    assert (resumed.theta == whole.theta).all()


@dataclass(frozen=True, kw_only=True)
class Unnamed(Es):
    """A subclass that keeps its parent's name."""

    more: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Impostor(Es):
    """Says that it is another."""

    name: ClassVar[str] = "es"


@dataclass(frozen=True, kw_only=True)
class Damped(SgdCoefficients):
    """Coefficients of one's own within our control variate."""

    damping: float = 0.5

    name: ClassVar[str] = "damped"

    def coefficients(self, space: Space, state: State) -> Array:
        return self.damping * super().coefficients(space, state)


def test_a_subclass_is_not_its_parent(tmp_path: Path) -> None:
    result = quell.train("lqr-302", method="es", estimator=Unnamed(), out=tmp_path, **SHORT)
    assert isinstance(result.config.estimator, registry.Elsewhere)
    assert result.config.estimator.name == "Unnamed"
    with pytest.raises(UsageError, match="quell has a 'es' of its own; give yours another `name`"):
        quell.train("lqr-302", method="es", estimator=Impostor(), out=tmp_path, **SHORT)
    with pytest.raises(UsageError, match=r"`estimator=.*` must be one of .*, es, .*, or an object of that kind"):
        quell.train("lqr-302", method="es", estimator=Unnamed, out=tmp_path, **SHORT)  # type: ignore[call-overload]


def test_own_coefficients_within_our_control_variate(tmp_path: Path) -> None:
    settings = {**SHORT, "out": tmp_path, "method": "cv", "preset": "paper", "coefficients": Damped()}
    part = quell.train("lqr-302", name="part", **settings)
    assert part.config.estimator.settings["coefficients"].name == "damped"  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match="pass it as estimator="):
        quell.resume(part.path, steps=400, progress=False)
    resumed = quell.resume(part.path, steps=400, estimator=ControlVariate(coefficients=Damped()), progress=False)
    whole = quell.train("lqr-302", name="whole", **{**settings, "steps": 400})
    assert (resumed.theta == whole.theta).all()


def test_own_settings_are_set_by_name_and_checked(tmp_path: Path) -> None:
    settings = {**SHORT, "out": tmp_path, "method": "es", "estimator": Halved()}
    result = quell.train("lqr-302", factor=0.25, **settings)  # type: ignore[call-overload]
    assert json.loads((result.path / "config.json").read_text())["estimator"]["factor"] == 0.25
    with pytest.raises(UsageError, match=r"`estimator.factor=.*` must be greater than 0"):
        quell.train("lqr-302", factor=-1.0, **settings)  # type: ignore[call-overload]
    with pytest.raises(UsageError, match=r"no setting 'gamma'.*estimator.factor"):
        quell.train("lqr-302", gamma=0.9, **settings)


@dataclass(frozen=True, kw_only=True)
class WithFunction(Es):
    """Something that no file can hold."""

    function: Any = np.tanh


def test_settings_that_json_cannot_hold_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot hold estimator.function"):
        quell.train("lqr-302", method="es", estimator=WithFunction(), out=tmp_path / "runs", **SHORT)
    assert not (tmp_path / "runs").exists()


def test_own_directions(tmp_path: Path) -> None:
    """Two pairs an iteration, an axis each: three iterations move six coordinates, and SGD no other."""
    settings = {**SHORT, "out": tmp_path, "step": "sgd", "lr": 0.01}
    result = quell.train("lqr-302", method="es", directions=Axes(sigma=0.05), **settings)
    moved = np.flatnonzero(result.theta != quell.load(result.path, at=0).theta)
    assert result.iteration == 3
    assert set(moved) <= set(range(6))
    assert len(moved) > 2


def test_an_own_step_may_look(tmp_path: Path) -> None:
    """The step sees some states of every episode, and its quadratic model of the KL is the KL, to 20%."""
    step = Cautious()
    result = quell.train("lqr-302", method="es", step=step, out=tmp_path, **SHORT)
    assert result.iteration == len(step.looked) == 3
    for states, divergence, curvature in step.looked:
        assert states == STATES
        assert curvature > 0
        assert divergence == pytest.approx(step.limit, rel=0.2)


@pytest.mark.parametrize(("rule", "equal"), [(optax.adam(0.01), True), (optax.adam(0.02), False)])
def test_an_optax_optimiser(tmp_path: Path, rule: Any, equal: bool) -> None:
    """optax.adam as it is against our Adam, through whole runs; and it is saved, loaded and continued."""
    ours = quell.train("lqr-302", method="es", step=Adam(lr=0.01), out=tmp_path, name="ours", **SHORT)
    theirs = quell.train("lqr-302", method="es", step=rule, out=tmp_path, name="theirs", **SHORT)
    assert (np.abs(ours.theta - theirs.theta).max() < 1e-5) == equal
    assert quell.load(theirs.path).iteration == 3
    with pytest.raises(UsageError, match="pass it as step="):
        quell.resume(theirs.path, steps=400, progress=False)
    resumed = quell.resume(theirs.path, steps=400, step=rule, progress=False)
    whole = quell.train("lqr-302", method="es", step=rule, out=tmp_path, name="whole", **{**SHORT, "steps": 400})
    assert (resumed.theta == whole.theta).all()


def test_own_optax_equals_adam() -> None:
    rng = np.random.default_rng(0)
    ours, theirs = Adam(lr=0.03), OwnOptax(optax.adam(0.03))
    theta = other = rng.standard_normal(5).astype(np.float32)
    policy = quell.Policy(1, 1)
    state, own = ours.init(policy, theta), theirs.init(policy, theta)
    context = Context(policy, 0, 1, theta)
    for _ in range(8):
        gradient = rng.standard_normal(5).astype(np.float32)
        theta, state, _ = ours.step(theta, gradient, state, context)
        other, own, _ = theirs.step(other, gradient, own, context)
        assert other == pytest.approx(theta, abs=1e-6)
