"""ES, RE and CV estimate one gradient: against a closed form, and against each other on MuJoCo.

Every test states its power: standard errors are small enough that a relative error of a few per cent in the gradient
would push a z-score beyond the limit, and one test breaks the estimator on purpose to see that it is caught.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest
from conftest import Collector, tree_sum
from linear_gaussian import LinearGaussian, smoothed_gradient

import quell.estimate.control_variate as cv_module
import quell.tasks
from quell.adapt import FixedEta, FixedGamma
from quell.estimate.control_variate import ControlVariate
from quell.estimate.policy_gradient import Advantages, Baseline, PolicyGradient
from quell.estimate.score import Score
from quell.policy import Policy
from quell.reduce import Sums, blocks
from quell.tasks.lqr import linear_gradient, linear_return
from quell.types import Batch

PAIRS = 4000
SIGMA = 0.3
POLICY = Policy(1, 2, hidden=(), init_std=0.7)
THETA = np.array([0.1, -0.2, 0.15, 0.1, -0.4, -0.2], np.float32)


def batch(kind: str = "gaussian", seed: int = 0, shared_reset: bool = True) -> Batch:
    return Collector(LinearGaussian(), POLICY, pairs=PAIRS, seed=seed, kind=kind).batch(
        THETA, SIGMA, shared_reset=shared_reset
    )


def control_variate(eta: float | np.ndarray, gamma: float, baseline: str = "none") -> ControlVariate:
    return ControlVariate(POLICY, FixedEta(POLICY.dim, eta), FixedGamma(gamma), "none", baseline)  # type: ignore[arg-type]


def sums_of(estimator: ControlVariate | Score, data: Batch) -> Sums:
    prepared = estimator.prepare(data, estimator.init())
    return tree_sum(estimator.contribution(data, prepared, pairs, data.theta) for pairs in blocks(data.pairs))


def z_scores(total: np.ndarray, squares: np.ndarray, exact: np.ndarray, scale: float) -> np.ndarray:
    """(mean - exact) / standard error; an error of 25% of `scale` in any coordinate would be 5 standard errors."""
    mean = total / PAIRS
    error = np.sqrt((squares / PAIRS - mean**2) / PAIRS)
    assert 5 * error.max() < 0.25 * scale, "too few pairs for this test to mean anything"
    return (mean - exact) / error


@pytest.mark.parametrize("kind", ["gaussian", "orthogonal", "gcmc"])
def test_es_against_the_closed_form(kind: str) -> None:
    sums = sums_of(Score("none"), batch(kind))
    exact = smoothed_gradient(THETA, SIGMA, 1.0, 6)
    assert np.abs(z_scores(sums["x"], sums["xx"], exact, np.linalg.norm(exact))).max() < 4.5


def test_qmc_against_the_closed_form() -> None:
    """Points share one random shift per iteration, so the standard error comes from 80 independent iterations."""
    collector = Collector(LinearGaussian(), POLICY, pairs=64, kind="qmc")
    means = []
    for iteration in range(80):
        sums = sums_of(Score("none"), collector.batch(THETA, SIGMA, iteration))
        means.append(sums["x"] / 64)
    exact = smoothed_gradient(THETA, SIGMA, 1.0, 6)
    error = np.std(means, axis=0, ddof=1) / np.sqrt(80)
    assert 5 * error.max() < 0.25 * np.linalg.norm(exact)
    assert np.abs((np.mean(means, axis=0) - exact) / error).max() < 4.5


@pytest.mark.parametrize(
    ("kind", "gamma", "baseline"),
    [
        ("gaussian", 0.5, "none"),
        ("gaussian", 0.9, "leave-one-out"),
        ("gaussian", 1.0, "none"),
        ("orthogonal", 0.9, "leave-one-out"),
        ("gcmc", 0.5, "leave-one-out"),
        ("gcmc", 1.0, "leave-one-out"),
    ],
)
def test_re_and_cv_against_the_closed_form(kind: str, gamma: float, baseline: str) -> None:
    """CV with a random eta, and E[Y] = 0, which says that RE(gamma) agrees with ES(gamma)."""
    eta = np.random.default_rng(1).uniform(-1.5, 0.5, POLICY.dim)
    sums = sums_of(control_variate(eta, gamma, baseline), batch(kind, seed=1))
    squares = sums["xx"] + 2 * eta * sums["xy"] + eta**2 * sums["yy"]
    exact = smoothed_gradient(THETA, SIGMA, 1.0, 6)
    scale = float(np.linalg.norm(exact))
    assert np.abs(z_scores(sums["x"] + eta * sums["y"], squares, exact, scale)).max() < 4.5
    assert np.abs(z_scores(sums["y"], sums["yy"], np.zeros(6), scale)).max() < 4.5


@pytest.mark.parametrize("gamma", [0.5, 0.9, 1.0])
def test_pg_at_theta_against_the_closed_form(gamma: float) -> None:
    """PG estimates the unsmoothed, discounted gradient, here divided by the std of the batch's returns."""
    episodes = Collector(LinearGaussian(), POLICY, pairs=PAIRS).batch(THETA, 0.0)
    estimator = PolicyGradient(POLICY, gamma)
    prepared = estimator.prepare(episodes, {})
    sums = tree_sum(estimator.contribution(episodes, prepared, pairs, THETA) for pairs in blocks(PAIRS))
    spread, count = episodes.rollouts.returns.std(), float(sums["count"])
    mean = sums["g"] / count
    error = np.sqrt((sums["gg"] / count - mean**2) / count)
    exact = smoothed_gradient(THETA, 0.0, gamma, 6) / spread
    assert np.linalg.norm(error) < 0.1 * np.linalg.norm(exact)
    assert np.abs((mean - exact) / error).max() < 4.5


@pytest.mark.parametrize("gamma", [0.8, 1.0])
def test_pg_on_lqr_against_its_closed_form(gamma: float) -> None:
    """A linear policy u = W'x + b on the real task: W = -K'. Power: 5 standard errors are at most 25% of it."""
    task = quell.tasks.get("lqr", horizon=8)
    policy = Policy(3, 3, hidden=(), init_std=0.5)
    gain = 0.4 * np.eye(3) + np.random.default_rng(0).uniform(-0.2, 0.2, (3, 3))
    theta = np.concatenate([-gain.T.reshape(-1), np.zeros(3), np.full(3, np.log(0.5))]).astype(np.float32)
    episodes = Collector(task, policy, pairs=4000).batch(theta, 0.0, shared_reset=False)
    estimator = PolicyGradient(policy, gamma, "leave-one-out")
    prepared = estimator.prepare(episodes, {})
    sums = tree_sum(estimator.contribution(episodes, prepared, pairs, theta) for pairs in blocks(4000))
    by_gain, by_log_std = linear_gradient(task, gain, 0.5, gamma)
    exact = np.concatenate([-by_gain.T.reshape(-1), np.zeros(3), by_log_std]) / episodes.rollouts.returns.std()
    mean = sums["g"] / 8000
    error = np.sqrt((sums["gg"] / 8000 - mean**2) / 8000)
    assert 5 * error.max() < 0.25 * np.linalg.norm(exact)
    assert np.abs((mean - exact) / error).max() < 4.5


def test_the_lqr_gradient_is_the_slope_of_the_exact_return() -> None:
    task = quell.tasks.get("lqr", horizon=12)
    gain, bump = 0.3 * np.eye(3) + 0.05, 1e-6 * np.arange(9).reshape(3, 3)
    by_gain, by_log_std = linear_gradient(task, gain, 0.5)
    up, down = (linear_return(task, np.stack([gain + sign * bump] * 12), 0.5) for sign in (1, -1))
    assert (up - down) / 2 == pytest.approx((by_gain * bump).sum(), rel=1e-5)
    louder, softer = (linear_return(task, np.stack([gain] * 12), 0.5 * np.exp(s)) for s in (1e-5, -1e-5))
    assert (louder - softer) / 2e-5 == pytest.approx(by_log_std.sum(), rel=1e-5)


def undiscounted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the control variate use the reward-to-go as eq. (5) prints it: without gamma^{t'-t}."""
    sound = cv_module.advantages

    def printed(data: Batch, gammas: Sequence[float], baseline: Baseline) -> Advantages:
        values = sound(data, [1.0] * len(gammas), baseline).values
        return dataclasses.replace(sound(data, gammas, baseline), values=values)

    monkeypatch.setattr(cv_module, "advantages", printed)


def test_the_printed_reward_to_go_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dropping the discount inside the reward-to-go, as in print, breaks E[Y] = 0 and must fail the test above."""
    undiscounted(monkeypatch)
    sums = sums_of(control_variate(-1.0, 0.5, "leave-one-out"), batch())
    z = z_scores(sums["y"], sums["yy"], np.zeros(6), float(np.linalg.norm(smoothed_gradient(THETA, SIGMA, 1.0, 6))))
    assert np.abs(z).max() > 8


class OnMujoco:
    """ES(gamma) and RE(gamma) of 3,000 pairs of short episodes, projected on the gradient's direction.

    The direction comes from the first half of the pairs (their mean RE), the comparison from the second half, so that
    one number with a clear sign is compared instead of many noisy ones.
    """

    def __init__(self, name: str, sigma: float) -> None:
        task = quell.tasks.get(name, horizon=30)
        self.policy = Policy(task.obs_size, task.action_size, hidden=(), init_std=0.5, output_scale=0.1)
        collector = Collector(task, self.policy, pairs=3000, seed=4)
        self.data = collector.batch(collector.theta(), sigma)

    def z(self, gamma: float) -> tuple[float, float]:
        """(z of ES - RE along the gradient, how many of its standard errors RE itself is away from 0)."""
        estimator = ControlVariate(self.policy, FixedEta(self.policy.dim), FixedGamma(gamma), "none", "leave-one-out")
        prepared = estimator.prepare(self.data, {})
        es, y = [], []
        for pair in range(self.data.pairs):
            plus, minus = prepared.returns[0, 2 * pair : 2 * pair + 2]
            es.append((plus - minus) / (2 * self.data.sigma) * self.data.directions.pair(0, pair)[0])
            y.append(estimator.contribution(self.data, prepared, [pair], self.data.theta)["y"])
        re, half = np.array(es) - np.array(y), self.data.pairs // 2
        direction = re[:half].mean(axis=0) / np.linalg.norm(re[:half].mean(axis=0))
        gap, along = np.array(y)[half:] @ direction, re[half:] @ direction
        error = gap.std() / np.sqrt(half)
        return float(gap.mean() / error), float(along.mean() / error)


@pytest.fixture(scope="module")
def pendulum() -> OnMujoco:
    return OnMujoco("inverted-pendulum", 0.3)


@pytest.fixture(scope="module")
def swimmer() -> OnMujoco:
    return OnMujoco("swimmer", 0.1)


@pytest.mark.parametrize("gamma", [0.8, 1.0])
@pytest.mark.parametrize("task", ["pendulum", "swimmer"])
def test_es_and_re_agree_on_mujoco(task: str, gamma: float, request: pytest.FixtureRequest) -> None:
    """Power: the gradient is more than 8 standard errors of the gap away from 0, so losing half of it shows."""
    gap, signal = request.getfixturevalue(task).z(gamma)
    assert signal > 8
    assert abs(gap) < 4


def test_the_printed_reward_to_go_is_caught_on_mujoco(pendulum: OnMujoco, monkeypatch: pytest.MonkeyPatch) -> None:
    undiscounted(monkeypatch)
    gap, _ = pendulum.z(0.8)
    assert abs(gap) > 6
