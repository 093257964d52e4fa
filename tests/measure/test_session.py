"""Measurements on a small task: unbiased, the same on any engine, each sampling on draws of its own."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from linear_gaussian import LinearGaussian, smoothed_gradient
from small_point import point, run, shape

import quell.estimate.control_variate.discounted as columns_module
from quell.errors import UsageError
from quell.estimate import Estimate, Problem, Rows, policy_gradient
from quell.estimate.control_variate.coefficients import FixedCoefficient
from quell.estimate.control_variate.discount import FixedDiscounts
from quell.estimate.control_variate.discounted import DiscountedColumns
from quell.estimate.es import Es
from quell.estimate.policy_gradient import Baseline
from quell.estimate.reduce import directions_of
from quell.keys import Stream
from quell.measure.fisher import Geometry
from quell.measure.points import find_point
from quell.measure.rows import CV, Row, find_row, find_rows
from quell.measure.session import Measurement, Session
from quell.measure.summary import summarise
from quell.perturb.gaussian import Gaussian
from quell.policy.network import Policy
from quell.rollout.cpu import Cpu
from quell.types import Array, Batch, Episodes, State, Sums


@pytest.fixture(scope="module")
def found() -> Measurement:
    return run(["ortho", "gcmc", "qmc", "cv", "cv", "cv-several", "crn", "cv-several-crn", "pg"], iterations=80)


def test_every_estimator_is_unbiased_and_cv_helps(found: Measurement) -> None:
    """pg too: on a quadratic return smoothing changes little, and 160 episodes of spread 1 divide by 1."""
    by_name = {s.name: s for s in summarise(found, shape(found.point), np.random.default_rng(0))}
    assert next(iter(by_name)) == "es"
    for s in by_name.values():
        errors = s.metrics["parameters"]
        assert abs(s.bias.worst) < 4
        assert s.bias.p > 1e-4
        assert s.ratio.low <= s.ratio.value <= s.ratio.high
        assert errors.bias.low <= 0 <= errors.bias.high or s.name in ("es", "pg")
        assert sum(s.share.values()) == pytest.approx(1)
    es = by_name["es"].metrics["parameters"]
    assert (es.ratio.value, es.bias.value, es.error.value) == (1, 0, 1)
    assert by_name["cv-several"].ratio.high < 0.9
    assert by_name["cv-several"].cosine.value > by_name["es"].cosine.value


@pytest.mark.usefixtures("in_process")
def test_the_variance_is_that_of_the_pairs(found: Measurement) -> None:
    """Iterations of one pair each, whose variance is five times that of five pairs: they agree to 25%."""
    es = next(s for s in summarise(found, shape(found.point), np.random.default_rng(0)) if s.name == "es")
    other = run([], iterations=400, warmup=0, where=point(pairs=1))
    one = summarise(other, shape(other.point), np.random.default_rng(0))[0]
    assert es.variance.value == pytest.approx(one.variance.value / 5, rel=0.25)


def test_any_number_of_workers_and_mapped_storage(monkeypatch: pytest.MonkeyPatch) -> None:
    first = run(["cv", "cv-several", "ortho"], iterations=3, warmup=2, workers=1)
    monkeypatch.setattr(importlib.import_module("quell.measure.session"), "IN_MEMORY", 0)
    second = run(["cv", "cv-several", "ortho"], iterations=3, warmup=2, workers=2)
    assert isinstance(second.rows[0].gradients, np.memmap)
    for a, b in zip(first.rows, second.rows, strict=True):
        assert (a.gradients == b.gradients).all()


@pytest.mark.usefixtures("in_process")
def test_samplings_are_independent() -> None:
    """Two sessions that differ in their number alone share nothing: neither directions nor returns are correlated, with
    each other or with training's (|r| < 4 / sqrt(n), n = 200 pairs times d); the same number gives the same."""
    where = point()
    problem = where.problem(Gaussian(sigma=where.sigma))

    def directions(**facts: Any) -> np.ndarray:
        episodes = [Episodes.of_pairs(iteration, 5, **facts) for iteration in range(40)]
        return np.concatenate([directions_of(problem, e, pair)[0] for e in episodes for pair in range(5)])

    def gradients(number: int) -> np.ndarray:
        session = Session(where, Cpu(workers=1))
        (es,), returns, _ = session.run(number, find_rows([], where.sigma), 0, 40)
        return np.stack([es.gradients[:, 0], returns.reshape(40, -1).mean(axis=1)])

    drawn = [directions(stream=Stream.MEASURE, block=(number,)) for number in range(3)]
    drawn.append(directions())
    correlation = np.corrcoef(drawn) - np.eye(4)
    assert np.abs(correlation).max() < 4 / np.sqrt(len(drawn[0]))
    first, again, other = gradients(0), gradients(0), gradients(1)
    assert (first == again).all()
    for a, b in zip(first, other, strict=True):
        assert abs(np.corrcoef(a, b)[0, 1]) < 4 / np.sqrt(40)


@dataclass(frozen=True, kw_only=True)
class Halved(Es):
    """ES times a half: a bias of half the gradient, which it declares."""

    name: ClassVar[str] = "halved"
    biased: ClassVar[bool] = True

    def combine(self, problem: Problem, sums: Sums, rows: Rows, state: State) -> Estimate:
        plain = super().combine(problem, sums, rows, state)
        return dataclasses.replace(plain, gradient=plain.gradient / 2)


@pytest.mark.usefixtures("in_process")
def test_bias_in_every_metric_against_the_closed_form() -> None:
    """On the linear-Gaussian task the gradient is known, so that of a bias of half of it is: B^2 = grad' M grad / 4.

    The interval holds it and is no wider than half of it either way, in each metric; CV's holds 0 and not that.
    """
    settings = {"policy.hidden": (), "policy.output_scale": 1.0, "policy.init_std": 0.7, "sigma": 0.3, "pairs": 150}
    where = find_point(LinearGaussian(), "init", preset="paper", seed=1, settings=settings)
    rows = find_rows([Halved(shaping="none"), "cv"], where.sigma)
    repeats = Session(where, Cpu(workers=1)).measure(rows, 60, 3)
    space = Geometry(where.policy, where.theta, np.ones((4, 1), np.float32))
    es, halved, cv = summarise(repeats, space, np.random.default_rng(0))
    assert (halved.biased, cv.biased) == (True, False)
    gradient = smoothed_gradient(where.theta, 0.3, 1.0, 6)
    for metric in ("parameters", "policy", "step"):
        true = np.square(space.mapped(metric, gradient[None].astype(np.float32))).sum() / 4
        plain, biased = es.metrics[metric], halved.metrics[metric]
        low, value, high = (plain.variance.value * x for x in (biased.bias.low, biased.bias.value, biased.bias.high))
        assert low < true < high
        assert high - low < true
        assert biased.ratio.value == pytest.approx(0.25, rel=1e-4)
        assert biased.error.value * plain.variance.value == pytest.approx(value + plain.variance.value / 4, rel=1e-4)
        unbiased = cv.metrics[metric].bias
        assert unbiased.low < 0 < unbiased.high
        assert unbiased.high * plain.variance.value < true


def test_a_less_noisy_reference_sees_smaller_biases(found: Measurement) -> None:
    """Against `cv` instead of ES the interval of another's bias shrinks; that of ES is what cv's was against it."""
    rng = np.random.default_rng
    against_es = {s.name: s.metrics["parameters"].bias for s in summarise(found, shape(found.point), rng(0))}
    against_cv = {
        s.name: s.metrics["parameters"].bias for s in summarise(found, shape(found.point), rng(0), reference="cv")
    }
    assert against_cv["cv"].value == 0
    assert against_cv["es"].value == pytest.approx(against_es["cv"].value)
    fine, coarse = against_cv["cv-several"], against_es["cv-several"]
    assert fine.low < 0 < fine.high
    assert fine.high - fine.low < 0.5 * (coarse.high - coarse.low)


@pytest.mark.usefixtures("in_process")
def test_a_biased_estimator_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reward-to-go as eq. (5) prints it, without its discount: it must be called biased."""
    sound = policy_gradient.advantages

    def printed(batch: Batch, gammas: Sequence[float], baseline: Baseline) -> tuple[Array, Array, Array]:
        (to_go, _, good), (_, values, _) = (sound(batch, g, baseline) for g in (gammas, [1.0] * len(gammas)))
        return to_go, values, good

    settings = {"horizon": 30, "policy.hidden": (), "policy.init_std": 0.5, "sigma": 0.3, "pairs": 50}
    where = find_point("inverted-pendulum", "init", preset="tuned", seed=0, settings=settings)
    estimator = dataclasses.replace(
        CV,
        coefficients=FixedCoefficient(value=-1.0),
        columns=DiscountedColumns(discount=FixedDiscounts(gammas=(0.8,))),
    )
    rows = find_rows([Row("re gamma=0.8", estimator)], where.sigma)
    for broken in (False, True):
        if broken:
            monkeypatch.setattr(columns_module, "advantages", printed)
        repeats = Session(where, Cpu(workers=1)).measure(rows, 40, 10)
        summary = summarise(repeats, shape(where), np.random.default_rng(0))[1]
        assert (abs(summary.bias.along) > 4) == broken
        assert (abs(summary.bias.worst) > 4) == broken
        assert (summary.bias.p < 1e-4) == broken
        assert (summary.metrics["parameters"].bias.low > 0) == broken


def test_estimators_that_do_not_fit_are_refused() -> None:
    where = find_point("lqr-302", "init", preset="paper", seed=0, settings={"policy": "deterministic"})
    with pytest.raises(UsageError, match="stochastic"):
        Session(where, Cpu(workers=1)).measure([find_row("cv", 0.1)], 2, 1)
    mixed = dataclasses.replace(find_row("pg", 0.1), directions=Gaussian())
    with pytest.raises(UsageError, match="does not take"):
        Session(point(), Cpu(workers=1)).measure([mixed], 2, 1)


def test_policy_layout_of_the_toy() -> None:
    """`smoothed_gradient` is for theta = (w, b, log s)."""
    assert list(Policy(1, 2, hidden=()).layout) == ["w0", "b0", "log_std"]
