"""Value functions and common random numbers: columns and baselines against the closed form."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from conftest import Collector
from linear_gaussian import POLICY, THETA, LinearGaussian, smoothed_gradient

from quell.estimate.control_variate import ControlVariate
from quell.estimate.control_variate.choose import ChosenCoefficients
from quell.estimate.control_variate.coefficients import FixedCoefficient
from quell.estimate.control_variate.columns import unpacked
from quell.estimate.control_variate.discount import FixedDiscounts
from quell.estimate.value import ValueFunction
from quell.perturb.gaussian import Gaussian
from quell.perturb.gcmc import Gcmc

SIGMA, PAIRS = 0.3, 4000
EXACT = smoothed_gradient(THETA, SIGMA, 1.0, 6)


def collector(pairs: int = PAIRS, directions: Any = None) -> Collector:
    return Collector(LinearGaussian(), POLICY, pairs=pairs, seed=3, directions=directions or Gaussian(sigma=SIGMA))


def chosen(*kinds: Any) -> ControlVariate:
    return ControlVariate(
        shaping="none", discount=FixedDiscounts(gammas=(1.0, 0.8)), coefficients=ChosenCoefficients(), values=kinds
    )


def z_of(total: np.ndarray, squares: np.ndarray, count: int, exact: np.ndarray | float) -> np.ndarray:
    mean = total / count
    error = np.sqrt((squares / count - mean**2) / count)
    assert 5 * error.max() < 0.35 * np.linalg.norm(EXACT), "too few pairs for this test to mean anything"
    return (mean - exact) / np.where(error > 0, error, 1)


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("kind", "shared_noise"),
    [("gcmc", False), pytest.param("gaussian", False, marks=SLOW), pytest.param("gaussian", True, marks=SLOW)],
)
def test_every_column_has_mean_zero(kind: str, shared_noise: bool) -> None:
    """Two discounts and both value functions, fitted on an earlier batch; X itself has the exact mean."""
    estimator, directions = chosen("linear", "network"), {"gaussian": Gaussian, "gcmc": Gcmc}[kind](sigma=SIGMA)
    early, data = collector(200, directions), collector(PAIRS, directions)
    state = early.estimate(estimator, early.batch(THETA, 1)).state
    sums = data.sums(estimator, data.batch(THETA, shared_noise=shared_noise), state)
    truth = np.concatenate([EXACT[None], np.zeros((4, 6))])
    squares = np.diagonal(unpacked(sums["products"], 4)).T
    assert np.abs(z_of(sums["columns"], squares, PAIRS, truth)).max() < 4.5
    assert (squares[3:] > 0).all(), "the value functions predict nothing, so this tests nothing"


@pytest.mark.parametrize("kind", ["linear", "network"])
def test_value_baselines_against_the_closed_form(kind: Any) -> None:
    estimator = ControlVariate(
        shaping="none",
        baseline=kind,
        discount=FixedDiscounts(gammas=(0.9,)),
        coefficients=FixedCoefficient(value=-0.8),
    )
    early, data = collector(100), collector()
    state = early.estimate(estimator, early.batch(THETA, 1)).state
    sums = data.sums(estimator, data.batch(THETA), state)
    (x, y), (xx, xy, yy) = sums["columns"], sums["products"]
    squares = xx - 1.6 * xy + 0.64 * yy
    assert np.abs(z_of(x - 0.8 * y, squares, PAIRS, EXACT)).max() < 4.5


def test_a_value_function_finds_a_value_linear_in_its_features() -> None:
    """Reward-to-go 3 + 2 (1 - t/T) s exactly: the fit from one batch predicts another's."""
    rng, value = np.random.default_rng(0), ValueFunction("linear", 2, ridge=1e-9)

    def pair() -> tuple[np.ndarray, np.ndarray]:
        obs = rng.uniform(-1, 1, (2, 50, 2))
        return obs, 3 + 2 * (1 - np.arange(50) / 50) * obs[:, :, 0]

    state = value.init()
    for _ in range(2):
        obs, to_go = pair()
        values, sums = value.apply(value.weights(value.init()), obs, to_go, np.full(2, 50))
        assert (values == 0).all()
        state = value.update(state, sums)
    obs, to_go = pair()
    values, _ = value.apply(value.weights(state), obs, to_go, np.array([50, 20]))
    assert values[0] == pytest.approx(to_go[0], abs=1e-4)
    assert values[1, :20] == pytest.approx(to_go[1, :20], abs=1e-4)
    assert (values[1, 20:] == 0).all()


def test_a_partner_with_shared_noise_must_stay_out_of_the_baseline() -> None:
    """With common action noise the mean over all other members is biased, and the test above would show it.

    A single pair: the baseline is then the partner, or nothing. 1,500 of them put the bias 11 standard errors off.
    """
    estimator = ControlVariate(
        shaping="none",
        baseline="leave-one-out",
        discount=FixedDiscounts(gammas=(1.0,)),
        coefficients=FixedCoefficient(),
    )
    data = collector(pairs=1)
    parts: dict[bool, list[np.ndarray]] = {True: [], False: []}
    for iteration in range(1500):
        batch = data.batch(THETA, iteration, shared_noise=True)
        for shared, columns in parts.items():
            episodes = dataclasses.replace(batch.episodes, shared_noise=shared)
            columns.append(data.sums(estimator, dataclasses.replace(batch, episodes=episodes))["columns"][1])

    def z(shared: bool) -> float:
        means = np.array(parts[shared])
        return float(np.abs(means.mean(axis=0) / (means.std(axis=0) / np.sqrt(len(means)))).max())

    assert z(shared=True) < 4.5
    assert z(shared=False) > 8


def test_preparing_needs_no_trajectories() -> None:
    """On a cluster they stay where they were made: the same sums whether or not `prepare` could see them."""
    data = collector(pairs=5)
    for estimator in (
        dataclasses.replace(chosen("linear", "network"), shaping="normalise"),
        ControlVariate(baseline="linear", discount=FixedDiscounts(), coefficients=FixedCoefficient()),
    ):
        state = data.estimate(estimator, data.batch(THETA, 1)).state
        batch = data.batch(THETA, 2)
        bare = dataclasses.replace(batch, rollouts=dataclasses.replace(batch.rollouts, trajectories=None))
        rows = [estimator.prepare(data.problem, one, state) for one in (bare, batch)]
        sums, whole = (data.total(estimator, batch, one, THETA) for one in rows)
        assert all((sums[name] == whole[name]).all() for name in whole)
