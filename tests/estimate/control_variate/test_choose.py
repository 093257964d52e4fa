"""Several control variates, chosen by the variance they would have had: unbiased, better than ES, and safe."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Collector
from linear_gaussian import POLICY, THETA, LinearGaussian, smoothed_gradient

import quell
from quell.errors import UsageError
from quell.estimate.control_variate import ControlVariate
from quell.estimate.control_variate.choose import (
    VARIANTS,
    ChosenCoefficients,
    InPolicy,
    least_squares,
    second_moment,
    split_by_layer,
)
from quell.estimate.control_variate.coefficients import Products, Space
from quell.estimate.control_variate.discount import FixedDiscounts
from quell.estimate.score import Score
from quell.registry import check

READY = np.array([True])
EXACT = smoothed_gradient(THETA, 0.3, 1.0, 6)
PARAMETERS, POLICYS = ChosenCoefficients(), ChosenCoefficients(metric="policy")


def chosen(rule: ChosenCoefficients, *values: Any) -> ControlVariate:
    return ControlVariate(shaping="none", discount=FixedDiscounts(gammas=(1.0, 0.8)), coefficients=rule, values=values)


def of_columns(columns: np.ndarray) -> Products:
    """Products of columns [1 + K, pairs, d]."""
    return Products(np.einsum("knd,lnd->kld", columns, columns), None, columns.shape[1])


def test_unbiased_online_and_better_than_es() -> None:
    """600 batches of 4 pairs, learning all the while: the mean of the estimates against the closed form."""
    data = Collector(LinearGaussian(), POLICY, pairs=4, seed=5)
    estimator = chosen(PARAMETERS, "linear")
    state, gradients, ratios = estimator.init(data.problem), [], []
    for iteration in range(600):
        estimated = data.estimate(estimator, data.batch(THETA, iteration), state)
        state = estimated.state
        gradients.append(estimated.gradient)
        ratios.append((estimated.metrics["variance/method"], estimated.metrics["variance/es"]))
    g = np.array(gradients, np.float64)
    error = g.std(axis=0) / np.sqrt(len(g))
    assert np.abs((g.mean(axis=0) - EXACT) / error).max() < 4.5
    method, plain = np.array(ratios[20:]).sum(axis=0)
    assert method < 0.7 * plain


class TestSafety:
    """Fed columns that have nothing to do with X, or that turn bad, the choice falls back to plain ES."""

    def run(self, scale: float, iterations: int, turn: int | None = None) -> list[float]:
        """Ratios of second moments per batch; until `turn` the column removes X almost entirely."""
        rng, dim = np.random.default_rng(1), 200
        space = Space(dim, (slice(0, 50), slice(50, dim)), 1)
        state, ratios = PARAMETERS.init(space), []
        for iteration in range(iterations):
            x = rng.standard_normal((5, dim))
            helpful = turn is not None and iteration < turn
            y = x + 0.1 * rng.standard_normal((5, dim)) if helpful else scale * rng.standard_normal((5, dim))
            products = of_columns(np.stack([x, y]))
            beta, _ = PARAMETERS.coefficients(space, state)
            ratios.append(float(second_moment(products.sums, beta).sum() / products.sums[0, 0].sum()))
            state, _ = PARAMETERS.update(space, state, products, READY)
        return ratios

    @pytest.mark.parametrize("scale", [1e-3, 1.0, 1e6])
    def test_useless(self, scale: float) -> None:
        assert max(self.run(scale, 60)) <= 1.05

    def test_turning_bad(self) -> None:
        """After 40 good batches the column becomes noise a thousand times larger: one bad batch, then none."""
        ratios = self.run(1e3, 60, turn=40)
        assert np.mean(ratios[10:40]) < 0.1
        assert ratios[40] > 100
        assert max(ratios[42:]) <= 1.05


def test_least_squares_and_second_moment_by_hand() -> None:
    rng = np.random.default_rng(0)
    c = rng.standard_normal((3, 40, 5))
    cc = np.einsum("knd,lnd->kld", c, c)
    beta = least_squares(cc[1:, 1:], cc[0, 1:])
    for j in range(5):
        expected = np.linalg.lstsq(c[1:, :, j].T, -c[0, :, j], rcond=None)[0]
        assert beta[:, j] == pytest.approx(expected, rel=1e-4)
    assert second_moment(cc, beta) == pytest.approx(np.square(c[0] + np.einsum("kd,knd->nd", beta, c[1:])).sum(axis=0))
    assert (least_squares(np.zeros((2, 2, 5)), np.zeros((2, 5))) == 0).all()


def test_the_right_granularity_is_found() -> None:
    """Coefficients that differ between coordinates want the coordinate; equal ones a pooled estimate."""
    rng, dim = np.random.default_rng(2), 300
    space = Space(dim, (slice(0, dim),), 1)
    names = ["plain", *(per for per, _ in VARIANTS)]
    for spread, wanted in ((1.0, "coordinate"), (0.0, "scalar")):
        state = PARAMETERS.init(space)
        slope = 1 + spread * rng.standard_normal(dim)
        for _ in range(40):
            y = rng.standard_normal((5, dim))
            columns = np.stack([slope * y + rng.standard_normal(y.shape), y])
            state, _ = PARAMETERS.update(space, state, of_columns(columns), READY)
        best = names[int(state["scores"][:, 0].argmin())]
        assert best == wanted or (wanted == "scalar" and best == "layer")
        assert len(state["scores"]) == len(names)


def test_a_column_that_is_not_ready_teaches_nothing() -> None:
    rng = np.random.default_rng(0)
    space = Space(4, (slice(0, 4),), 2, ((0,), (0, 1)))
    products = of_columns(rng.standard_normal((3, 5, 4)))
    state, _ = PARAMETERS.update(space, PARAMETERS.init(space), products, np.array([True, False]))
    assert (state["moments"][:2, :2] != 0).all()
    assert (state["moments"][2] == 0).all()
    assert (state["moments"][:, 2] == 0).all()


def test_nothing_is_known_at_the_start_and_bad_settings_are_refused() -> None:
    data = Collector(LinearGaussian(), POLICY, pairs=3)
    estimated = data.estimate(chosen(PARAMETERS, "linear", "network"), data.batch(THETA))
    assert estimated.metrics["auto/plain"] == 1
    assert {name: a.dtype for name, a in estimated.state.items()} == dict.fromkeys(estimated.state, np.dtype(float))
    for gammas in ((), (1.0, 1.0), (1.5,)):
        with pytest.raises(UsageError, match=r"discount.gammas"):
            check(dataclasses.replace(chosen(PARAMETERS), discount=FixedDiscounts(gammas=gammas)))
    for values in (("x",), ("linear", "linear")):
        with pytest.raises(UsageError, match="values"):
            check(chosen(PARAMETERS, *values))
    with pytest.raises(UsageError, match="values"):
        check(dataclasses.replace(chosen(PARAMETERS, "linear"), baseline="linear"))


def test_the_same_theta_for_any_number_of_workers_and_across_a_stop(tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        **{"horizon": 10, "pairs": 5, "batch_steps": 0, "eval_every": 0, "out": tmp_path, "progress": False},
        **{"estimator": chosen(PARAMETERS, "network"), "step": "adam"},
    }
    whole = quell.train("lqr-302", steps=400, workers=1, name="whole", **settings)
    part = quell.train("lqr-302", steps=200, workers=2, name="part", **settings)
    resumed = quell.resume(part.path, steps=400, workers=2, progress=False)
    assert isinstance(whole.config.estimator, ControlVariate)
    assert isinstance(whole.config.estimator.coefficients, ChosenCoefficients)
    assert (whole.theta == resumed.theta).all()
    assert whole.history[-1]["auto/plain"] < 1


class TestPolicyMetric:
    """Coefficients chosen by the variance of the policy's change."""

    def test_layers_are_solved_jointly(self) -> None:
        """Two layers whose noises cancel each other in the policy: the joint problem, against plain least squares."""
        rng = np.random.default_rng(0)
        rule, space = ChosenCoefficients(metric="policy", decay=1.0), Space(4, (slice(0, 2), slice(2, 4)), 1)
        change = rng.standard_normal((3, 4))  # A: four parameters, three numbers that the policy shows
        state, seen = rule.init(space), []
        for _ in range(60):
            x = rng.standard_normal(4)
            y = np.array([1.0, 1.0, -0.5, -0.5]) * x + 0.3 * rng.standard_normal(4)
            moved = split_by_layer(np, space, np.stack([x, y])) @ change.T
            seen.append(moved)
            state, _ = rule.update(space, state, Products(np.zeros((2, 2, 4)), moved @ moved.T, 1.0), READY)
        beta, used = InPolicy(space).best(state)
        assert ["plain", "scalar", "layer"][used[0]] == "layer"
        assert (rule.coefficients(space, state)[0] == beta).all()
        parts = np.array(seen)  # [pairs, x0 x1 y0 y1, 3]
        target = -(parts[:, 0] + parts[:, 1]).ravel()
        expected = np.linalg.lstsq(np.stack([parts[:, 2].ravel(), parts[:, 3].ravel()], 1), target, rcond=None)[0]
        assert beta[0, [0, 2]] == pytest.approx(expected, abs=0.01)

    def test_unbiased_online_and_safe(self) -> None:
        data = Collector(LinearGaussian(), POLICY, pairs=4, seed=6)
        estimator = chosen(POLICYS)
        state, gradients, plain = estimator.init(data.problem), [], []
        for iteration in range(500):
            batch = data.batch(THETA, iteration)
            estimated = data.estimate(estimator, batch, state)
            state = estimated.state
            gradients.append(estimated.gradient)
            plain.append(data.estimate(Score(shaping="none"), batch).gradient)
        g = np.array(gradients, np.float64)
        error = g.std(axis=0) / np.sqrt(len(g))
        assert np.abs((g.mean(axis=0) - EXACT) / error).max() < 4.5
        assert g[20:].var(axis=0).sum() < np.array(plain)[20:].var(axis=0).sum()

    def test_useless_columns_are_dropped(self) -> None:
        rng = np.random.default_rng(3)
        space = Space(30, (slice(0, 10), slice(10, 30)), 1)
        state, ratios = POLICYS.init(space), []
        for _ in range(60):
            gram, total, plain = np.zeros((4, 4)), 0.0, 0.0
            beta, _ = POLICYS.coefficients(space, state)
            for _ in range(5):
                x, y = rng.standard_normal((2, 30))
                total, plain = total + np.square(x + beta[0] * y).sum(), plain + np.square(x).sum()
                moved = split_by_layer(np, space, np.stack([x, y]))
                gram += moved @ moved.T
            ratios.append(total / plain)
            state, _ = POLICYS.update(space, state, Products(np.zeros((2, 2, 30)), gram, 5.0), READY)
        assert np.mean(ratios) <= 1.05
        assert max(ratios[5:]) <= 1.1
