"""Coefficients by variance + bias^2: what they learn of a column whose mean is not zero, and of one whose mean is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from conftest import Collector
from linear_gaussian import POLICY, THETA, LinearGaussian

import quell
from quell.errors import UsageError
from quell.estimate.control_variate import ControlVariate
from quell.estimate.control_variate.advantages import AdvantageColumn
from quell.estimate.control_variate.coefficients import (
    FixedCoefficient,
    LayerCoefficients,
    Means,
    MseCoefficients,
    Space,
    packed,
)
from quell.perturb.fisher import Fisher
from quell.perturb.gaussian import Gaussian
from quell.training.methods import make_config
from quell.types import Array, State

SPACE = Space(6, 1, (slice(0, 4), slice(4, 6)), (slice(0, 4), slice(4, 6)))
GRADIENT = np.array([1.0, -0.5, 0.3, 0.0, 0.2, -0.1])
PAIRS = 50


def by_layer(u: Array, v: Array) -> Array:
    return np.array([(u[where] * v[where]).sum() for where in SPACE.layers])


def batches(bias: Array, count: int, *, noise: float = 10.0, own: float = 0.5, seed: int = 0) -> Iterator[Array]:
    """X and Y = X - R of so many batches [pairs, 2, d]: X of standard deviation `noise`, R of `own` and biased."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        x = GRADIENT + noise * rng.standard_normal((PAIRS, 6))
        r = GRADIENT + bias + own * rng.standard_normal((PAIRS, 6))
        yield np.stack([x, x - r], axis=1)


def learned(rule: Any, columns: Iterator[Array], xp: Any = np, sight: float = 1.0) -> tuple[State, dict[str, float]]:
    state: State = {name: xp.asarray(value) for name, value in rule.init(SPACE).items()}
    metrics: Any = {}
    for batch in columns:
        each = packed(batch).sum(axis=0)
        products = xp.asarray(np.stack([each[:, where].sum(axis=1) for where in SPACE.layers], axis=1))
        mean, inner = xp.asarray(batch.mean(axis=0)), lambda u, v: xp.asarray(by_layer(np.asarray(u), np.asarray(v)))
        means = Means(mean, inner, sight)
        state, metrics = rule.update(SPACE, state, products, float(len(batch)), means)
    return state, metrics


@pytest.mark.parametrize("per", ["whole", "layer"])
def test_an_unbiased_column_that_is_much_less_noisy_replaces_es(per: str) -> None:
    """-V[X] / (V[X] + V[R]) is -0.9975; a bias that is not there costs no more than 0.04 in any of 20 experiments."""
    rule = MseCoefficients(per=per)  # type: ignore[arg-type]
    for seed in range(20):
        state, _ = learned(rule, batches(0 * GRADIENT, 60, seed=seed))
        assert rule.coefficients(SPACE, state) == pytest.approx(-0.9975, abs=0.04)


@pytest.mark.parametrize("per", ["whole", "layer"])
def test_a_bias_that_shows_takes_the_weight_away(per: str) -> None:
    """b = (2, ..., 2): s = 1.39, q = s + 2 sum g = 3.19, p = s + 4 sum g + 24 = 29.0; with V[X] / N = 12 and V[R] / N =
    0.03, a / b = (29.0 1.39 - 3.19^2) / (13.4 3.19 - 3.19 1.39), beta = -0.56, as far as 150 batches see it. By least
    variance it would be -0.96 for good. A bias ten times as large leaves ES alone."""
    rule, bias = MseCoefficients(), np.full(6, 2.0)
    assert (rule.coefficients(SPACE, learned(rule, batches(bias, 2))[0]) < -0.9).all()
    assert -0.7 < rule.coefficients(SPACE, learned(rule, batches(bias, 150))[0]).mean() < -0.2
    plain = LayerCoefficients()
    assert (plain.coefficients(SPACE, learned(plain, batches(bias, 150))[0]) < -0.9).all()
    far, _ = learned(MseCoefficients(per=per), batches(10 * bias, 150))  # type: ignore[arg-type]
    assert (MseCoefficients(per=per).coefficients(SPACE, far) > -0.03).all()  # type: ignore[arg-type]


def test_a_policy_gradient_that_sees_nothing_is_left_out() -> None:
    """R is noise of mean 0, a tenth of that of ES: variance + bias^2 of the mix would be -0.98, as it is small."""
    rule = MseCoefficients()
    state, metrics = learned(rule, batches(-GRADIENT, 300, noise=5.0, own=0.5))
    assert (rule.coefficients(SPACE, state) > -0.7).all()
    assert metrics["eta/missed"] > 0.7
    assert metrics["eta/missed_errors"] > 3


def test_a_part_that_may_be_missed_counts_for_nothing() -> None:
    """R = (1 - m) g misses the share m of s: below `allow` it is taken as it is, above what lies beyond it counts."""
    seen = {0.4: 0.0, 0.5: 0.0, 0.75: 0.5, 1.0: 1.0}
    for missed, counted in seen.items():
        state, _ = learned(MseCoefficients(), batches(-missed * GRADIENT, 400, noise=2.0, own=0.5))
        s, q, p = MseCoefficients(strict=0.0, allow=0.5).signals(state)
        assert 1 - q[0] / s[0] == pytest.approx(counted, abs=0.15)
        assert p[0] >= q[0] ** 2 / s[0] - 1e-12
        plain = MseCoefficients(strict=0.0)
        assert 1 - plain.signals(state)[1][0] / plain.signals(state)[0][0] == pytest.approx(missed, abs=0.1)


def test_a_reward_that_is_too_far_ahead_to_be_seen_leaves_es_alone() -> None:
    """Both are equally noisy. R that sees all of g has half of the estimate, one that can see a tenth of it an
    eleventh: a / b = V[R] / (0.1 V[X])."""
    rule = MseCoefficients()
    for sight, share in {1.0: 0.5, 0.1: 1 / 1.1}.items():
        state, metrics = learned(rule, batches(0 * GRADIENT, 80, noise=3.0, own=3.0), sight=sight)
        assert 1 + rule.coefficients(SPACE, state) == pytest.approx(share, abs=0.05)
        assert metrics["eta/sight"] == pytest.approx(sight)


def test_it_may_lean_to_the_estimate_that_is_less_noisy() -> None:
    """V[R] = 9 V[X] / 4: by least variance ES has 9/13, by the square of 9/4 it has 81/97."""
    rule = MseCoefficients(lean=2.0)
    state, _ = learned(rule, batches(0 * GRADIENT, 80, noise=2.0, own=3.0))
    assert 1 + MseCoefficients().coefficients(SPACE, state) == pytest.approx(9 / 13, abs=0.04)
    assert 1 + rule.coefficients(SPACE, state) == pytest.approx(81 / 97, abs=0.04)


def test_only_the_layer_that_is_biased_loses_the_policy_gradient() -> None:
    rule, bias = MseCoefficients(per="layer"), np.array([10.0] * 4 + [0.0] * 2)
    (found,) = rule.coefficients(SPACE, learned(rule, batches(bias, 100))[0])
    assert found[0] > -0.2
    assert found[1] < -0.95


def test_one_wild_batch_is_not_all_that_is_remembered() -> None:
    def columns() -> Iterator[Array]:
        yield from batches(0 * GRADIENT, 20)
        yield 1e6 * next(batches(0 * GRADIENT, 1, own=30.0, seed=1))
        yield from batches(0 * GRADIENT, 20, seed=2)

    rule = MseCoefficients()
    assert rule.coefficients(SPACE, learned(rule, columns())[0]) == pytest.approx(-0.99, abs=0.03)


def test_coefficients_carry_over_to_another_size() -> None:
    """X's variance falls as the size grows, R's does not: learned at a tenth of a nat, asked for at one."""
    rule = MseCoefficients()
    state, _ = learned(rule, batches(0 * GRADIENT, 80, noise=3.0, own=3.0))
    small = {**state, "nats": np.asarray(0.1)}
    assert rule.coefficients(SPACE, rule.resized(small, np.asarray(0.1))) == pytest.approx(-0.5, abs=0.03)
    larger = rule.resized(small, np.asarray(1.0))
    assert rule.coefficients(SPACE, larger) == pytest.approx(-0.1 / 1.1, abs=0.05)
    assert rule.weight_of_es(SPACE, larger) == pytest.approx(1 / 1.1, abs=0.05)
    again = rule.resized(larger, np.asarray(0.1))
    assert again["products"] == pytest.approx(state["products"], rel=1e-9)
    assert rule.resized(state, np.asarray(0.0))["products"] == pytest.approx(state["products"])


def test_it_can_be_traced() -> None:
    rule = MseCoefficients()
    plain, _ = learned(rule, batches(GRADIENT, 12))
    traced, _ = learned(rule, batches(GRADIENT, 12), jnp)
    for name, value in plain.items():
        assert np.asarray(traced[name]) == pytest.approx(value, rel=2e-3, abs=1e-4)
    asked = [rule.coefficients(SPACE, rule.resized(state, np.asarray(0.5))) for state in (plain, traced)]
    assert np.asarray(asked[1]) == pytest.approx(asked[0], rel=2e-3)


@pytest.mark.parametrize(("gamma", "low", "high"), [(0.2, -0.65, 0.0), (1.0, -1.0, -0.7)])
def test_bias_and_noise_against_a_closed_form_gradient(gamma: float, low: float, high: float) -> None:
    """With gamma 0.2 the policy gradient looks one step ahead of six, points elsewhere, and 200 pairs show it; with
    gamma = lambda = 1 it has no bias, and less noise than ES."""
    column = AdvantageColumn(gamma=gamma, trace=1.0)
    estimator = ControlVariate(shaping="past", columns=column, coefficients=MseCoefficients())
    collector = Collector(LinearGaussian(), POLICY, pairs=200, directions=Gaussian(sigma=0.2))
    state = estimator.init(collector.problem)
    for iteration in range(40):
        state = collector.estimate(estimator, collector.batch(THETA, iteration, shared_reset=True), state).state
    beta = estimator.per_parameter(collector.problem, state)
    assert low <= beta.min() <= beta.max() <= high


def test_the_first_batch_is_of_es_alone() -> None:
    column = AdvantageColumn(gamma=1.0, trace=1.0)
    estimator = ControlVariate(shaping="past", columns=column, coefficients=MseCoefficients())
    collector = Collector(LinearGaussian(), POLICY, pairs=4, directions=Gaussian(sigma=0.2))
    es = ControlVariate(shaping="past", columns=column, coefficients=FixedCoefficient(value=0.0))
    state, alone = estimator.init(collector.problem), es.init(collector.problem)
    for number, same in ((0, True), (1, False)):
        found = collector.estimate(estimator, collector.batch(THETA, number), state)
        plain = collector.estimate(es, collector.batch(THETA, number), alone)
        assert np.allclose(found.gradient, plain.gradient, rtol=1e-6) == same
        state, alone = found.state, plain.state


SETTINGS: dict[str, Any] = {
    **{"method": "natural-cv", "directions": Fisher(nats=1.0, least=0.05), "estimator.coefficients": "mse"},
    **{"steps": 1500, "horizon": 50, "delay": "end", "progress": False, "hidden": "linear", "batch_steps": 300},
}


def test_a_run_is_the_same_after_a_stop(tmp_path: Any, in_process: None) -> None:
    class Stop(quell.Callback):
        def on_iteration(self, row: dict[str, Any]) -> None:
            self.stop_requested = row["iteration"] >= 3

    whole = quell.train("halfcheetah", out=tmp_path, **SETTINGS)
    half = quell.train("halfcheetah", out=tmp_path, callbacks=Stop(), **SETTINGS)
    assert np.array_equal(quell.resume(half.path, progress=False).theta, whole.theta)
    sizes = [row["perturbation/nats"] for row in whole.history if "perturbation/nats" in row]
    assert len(set(sizes)) > 2
    assert all(0.05 <= size <= 1 for size in sizes)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"directions": Fisher(least=0.01)}, "coefficients='mse'"),
        ({"directions": Fisher(least=0.5), "estimator.coefficients": "mse"}, "must be no more than"),
        ({"mean_actions": True}, "there is no policy gradient"),
    ],
)
def test_a_size_by_worth_that_nothing_reads_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        make_config("halfcheetah", "natural-cv", overrides=settings).validate()


def test_mean_actions_leave_only_the_perturbation_to_learn_from(tmp_path: Any, in_process: None) -> None:
    """Two members that act with mean actions and share their reset differ by their directions alone."""
    settings: dict[str, Any] = {"method": "es", "step": "natural", "directions": "fisher", "steps": 400, "horizon": 50}
    runs = [
        quell.train("swimmer", out=tmp_path, progress=False, mean_actions=still, **settings) for still in (True, False)
    ]
    assert not np.array_equal(runs[0].theta, runs[1].theta)
    quiet = quell.train("swimmer", out=tmp_path, progress=False, mean_actions=True, init_std=0.01, **settings)
    assert quiet.history[0]["return/mean"] == pytest.approx(runs[0].history[0]["return/mean"])


def test_rewards_are_looked_through_for_rules_that_ask_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where 500 episodes last eight of a thousand steps, that takes a tenth of the default's time."""
    asked = []

    def sight(*given: Any) -> float:
        asked.append(given)
        return 0.5

    monkeypatch.setattr(AdvantageColumn, "sight", sight)
    for rule in (LayerCoefficients(), MseCoefficients()):
        estimator = ControlVariate(shaping="past", columns=AdvantageColumn(), coefficients=rule)
        data = Collector(LinearGaussian(), POLICY, pairs=3, directions=Gaussian(sigma=0.3))
        rows = estimator.prepare(data.problem, data.batch(THETA, 0), estimator.init(data.problem))
        assert rows.shared["sight"] == (0.5 if rule.sighted else 1.0)
    assert len(asked) == 1


def test_doubt_takes_weight_from_what_does_not_see() -> None:
    """With sight s the policy gradient keeps s^2 of the weight that it would have with doubt 0, at any sight."""
    for sight in (1.0, 0.8, 0.2):
        plain, wary = MseCoefficients(lean=2.0), MseCoefficients(lean=2.0, doubt=2.0)
        state, _ = learned(plain, batches(0 * GRADIENT, 30), sight=sight)
        own = -plain.coefficients(SPACE, state)
        assert own.min() > 0.5
        assert -wary.coefficients(SPACE, state) == pytest.approx(own * sight**2, rel=1e-6)


def test_the_step_is_told_both_parts() -> None:
    """g = w X + (1 - w) R: X and R from the same batch with coefficients of 0 and -1."""
    column = AdvantageColumn(gamma=1.0, trace=1.0)
    rules = MseCoefficients(), FixedCoefficient(value=0.0), FixedCoefficient(value=-1.0)
    estimators = [ControlVariate(shaping="past", columns=column, coefficients=rule) for rule in rules]
    collector = Collector(LinearGaussian(), POLICY, pairs=50, directions=Gaussian(sigma=0.2))
    states = [estimator.init(collector.problem) for estimator in estimators]
    for number in range(3):
        batch = collector.batch(THETA, number, shared_reset=True)
        mixed, x, r = found = [collector.estimate(e, batch, s) for e, s in zip(estimators, states, strict=True)]
        weight = float(mixed.caution.es)
        assert (weight == 1.0) == (number == 0)
        assert 0 <= weight <= 1
        assert np.allclose(mixed.caution.policy_gradient, r.gradient, rtol=1e-4, atol=1e-6)
        assert np.allclose(mixed.gradient, weight * x.gradient + (1 - weight) * r.gradient, rtol=1e-3, atol=1e-5)
        assert x.caution.es is None
        states = [one.state for one in found]
