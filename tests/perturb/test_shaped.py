"""Directions shaped by the step's metric, against what is known in closed form."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from conftest import Collector
from linear_gaussian import POLICY, THETA, LinearGaussian, smoothed_gradient

import quell
from quell.config import Config
from quell.errors import UsageError
from quell.estimate import Estimator, estimate
from quell.estimate.control_variate import ControlVariate
from quell.estimate.control_variate.coefficients import FixedCoefficient
from quell.estimate.control_variate.discount import FixedDiscounts
from quell.estimate.control_variate.discounted import DiscountedColumns
from quell.estimate.es import Es
from quell.estimate.reduce import sum_by_vmap
from quell.perturb import draw_of, draw_pair
from quell.perturb.fisher import Fisher
from quell.perturb.gaussian import Gaussian
from quell.perturb.low_rank import LowRank
from quell.policy import Policy
from quell.policy.fisher import LOG_STD, Metric, factors
from quell.policy.likelihood import mean_kl
from quell.types import Array, Episodes, Sums
from quell.update.natural import Natural

PAIRS = 8000
NATS = 0.2
METRIC = Metric.of(POLICY, factors(POLICY)(THETA.astype(np.float64), np.ones((4, 1))))
SHAPE = Fisher(nats=NATS).prepare(METRIC)
COLUMN = DiscountedColumns(baseline="leave-one-out", discount=FixedDiscounts(gammas=(1.0,)))
CV = ControlVariate(shaping="none", columns=COLUMN, coefficients=FixedCoefficient(value=-0.6))


def sums_of(estimator: Estimator) -> Sums:
    data = Collector(LinearGaussian(), POLICY, pairs=PAIRS, seed=2, directions=Fisher(nats=NATS))
    return data.sums(estimator, data.batch(THETA, shape=SHAPE))


def exact() -> Array:
    """The smoothed gradient: of theta only log std is smoothed, and its variance is sigma^2 / (F + floor)."""
    assert SHAPE is not None
    return smoothed_gradient(THETA, SHAPE.sigma / np.sqrt(LOG_STD + SHAPE.metric.damping), 1.0, 6)


def z_scores(total: Array, squares: Array, target: Array) -> Array:
    """Of the mean; an error of 25% of the gradient's length in any coordinate would be 5 standard errors."""
    mean = total / PAIRS
    error = np.sqrt((squares / PAIRS - mean**2) / PAIRS)
    assert 5 * error.max() < 0.25 * np.linalg.norm(exact())
    return np.asarray((mean - target) / error)


def test_es_is_unbiased() -> None:
    sums = sums_of(Es(shaping="none"))
    assert np.abs(z_scores(sums["x"], sums["xx"], exact())).max() < 4


def test_without_the_inverse_covariance_es_is_biased(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Fisher, "inverse", lambda self, vectors, shape: vectors)
    """Power of the test above: it is off by more than 8 standard errors."""
    sums = sums_of(Es(shaping="none"))
    mean = sums["x"] / PAIRS
    error = np.sqrt((sums["xx"] / PAIRS - mean**2) / PAIRS)
    assert np.abs((mean - exact()) / error).max() > 8


def test_the_control_variate_is_unbiased_and_its_column_has_mean_zero() -> None:
    sums = sums_of(CV)
    (x, y), (xx, xy, yy) = sums["columns"], sums["products"]
    assert np.abs(z_scores(x - 0.6 * y, xx - 1.2 * xy + 0.36 * yy, exact())).max() < 4
    assert np.abs(z_scores(y, yy, np.zeros(6))).max() < 4


def test_the_mean_divergence_is_what_was_asked_for() -> None:
    """Measured with the policy's own KL, at a size where the second order is all: 15%, a standard error below 4%."""
    policy = Policy(5, 3, hidden=(16,), activation="tanh", init_std=0.4)
    rng = np.random.default_rng(0)
    theta, states = policy.init(rng), rng.standard_normal((200, 5)).astype(np.float32)
    metric = Metric.of(policy, factors(policy)(theta.astype(np.float64), states))
    for kind in (Fisher(nats=0.002), Gaussian(nats=0.002)):
        shape, found = kind.prepare(metric), []
        assert shape is not None
        for pair in range(200):
            eps = draw_pair(kind, draw_of(policy, 1, Episodes.of_pairs(0, 200)), pair, shape)
            moved = [(theta + shape.sigma * one).astype(np.float32) for one in eps]
            found += [float(mean_kl(policy)(one, theta, states)) for one in moved]
        assert np.std(found) / np.sqrt(200) < 0.04 * 0.002
        assert np.mean(found) == pytest.approx(0.002, rel=0.15)


def test_every_direction_moves_the_policy_alike_and_isotropic_ones_do_not() -> None:
    """The divergence of a pair over the mean: isotropic directions spend theirs along the few that are felt."""
    policy = Policy(8, 2, hidden=(16,), init_std=0.3)
    rng = np.random.default_rng(0)
    theta, states = policy.init(rng), rng.standard_normal((300, 8)) * np.geomspace(10, 0.1, 8)
    metric = Metric.of(policy, factors(policy)(theta.astype(np.float64), states))
    bare = dataclasses.replace(metric, damping=0.0)

    def spread(kind: Any) -> float:
        shape = kind.prepare(metric)
        draw = draw_of(policy, 1, Episodes.of_pairs(0, 100))
        eps = np.array([draw_pair(kind, draw, pair, shape)[0] for pair in range(100)], np.float64)
        felt = (eps * bare.apply(eps, 1)).sum(axis=1)
        return float(felt.std() / felt.mean())

    assert spread(Fisher(nats=0.05)) < 0.2
    assert spread(Gaussian(nats=0.05)) > 2 * spread(Fisher(nats=0.05))


@pytest.mark.parametrize("directions", [Fisher(), Gaussian(nats=0.05)], ids=["fisher", "nats"])
def test_a_step_without_a_metric_is_refused(directions: Any) -> None:
    with pytest.raises(UsageError, match=r"need the metric of a step: take `step='natural'`"):
        Config(task="swimmer", estimator=Es(), directions=directions).validate()
    Config(task="swimmer", estimator=Es(), directions=directions, step=Natural()).validate()


@pytest.mark.slow
def test_a_run_resumed_goes_on_with_the_same_shape(tmp_path: Any) -> None:
    """What directions take from the run is in the step's state, and so in a checkpoint: the same bits."""
    settings: dict[str, Any] = {"method": "es", "step": "natural", "directions": "fisher", "pairs": 3, "seed": 4}
    settings |= {"horizon": 40, "progress": False, "eval_every": 0, "eval_episodes": 1, "workers": 1, "batch_steps": 0}
    whole = quell.train("swimmer", steps=960, out=tmp_path / "whole", **settings)
    part = quell.train("swimmer", steps=480, out=tmp_path / "part", **settings)
    resumed = quell.resume(part.path, steps=960, workers=2, progress=False)
    assert resumed.policy.theta.tobytes() == whole.policy.theta.tobytes()
    assert len(whole.history) == 4


@pytest.mark.parametrize("directions", [Fisher(nats=NATS), LowRank(sigma=0.1)], ids=["fisher", "low-rank"])
@pytest.mark.parametrize("estimator", [Es(shaping="none"), CV], ids=["es", "cv"])
def test_all_pairs_at_once_in_jax_come_to_the_same(estimator: Any, directions: Any) -> None:
    """Single precision: 1e-3 of the largest coordinate."""
    data = Collector(LinearGaussian(), POLICY, pairs=12, directions=directions)
    batch = data.batch(THETA, shape=SHAPE if isinstance(directions, Fisher) else None)

    def mapped(estimator: Any, batch: Any, rows: Any, theta: Array) -> Sums:
        return sum_by_vmap(estimator, data.problem, batch, rows, theta)

    state = estimator.init(data.problem)
    one = data.estimate(estimator, batch).gradient
    other = estimate(estimator, data.problem, batch, state, total=mapped).gradient
    assert np.abs(one - other).max() < 1e-3 * np.abs(one).max()


@pytest.mark.parametrize("kind", [Gaussian, Fisher, LowRank])
def test_the_size_follows_what_es_is_worth(kind: Any) -> None:
    """least^(1 - w) nats^w, with w as it would be at `nats`; sigma goes with the root. Fixed without `least`."""
    asked: list[float] = []

    def worth(share: float) -> Any:
        def weight(nats: float) -> float:
            asked.append(nats)
            return share

        return weight

    follows, fixed = kind(nats=0.8, least=0.05), kind(nats=0.8)
    shapes = [follows.prepare(METRIC, worth(share)) for share in (0.0, 0.5, 1.0)]
    assert [shape.nats for shape in shapes] == pytest.approx([0.05, 0.2, 0.8])
    assert [shape.sigma / shapes[2].sigma for shape in shapes] == pytest.approx([0.25, 0.5, 1.0])
    assert asked == [0.8] * 3
    assert fixed.prepare(METRIC, worth(0.0)).sigma == pytest.approx(shapes[2].sigma)
    for wrong in ({"nats": 0.05, "least": 0.1}, {"least": 0.1} if kind is not Fisher else {"least": 1.0}):
        with pytest.raises(UsageError, match="must be no more than"):
            kind(**wrong).check()
