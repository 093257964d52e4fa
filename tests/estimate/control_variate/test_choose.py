"""Value functions, common random numbers and the chooser: unbiased against the closed form, and safe."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from conftest import Collector, tree_sum
from linear_gaussian import LinearGaussian, smoothed_gradient

import quell
from quell import cli
from quell.adapt import FixedEta, FixedGamma
from quell.choose import VARIANTS, Chooser, least_squares, second_moment
from quell.choose_policy import PolicyChooser
from quell.config import Config, replace
from quell.errors import UsageError
from quell.estimate import estimate
from quell.estimate.auto import AutoControlVariate
from quell.estimate.control_variate import ControlVariate
from quell.estimate.score import Score
from quell.estimate.value import ValueFunction
from quell.methods import make_estimator
from quell.policy import Policy
from quell.reduce import blocks
from quell.types import Batch, Episodes

POLICY = Policy(1, 2, hidden=(), init_std=0.7)
THETA = np.array([0.1, -0.2, 0.15, 0.1, -0.4, -0.2], np.float32)
SIGMA, PAIRS = 0.3, 4000
LAYERS = (slice(0, 2), slice(2, 4), slice(4, 6))
EXACT = smoothed_gradient(THETA, SIGMA, 1.0, 6)


def batch(iteration: int = 0, *, pairs: int = PAIRS, kind: str = "gaussian", shared_noise: bool = False) -> Batch:
    collector = Collector(LinearGaussian(), POLICY, pairs=pairs, kind=kind, seed=3)
    episodes = Episodes.of_pairs(iteration, pairs, SIGMA, record=True, shared_reset=True, shared_noise=shared_noise)
    rollouts = collector.rollout(THETA, episodes)
    return Batch(THETA, SIGMA, iteration, collector.directions, rollouts, shared_noise)


def auto(*kinds: str, discounts: tuple[float, ...] = (1.0, 0.8), shaping: str = "none") -> AutoControlVariate:
    values = tuple(ValueFunction(kind, 1, units=6) for kind in kinds)  # type: ignore[arg-type]
    total = len(discounts) + len(values)
    chooser = Chooser(6, LAYERS, total, ((0,), tuple(range(total))))
    return AutoControlVariate(POLICY, chooser, discounts, values, shaping)  # type: ignore[arg-type]


def z_of(total: np.ndarray, squares: np.ndarray, count: int, exact: np.ndarray | float) -> np.ndarray:
    mean = total / count
    error = np.sqrt((squares / count - mean**2) / count)
    assert 5 * error.max() < 0.35 * np.linalg.norm(EXACT), "too few pairs for this test to mean anything"
    return (mean - exact) / np.where(error > 0, error, 1)


def totals(estimator: AutoControlVariate | ControlVariate, data: Batch, state: dict[str, np.ndarray]) -> dict:
    prepared = estimator.prepare(data, state)
    return tree_sum(estimator.contribution(data, prepared, pairs, data.theta) for pairs in blocks(data.pairs))


@pytest.mark.parametrize(("kind", "shared_noise"), [("gaussian", False), ("gcmc", False), ("gaussian", True)])
def test_every_column_has_mean_zero(kind: str, shared_noise: bool) -> None:
    """Two discounts and both value functions, fitted on an earlier batch; X itself has the exact mean."""
    estimator = auto("linear", "network")
    state = estimate(estimator, batch(1, pairs=200, kind=kind), estimator.init()).state
    sums = totals(estimator, batch(kind=kind, shared_noise=shared_noise), state)
    truth = np.concatenate([EXACT[None], np.zeros((4, 6))])
    squares = np.stack([sums["cc"][k, k] for k in range(5)])
    assert np.abs(z_of(sums["c"], squares, PAIRS, truth)).max() < 4.5
    assert (squares[3:] > 0).all(), "the value functions predict nothing, so this tests nothing"


@pytest.mark.parametrize("kind", ["linear", "network"])
def test_value_baselines_against_the_closed_form(kind: str) -> None:
    value = ValueFunction(kind, 1, units=6)  # type: ignore[arg-type]
    estimator = ControlVariate(POLICY, FixedEta(6, -0.8), FixedGamma(0.9), "none", value)
    state = estimate(estimator, batch(1, pairs=100), estimator.init()).state
    sums = totals(estimator, batch(), state)
    squares = sums["xx"] - 1.6 * sums["xy"] + 0.64 * sums["yy"]
    assert np.abs(z_of(sums["x"] - 0.8 * sums["y"], squares, PAIRS, EXACT)).max() < 4.5


def test_a_value_function_finds_a_value_linear_in_its_features() -> None:
    """Reward-to-go 3 + 2 (1 - t/T) s exactly: the fit from one batch predicts another's."""
    rng, value = np.random.default_rng(0), ValueFunction("linear", 2, ridge=1e-9)

    def episodes() -> tuple[np.ndarray, np.ndarray]:
        obs = rng.uniform(-1, 1, (4, 50, 2))
        return obs, 3 + 2 * (1 - np.arange(50) / 50) * obs[:, :, 0]

    obs, togo = episodes()
    values, sums = value.apply(value.weights(value.init()), obs, togo[None], np.full(4, 50))
    assert (values == 0).all()
    state = value.update(value.init(), sums)
    obs, togo = episodes()
    values, _ = value.apply(value.weights(state), obs, togo[None], np.array([50, 50, 50, 20]))
    assert values[0, :3] == pytest.approx(togo[:3], abs=1e-4)
    assert (values[0, 3, 20:] == 0).all()


def test_a_partner_with_shared_noise_must_stay_out_of_the_baseline() -> None:
    """With common action noise the mean over all other members is biased, and the test above would show it."""
    data = batch(pairs=PAIRS, shared_noise=True)
    few = 2  # a single pair: the baseline is then the partner, or nothing

    def z(shared: bool) -> float:
        estimator = ControlVariate(POLICY, FixedEta(6), FixedGamma(1.0), "none", "leave-one-out")
        parts = []
        for start in range(0, 2 * PAIRS, few):
            rollouts = dataclasses.replace(data.rollouts, **_rows(data, slice(start, start + few)))
            part = Batch(THETA, SIGMA, 0, _Shifted(data.directions, start // 2), rollouts, shared)  # type: ignore[arg-type]
            found = estimator.contribution(part, estimator.prepare(part, {}), range(few // 2), THETA)
            parts.append(found["y"])
        means = np.array(parts)
        return float(np.abs(means.mean(axis=0) / (means.std(axis=0) / np.sqrt(len(means)))).max())

    assert z(shared=True) < 4.5
    assert z(shared=False) > 8


def _rows(data: Batch, rows: slice) -> dict[str, object]:
    paths = data.rollouts.trajectories
    assert paths is not None
    kept = {name: getattr(data.rollouts, name)[rows] for name in ("rewards", "steps", "terminated", "obs_sums")}
    return {**kept, "trajectories": dataclasses.replace(paths, obs=paths.obs[rows], actions=paths.actions[rows])}


@dataclasses.dataclass(frozen=True)
class _Shifted:
    """Directions of a part of a batch."""

    whole: object
    first: int
    symmetric: bool = True

    def pair(self, iteration: int, pair: int) -> tuple[np.ndarray, np.ndarray]:
        return self.whole.pair(iteration, self.first + pair)  # type: ignore[attr-defined]


def test_auto_is_unbiased_online_and_better_than_es() -> None:
    """600 batches of 4 pairs, learning all the while: the mean of the estimates against the closed form."""
    estimator = auto("linear")
    state = estimator.init()
    collector = Collector(LinearGaussian(), POLICY, pairs=4, seed=5)
    gradients, ratios = [], []
    for iteration in range(600):
        found = estimate(estimator, collector.batch(THETA, SIGMA, iteration), state)
        state = found.state
        gradients.append(found.gradient)
        ratios.append((found.metrics["variance/method"], found.metrics["variance/es"]))
    g = np.array(gradients, np.float64)
    error = g.std(axis=0) / np.sqrt(len(g))
    assert np.abs((g.mean(axis=0) - EXACT) / error).max() < 4.5
    method, plain = np.array(ratios[20:]).sum(axis=0)
    assert method < 0.7 * plain


class TestSafety:
    """A chooser fed columns that have nothing to do with X, or that turn bad, falls back to plain ES."""

    def run(self, scale: float, iterations: int, turn: int | None = None) -> list[float]:
        """Ratios of second moments per batch; until `turn` the column removes X almost entirely."""
        rng, dim = np.random.default_rng(1), 200
        chooser = Chooser(dim, (slice(0, 50), slice(50, dim)), 1, ((0,),))
        state, ratios = chooser.init(), []
        for iteration in range(iterations):
            x = rng.standard_normal((5, dim))
            helpful = turn is not None and iteration < turn
            y = x + 0.1 * rng.standard_normal((5, dim)) if helpful else scale * rng.standard_normal((5, dim))
            c = np.stack([x, y])
            cc = np.einsum("knd,lnd->kld", c, c)
            beta, _ = chooser.coefficients(state)
            ratios.append(float(second_moment(cc, beta).sum() / cc[0, 0].sum()))
            state = chooser.update(state, cc, 5.0, np.array([True]))
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


def test_the_chooser_finds_the_right_granularity() -> None:
    """Coefficients that differ between coordinates want the coordinate; equal ones a pooled estimate."""
    rng, dim = np.random.default_rng(2), 300
    for spread, wanted in ((1.0, "coordinate"), (0.0, "scalar")):
        chooser = Chooser(dim, (slice(0, dim),), 1, ((0,),))
        state = chooser.init()
        slope = 1 + spread * rng.standard_normal(dim)
        for _ in range(40):
            y = rng.standard_normal((5, dim))
            c = np.stack([slope * y + rng.standard_normal(y.shape), y])
            state = chooser.update(state, np.einsum("knd,lnd->kld", c, c), 5.0, np.array([True]))
        best = chooser.candidates[int(state["scores"][:, 0].argmin())]
        assert best.split()[1] == wanted or (wanted == "scalar" and best.split()[1] == "layer")
    assert len(chooser.candidates) == 1 + len(VARIANTS)


def test_auto_from_settings_and_bad_settings() -> None:
    config = replace(Config("lqr"), {"cv.eta": "auto", "cv.values": ("linear", "network")})
    estimator = make_estimator(config.validate(), POLICY)
    found = estimate(estimator, batch(pairs=3), estimator.init())
    assert found.metrics["auto/plain"] == 1  # nothing is known yet
    assert {name: a.dtype for name, a in found.state.items()} == dict.fromkeys(found.state, np.dtype(np.float64))
    for bad in ({"cv.discounts": ()}, {"cv.discounts": (1.0, 1.0)}, {"cv.discounts": (1.5,)}, {"cv.values": ("x",)}):
        with pytest.raises(UsageError):
            replace(Config("lqr"), bad).validate()


def test_preparing_needs_no_trajectories() -> None:
    """On a cluster they stay where they were made: the same gradient whether or not `prepare` could see them."""
    estimator = auto("linear", "network", shaping="normalise")
    state = estimate(estimator, batch(1, pairs=5), estimator.init()).state
    data = batch(2, pairs=5)
    bare = dataclasses.replace(data, rollouts=dataclasses.replace(data.rollouts, trajectories=None))
    for one in (estimator, ControlVariate(POLICY, FixedEta(6), FixedGamma(1.0), "normalise", estimator.values[0])):
        sums = one.contribution(data, one.prepare(bare, state), range(5), THETA)
        whole = one.contribution(data, one.prepare(data, state), range(5), THETA)
        assert all((sums[name] == whole[name]).all() for name in whole)


def test_training_with_auto_and_measuring_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Any number of workers, or a stop and a resume, give the same theta; the run can then be measured."""
    settings = {"horizon": 10, "eval_every": 0, "out": tmp_path, "progress": False, "cv": {"eta": "auto"}}
    whole = quell.train("lqr-302", steps=400, workers=1, name="whole", **settings)
    part = quell.train("lqr-302", steps=200, workers=2, name="part", **settings)
    resumed = quell.resume(part.path, steps=400, workers=2, progress=False)
    assert (whole.theta == resumed.theta).all()
    assert whole.history[-1]["auto/plain"] < 1

    words = ["variance", "lqr-302", "--methods", "auto", "--pairs", "20", "--warmup", "10", "--workers", "1"]
    assert cli.main([*words, "--at", str(whole.path)]) == 0
    assert "after 400 steps" in capsys.readouterr().out
    assert cli.main([*words, "--at", f"{whole.path}@0"]) == 0
    assert "after 0 steps" in capsys.readouterr().out
    assert cli.main([*words, "--at", str(whole.path), "--settings", "horizon", "5", "policy.init_std", "0.3"]) == 0
    assert "action std 0.3" in capsys.readouterr().out
    assert cli.main([*words, "--at", str(whole.path), "--settings", "policy.hidden", "[8]"]) == 2
    assert cli.main(["variance", "swimmer", "--at", str(whole.path)]) == 2
    assert cli.main([*words, "--at", f"{whole.path}@x"]) == 2


class TestPolicyMetric:
    """Coefficients chosen by the variance of the policy's change."""

    def test_layers_are_solved_jointly(self) -> None:
        """Two layers whose noises cancel each other in the policy: the joint problem, against plain least squares."""
        rng = np.random.default_rng(0)
        chooser = PolicyChooser(4, (slice(0, 2), slice(2, 4)), 1, ((0,),), decay=1.0)
        change = rng.standard_normal((3, 4))  # A: four parameters, three numbers that the policy shows
        state, seen = chooser.init(), []
        for _ in range(60):
            x = rng.standard_normal(4)
            y = np.array([1.0, 1.0, -0.5, -0.5]) * x + 0.3 * rng.standard_normal(4)
            moved = chooser.split(np.stack([x, y])) @ change.T
            seen.append(moved)
            state = chooser.update(state, moved @ moved.T, 1.0, np.array([True]))
        beta, used = chooser.coefficients(state)
        assert chooser.candidates[used[0]] == "0 layer"
        parts = np.array(seen)  # [pairs, x0 x1 y0 y1, 3]
        target = -(parts[:, 0] + parts[:, 1]).ravel()
        expected = np.linalg.lstsq(np.stack([parts[:, 2].ravel(), parts[:, 3].ravel()], 1), target, rcond=None)[0]
        assert beta[0, [0, 2]] == pytest.approx(expected, abs=0.01)

    def test_unbiased_online_and_safe(self) -> None:
        config = replace(Config("lqr"), {"cv.eta": "auto", "cv.metric": "policy", "shaping": "none"})
        estimator = make_estimator(config.validate(), POLICY)
        state, collector = estimator.init(), Collector(LinearGaussian(), POLICY, pairs=4, seed=6)
        gradients = []
        for iteration in range(500):
            found = estimate(estimator, collector.batch(THETA, SIGMA, iteration), state)
            state = found.state
            gradients.append(found.gradient)
        g = np.array(gradients, np.float64)
        error = g.std(axis=0) / np.sqrt(len(g))
        assert np.abs((g.mean(axis=0) - EXACT) / error).max() < 4.5
        plain = np.array([collector_es(collector, iteration) for iteration in range(500)])
        assert g[20:].var(axis=0).sum() < plain[20:].var(axis=0).sum()

    def test_useless_columns_are_dropped(self) -> None:
        rng = np.random.default_rng(3)
        chooser = PolicyChooser(30, (slice(0, 10), slice(10, 30)), 1, ((0,),))
        state, ratios = chooser.init(), []
        for _ in range(60):
            gram, total, plain = np.zeros((4, 4)), 0.0, 0.0
            beta, _ = chooser.coefficients(state)
            for _ in range(5):
                x, y = rng.standard_normal((2, 30))
                total, plain = total + np.square(x + beta[0] * y).sum(), plain + np.square(x).sum()
                moved = chooser.split(np.stack([x, y]))
                gram += moved @ moved.T
            ratios.append(total / plain)
            state = chooser.update(state, gram, 5.0, np.array([True]))
        assert np.mean(ratios) <= 1.05
        assert max(ratios[5:]) <= 1.1


def collector_es(collector: Collector, iteration: int) -> np.ndarray:
    return estimate(Score("none"), collector.batch(THETA, SIGMA, iteration), {}).gradient
