"""ES, RE and CV estimate one gradient: against a closed form, and against each other on MuJoCo.

Every test states its power: standard errors are small enough that a relative error of a few per cent in the gradient
would push a z-score beyond the limit, and one test breaks the estimator on purpose to see that it is caught.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from conftest import Collector
from linear_gaussian import POLICY, THETA, LinearGaussian, smoothed_gradient

import quell.estimate.control_variate.discounted as columns_module
import quell.estimate.es as score_module
import quell.estimate.returns as returns_module
import quell.tasks
from quell.estimate import Problem
from quell.estimate.control_variate import ControlVariate
from quell.estimate.control_variate.coefficients import FixedCoefficient
from quell.estimate.control_variate.discount import FixedDiscounts
from quell.estimate.control_variate.discounted import DiscountedColumns
from quell.estimate.es import Es
from quell.estimate.policy_gradient import Baseline, PolicyGradient
from quell.estimate.reduce import directions_of, pair_of
from quell.estimate.returns import Shaping
from quell.perturb import Unperturbed
from quell.perturb.gaussian import Gaussian
from quell.perturb.gcmc import Gcmc
from quell.perturb.orthogonal import Orthogonal
from quell.perturb.qmc import Qmc
from quell.policy import Policy
from quell.tasks.lqr import A, B, Lqr, Q, R, linear_return
from quell.types import Array, Batch, Episodes, Rollouts, Sums

PAIRS = 4000
SIGMA = 0.3


def collector(kind: str = "gaussian", seed: int = 0, pairs: int = PAIRS) -> Collector:
    kinds: dict[str, type[Any]] = {"gaussian": Gaussian, "orthogonal": Orthogonal, "gcmc": Gcmc, "qmc": Qmc}
    directions = kinds[kind](sigma=SIGMA)
    if isinstance(directions, Qmc):
        directions = dataclasses.replace(directions, shift=True)
    return Collector(LinearGaussian(), POLICY, pairs=pairs, seed=seed, directions=directions)


def control_variate(gamma: float, baseline: Any = "none") -> ControlVariate:
    columns = DiscountedColumns(baseline=baseline, discount=FixedDiscounts(gammas=(gamma,)))
    return ControlVariate(shaping="none", columns=columns, coefficients=FixedCoefficient())


def sums_of(estimator: ControlVariate | Es, data: Collector) -> Sums:
    return data.sums(estimator, data.batch(THETA))


def moments(sums: Sums) -> tuple[np.ndarray, ...]:
    """(x, y, xx, xy, yy) of a control variate with one column."""
    return (*sums["columns"], *sums["products"])


def z_scores(total: np.ndarray, squares: np.ndarray, exact: np.ndarray, scale: float) -> np.ndarray:
    """(mean - exact) / standard error; an error of 25% of `scale` in any coordinate would be 5 standard errors."""
    mean = total / PAIRS
    error = np.sqrt((squares / PAIRS - mean**2) / PAIRS)
    assert 5 * error.max() < 0.25 * scale, "too few pairs for this test to mean anything"
    return (mean - exact) / error


@pytest.mark.parametrize("kind", ["gaussian", "orthogonal", "gcmc"])
def test_es_against_the_closed_form(kind: str) -> None:
    sums = sums_of(Es(shaping="none"), collector(kind))
    exact = smoothed_gradient(THETA, SIGMA, 1.0, 6)
    assert np.abs(z_scores(sums["x"], sums["xx"], exact, float(np.linalg.norm(exact)))).max() < 4.5


def test_qmc_against_the_closed_form() -> None:
    """Points share one random shift per iteration, so the standard error comes from 80 independent iterations."""
    data = collector("qmc", pairs=64)
    means = []
    for iteration in range(80):
        sums = data.sums(Es(shaping="none"), data.batch(THETA, iteration))
        means.append(sums["x"] / 64)
    exact = smoothed_gradient(THETA, SIGMA, 1.0, 6)
    error = np.std(means, axis=0, ddof=1) / np.sqrt(80)
    assert 5 * error.max() < 0.25 * np.linalg.norm(exact)
    assert np.abs((np.mean(means, axis=0) - exact) / error).max() < 4.5


@pytest.mark.parametrize(
    ("kind", "gamma", "baseline"),
    [
        ("gaussian", 0.5, "none"),
        ("orthogonal", 0.9, "leave-one-out"),
        ("gcmc", 1.0, "leave-one-out"),
        pytest.param("gaussian", 0.9, "leave-one-out", marks=pytest.mark.slow),
        pytest.param("gaussian", 1.0, "none", marks=pytest.mark.slow),
        pytest.param("gcmc", 0.5, "leave-one-out", marks=pytest.mark.slow),
    ],
)
def test_re_and_cv_against_the_closed_form(kind: str, gamma: float, baseline: str) -> None:
    """CV with a random eta, and E[Y] = 0, which says that RE(gamma) agrees with ES(gamma)."""
    eta = np.random.default_rng(1).uniform(-1.5, 0.5, POLICY.dim)
    x, y, xx, xy, yy = moments(sums_of(control_variate(gamma, baseline), collector(kind, seed=1)))
    squares = xx + 2 * eta * xy + eta**2 * yy
    exact = smoothed_gradient(THETA, SIGMA, 1.0, 6)
    scale = float(np.linalg.norm(exact))
    assert np.abs(z_scores(x + eta * y, squares, exact, scale)).max() < 4.5
    assert np.abs(z_scores(y, yy, np.zeros(6), scale)).max() < 4.5


@pytest.mark.parametrize("gamma", [0.5, 0.9, 1.0])
def test_pg_at_theta_against_the_closed_form(gamma: float) -> None:
    """PG estimates the unsmoothed, discounted gradient, here divided by the std of the batch's returns."""
    data = Collector(LinearGaussian(), POLICY, pairs=PAIRS, directions=Unperturbed())
    episodes = data.batch(THETA)
    sums = data.sums(PolicyGradient(gamma=gamma), episodes)
    spread, count = episodes.rollouts.returns.std(), float(sums["count"])
    mean = sums["g"] / count
    error = np.sqrt((sums["gg"] / count - mean**2) / count)
    exact = smoothed_gradient(THETA, 0.0, gamma, 6) / spread
    assert np.linalg.norm(error) < 0.1 * np.linalg.norm(exact)
    assert np.abs((mean - exact) / error).max() < 4.5


def linear_gradient(task: Lqr, gain: Array, action_std: float, gamma: float = 1.0) -> tuple[Array, Array]:
    """Exact policy gradient of J^gamma for u_t = -K x_t + s * N(0, I): (dJ/dK [3, 3], dJ/dlog s [3]).

    With S_t = E[x_t x_t'] and the cost-to-go P_t = Q + K'RK + gamma (A-BK)' P_{t+1} (A-BK), P_T = 0:

        dJ/dK = -2 sum_t gamma^t (R K - gamma B' P_{t+1} (A - B K)) S_t
        dJ/dlog s_j = -2 s^2 sum_t gamma^t (R + gamma B' P_{t+1} B)_jj
    """
    closed, cost = A - B @ gain, Q + gain.T @ R @ gain
    values = [np.zeros((3, 3))]  # P_T, P_{T-1}, ..., P_1
    for _ in range(task.horizon - 1):
        values.append(cost + gamma * closed.T @ values[-1] @ closed)
    second = task.x0_std**2 * np.eye(3)
    by_gain, by_log_std = np.zeros((3, 3)), np.zeros(3)
    for t, value in enumerate(reversed(values)):
        by_gain -= 2 * gamma**t * (R @ gain - gamma * B.T @ value @ closed) @ second
        by_log_std -= 2 * action_std**2 * gamma**t * np.diag(R + gamma * B.T @ value @ B)
        second = closed @ second @ closed.T + (task.noise**2 + action_std**2) * np.eye(3)
    return by_gain, by_log_std


@pytest.mark.parametrize("gamma", [0.8, 1.0])
def test_pg_on_lqr_against_its_closed_form(gamma: float) -> None:
    """A linear policy u = W'x + b on the real task: W = -K'. Power: 5 standard errors are at most 25% of it."""
    task = Lqr(horizon=8)
    policy = Policy(3, 3, hidden=(), init_std=0.5)
    gain = 0.4 * np.eye(3) + np.random.default_rng(0).uniform(-0.2, 0.2, (3, 3))
    theta = np.concatenate([-gain.T.reshape(-1), np.zeros(3), np.full(3, np.log(0.5))]).astype(np.float32)
    data = Collector(task, policy, pairs=4000, directions=Unperturbed())
    episodes = data.batch(theta, shared_reset=False)
    sums = data.sums(PolicyGradient(gamma=gamma, baseline="leave-one-out"), episodes)
    by_gain, by_log_std = linear_gradient(task, gain, 0.5, gamma)
    exact = np.concatenate([-by_gain.T.reshape(-1), np.zeros(3), by_log_std]) / episodes.rollouts.returns.std()
    mean = sums["g"] / 8000
    error = np.sqrt((sums["gg"] / 8000 - mean**2) / 8000)
    assert 5 * error.max() < 0.25 * np.linalg.norm(exact)
    assert np.abs((mean - exact) / error).max() < 4.5


def test_the_lqr_gradient_is_the_slope_of_the_exact_return() -> None:
    task = Lqr(horizon=12)
    gain, bump = 0.3 * np.eye(3) + 0.05, 1e-6 * np.arange(9).reshape(3, 3)
    by_gain, by_log_std = linear_gradient(task, gain, 0.5)
    up, down = (linear_return(task, np.stack([gain + sign * bump] * 12), 0.5) for sign in (1, -1))
    assert (up - down) / 2 == pytest.approx((by_gain * bump).sum(), rel=1e-5)
    louder, softer = (linear_return(task, np.stack([gain] * 12), 0.5 * np.exp(s)) for s in (1e-5, -1e-5))
    assert (louder - softer) / 2e-5 == pytest.approx(by_log_std.sum(), rel=1e-5)


def undiscounted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the control variate use the reward-to-go as eq. (5) prints it: without gamma^{t'-t}."""
    sound = columns_module.advantages  # type: ignore[attr-defined]

    def printed(data: Batch, gammas: Sequence[float], baseline: Baseline) -> tuple[Array, Array, Array]:
        (to_go, _, good), (_, values, _) = (sound(data, g, baseline) for g in (gammas, [1.0] * len(gammas)))
        return to_go, values, good

    monkeypatch.setattr(columns_module, "advantages", printed)


def test_the_printed_reward_to_go_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dropping the discount inside the reward-to-go, as in print, breaks E[Y] = 0 and must fail the test above."""
    undiscounted(monkeypatch)
    _, y, _, _, yy = moments(sums_of(control_variate(0.5, "leave-one-out"), collector()))
    z = z_scores(y, yy, np.zeros(6), float(np.linalg.norm(smoothed_gradient(THETA, SIGMA, 1.0, 6))))
    assert np.abs(z).max() > 8


class OnMujoco:
    """ES(gamma) and RE(gamma) of 3,000 pairs of short episodes, projected on the gradient's direction.

    The direction comes from the first half of the pairs (their mean RE), the comparison from the second half, so that
    one number with a clear sign is compared instead of many noisy ones.
    """

    def __init__(self, name: str, sigma: float) -> None:
        task = quell.tasks.get(name, horizon=30)
        self.policy = Policy(task.obs_size, task.action_size, hidden=(), init_std=0.5, output_scale=0.1)
        self.collector = Collector(task, self.policy, pairs=3000, seed=4, directions=Gaussian(sigma=sigma))
        self.data = self.collector.batch(self.collector.theta())

    def z(self, gamma: float) -> tuple[float, float]:
        """(z of ES - RE along the gradient, how many of its standard errors RE itself is away from 0)."""
        estimator, problem = control_variate(gamma, "leave-one-out"), self.collector.problem
        rows = estimator.prepare(problem, self.data, {})
        es, y = [], []
        for pair in range(self.data.pairs):
            plus, minus = rows.pairs["returns"][pair, :, 0]
            eps = directions_of(problem, self.data.episodes, pair)
            es.append((plus - minus) / (2 * problem.directions.sigma) * eps[0])
            terms = estimator.terms(
                problem, pair_of(problem, self.data.episodes, self.data.rollouts, pair), rows.row(pair), self.data.theta
            )
            y.append(terms["columns"][1])
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
@pytest.mark.parametrize("task", ["pendulum", pytest.param("swimmer", marks=pytest.mark.slow)])
def test_es_and_re_agree_on_mujoco(task: str, gamma: float, request: pytest.FixtureRequest) -> None:
    """Power: the gradient is more than 8 standard errors of the gap away from 0, so losing half of it shows."""
    gap, signal = request.getfixturevalue(task).z(gamma)
    assert signal > 8
    assert abs(gap) < 4


def test_the_printed_reward_to_go_is_caught_on_mujoco(pendulum: OnMujoco, monkeypatch: pytest.MonkeyPatch) -> None:
    undiscounted(monkeypatch)
    gap, _ = pendulum.z(0.8)
    assert abs(gap) > 6


class SingleGcmcPair:
    """ES on J = alpha . theta from one good GCMC pair of two, d = 8: the mean of alpha . g over unit vectors is 1.

    For one draw that mean is (l^2 + l'^2) / (2d), whose standard deviation is about 0.1 because l' is short where l is
    long: 1,000 draws give a standard error of 0.004. Subtracting the pair's own mean would leave E[(l + l')^2] / (4d) =
    0.93: more than fifteen of them.
    """

    dim, draws = 8, 1000

    def z(self, estimator: Es) -> tuple[float, float]:
        """(z of the mean, its standard error)."""
        policy = Policy(1, self.dim // 2, hidden=(), learn_std=False)
        problem = Problem(policy, Gcmc(sigma=0.1), 0)
        found = np.zeros((self.draws, self.dim))
        for iteration in range(self.draws):
            episodes = Episodes.of_pairs(iteration, 2)
            eps = directions_of(problem, episodes, 1)
            for j in range(self.dim):
                returns = np.array([np.nan, 1.0, 0.1 * eps[0][j], 0.1 * eps[1][j]])
                rollouts = Rollouts(returns[:, None], np.ones(4, np.int64), np.ones(4, bool), None, np.zeros((4, 2, 1)))
                batch = Batch(np.zeros(self.dim, np.float32), episodes, rollouts)
                rows = estimator.prepare(problem, batch, {})
                good = pair_of(problem, episodes, rollouts, 1)
                found[iteration, j] = estimator.terms(problem, good, rows.row(1), batch.theta)["x"][j]
        means = found.mean(axis=1)
        error = float(means.std() / np.sqrt(self.draws))
        return (float(means.mean()) - 1) / error, error


def test_a_single_good_gcmc_pair_is_unbiased() -> None:
    z, error = SingleGcmcPair().z(Es(shaping="none"))
    assert error < 0.07 / 10
    assert abs(z) < 4


def test_subtracting_a_gcmc_pairs_own_mean_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def own_mean(returns: Array, how: Shaping) -> tuple[Array, float, Array]:
        fitness, scale, good = returns_module.shaped_fitness(returns, how)
        pair = fitness.reshape(-1, 2)
        return (pair - pair.mean(axis=1, keepdims=True)).reshape(-1), scale, good

    monkeypatch.setattr(score_module, "shaped_fitness", own_mean)
    z, _ = SingleGcmcPair().z(Es(shaping="none"))
    assert z < -8


@pytest.mark.parametrize(
    ("estimator", "kind"),
    [
        *((Es(shaping="none"), kind) for kind in ("orthogonal", "gcmc", "qmc")),
        (control_variate(0.9), "qmc"),
        *(pytest.param(control_variate(0.9), kind, marks=pytest.mark.slow) for kind in ("orthogonal", "gcmc")),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_the_logged_variance_is_that_over_batches(kind: str, estimator: Es | ControlVariate) -> None:
    """`variance/method` of 600 batches of 4 pairs against the variance of their gradients, for every kind.

    Power: a variance over 600 batches has a relative error of about sqrt(2/600) = 6% per coordinate (and as much again
    for the mean of the logged ones), so the interval below is 4 of them; the spread of a Halton batch's pairs is 50
    times too small or more.
    """
    data = collector(kind, pairs=4)
    state, gradients, logged = estimator.init(data.problem), [], []
    for iteration in range(600):
        estimated = data.estimate(estimator, data.batch(THETA, iteration), state)
        state = estimated.state
        gradients.append(estimated.gradient)
        logged.append(estimated.metrics["variance/method"])
    spread = np.var(gradients, axis=0, ddof=1).sum()
    assert np.nanmean(logged) == pytest.approx(spread, rel=0.3)
    assert np.isnan(logged).sum() <= 1  # there is no last batch before the first
