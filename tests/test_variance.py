"""The variance laboratory: its statistics, its measurements on a small task, and the two commands."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from quell.lab import session as session_module
from quell.lab.fisher import STATES, in_metric
from quell.lab.gain import gains, step
from quell.lab.measure import Measurement, measure
from quell.lab.points import Point, find_point
from quell.lab.rows import Row, find_row, find_rows, gamma_rows
from quell.lab.summary import gram, ratio_interval, resamples, summarise, variance, variances

import quell.estimate.control_variate as cv_module
from quell import cli
from quell.errors import UsageError
from quell.estimate.policy_gradient import Advantages, Baseline
from quell.policy import Policy
from quell.types import Batch

SETTINGS = {
    **{"horizon": 5, "policy.hidden": (), "policy.init_std": 0.5, "policy.output_scale": 0.1, "sigma": 0.05},
    "task_settings": {"noise": 0.3, "x0_std": 0.3},  # little noise: light tails, so that 400 pairs say something
}


def point(**settings: object) -> Point:
    return find_point("lqr-302", "init", preset="paper", seed=0, settings={**SETTINGS, **settings})


def run(rows: Sequence[Row], iterations: int = 60, warmup: int = 20, workers: int = 1) -> Measurement:
    return measure(point(), rows, iterations=iterations, warmup=warmup, workers=workers)


class TestStatistics:
    def test_variance_of_known_vectors(self) -> None:
        g = np.random.default_rng(0).standard_normal((30, 7)) * np.arange(1, 8) + 5
        assert variance(gram(g)) == pytest.approx(g.var(axis=0, ddof=1).sum())

    def test_gram_in_slices(self, monkeypatch: pytest.MonkeyPatch) -> None:
        g = np.random.default_rng(0).standard_normal((6, 50))
        monkeypatch.setattr("quell.lab.summary.COLUMNS", 7)
        assert gram(g) == pytest.approx(g @ g.T)

    def test_intervals_hold_the_truth(self) -> None:
        """60 samples of 40 gradients, true ratio 0.25: 95% intervals should hold it about 57 times."""
        rng, hits = np.random.default_rng(1), 0
        for _ in range(60):
            plain = rng.standard_normal((40, 20)) + 1
            own = 0.5 * plain + 0.5  # on the same episodes
            other = 0.5 * rng.standard_normal((40, 20))
            weights, separate = resamples(40, rng), resamples(40, rng)
            exact = ratio_interval(gram(own), weights, gram(plain), weights)
            assert exact.low == pytest.approx(0.25)
            assert exact.high == pytest.approx(0.25)
            found = ratio_interval(gram(other), separate, gram(plain), weights)
            hits += found.low <= 0.25 <= found.high
        assert hits >= 51

    def test_resampled_variance_is_unbiased(self) -> None:
        rng = np.random.default_rng(2)
        matrix = gram(rng.standard_normal((15, 30)))
        assert variances(matrix, resamples(15, rng)).mean() == pytest.approx(variance(matrix), rel=0.03)


@pytest.fixture(scope="module")
def found() -> Measurement:
    return run(find_rows(["ortho", "gcmc", "cv-paper", "cv", "auto", "crn", "auto-crn"]), iterations=80)


class TestMeasurement:
    def test_every_estimator_is_unbiased_and_cv_helps(self, found: Measurement) -> None:
        by_name = {s.name: s for s in summarise(found, {}, np.random.default_rng(0))}
        assert next(iter(by_name)) == "es"
        for s in by_name.values():
            assert abs(s.bias.worst) < 4
            assert s.bias.p > 1e-4
            assert s.ratio.low <= s.ratio.value <= s.ratio.high
            assert sum(s.share.values()) == pytest.approx(1)
        assert by_name["es"].ratio.value == 1
        assert by_name["auto"].ratio.high < 0.9
        assert by_name["auto"].cosine.value > by_name["es"].cosine.value

    def test_the_variance_is_that_of_the_pairs(self, found: Measurement) -> None:
        """Another seed's iterations, each with its own estimate of V[g] from within: they agree to 25%."""
        es = next(s for s in summarise(found, {}, np.random.default_rng(0)) if s.name == "es")
        other = measure(
            find_point("lqr-302", "init", preset="paper", seed=0, settings={**SETTINGS, "pairs": 1}),
            find_rows([]),
            iterations=400,
            warmup=0,
            workers=1,
        )
        one = summarise(other, {}, np.random.default_rng(0))[0]
        assert es.variance.value == pytest.approx(one.variance.value / 5, rel=0.25)

    def test_any_number_of_workers_and_mapped_storage(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rows = find_rows(["cv", "auto"])
        first = run(rows, iterations=3, warmup=2, workers=1)
        monkeypatch.setattr(session_module, "IN_MEMORY", 0)
        second = run(rows, iterations=3, warmup=2, workers=2)
        assert isinstance(second.rows[0].gradients, np.memmap)
        for a, b in zip(first.rows, second.rows, strict=True):
            assert (a.gradients == b.gradients).all()

    def test_gain(self, found: Measurement) -> None:
        states = np.random.default_rng(0).standard_normal((20, 3)).astype(np.float32)
        worth = gains(found, ["es", "auto"], [("raw", 0.3), ("kl", 0.01)], states, estimates=10, episodes=4, workers=1)
        assert [(g.name, g.kind) for g in worth] == [("es", "raw"), ("auto", "raw"), ("es", "kl"), ("auto", "kl")]
        assert worth[0].over_es.value == 0
        assert all(g.gain.low < g.gain.value < g.gain.high for g in worth)


def test_a_biased_estimator_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reward-to-go as eq. (5) prints it, without its discount: the laboratory must call it biased."""
    sound = cv_module.advantages

    def printed(data: Batch, gammas: Sequence[float], baseline: Baseline) -> Advantages:
        from dataclasses import replace

        return replace(sound(data, gammas, baseline), values=sound(data, [1.0] * len(gammas), baseline).values)

    settings = {"horizon": 30, "policy.hidden": (), "policy.init_std": 0.5, "sigma": 0.3, "pairs": 50}
    where = find_point("inverted-pendulum", "init", preset="tuned", seed=0, settings=settings)
    rows = [find_row("es"), Row("re gamma=0.8", "cv", {**find_row("re").settings, "cv.gamma": 0.8})]
    for broken in (False, True):
        if broken:
            monkeypatch.setattr(cv_module, "advantages", printed)
        repeats = measure(where, rows, iterations=40, warmup=10, workers=1)
        biased = summarise(repeats, {}, np.random.default_rng(0))[1].bias
        assert (abs(biased.along) > 4) == broken
        assert (abs(biased.worst) > 4) == broken
        assert (biased.p < 1e-4) == broken


class TestFisher:
    @pytest.mark.parametrize("kind", ["gaussian", "categorical"])
    def test_against_the_divergence(self, kind: str) -> None:
        """|A delta|^2 = 2 KL for a small delta."""
        from quell.scores import kl

        policy = Policy(3, 4, kind, (8,), "tanh")  # type: ignore[arg-type]
        rng = np.random.default_rng(0)
        theta = rng.standard_normal(policy.dim) * 0.3
        states = rng.standard_normal((50, 3)).astype(np.float32)
        delta = rng.standard_normal(policy.dim) * 0.01
        moved, old = (theta + delta).astype(np.float32), theta.astype(np.float32)
        length = np.square(in_metric(policy, old, states, delta[None])).sum()
        assert length == pytest.approx(2 * float(kl(policy, moved, old, states).mean()), rel=0.05)  # type: ignore[arg-type]

    def test_steps_have_the_size_asked_for(self) -> None:
        from quell.scores import kl

        where, rng = point(), np.random.default_rng(1)
        g = rng.standard_normal(where.policy.dim).astype(np.float32)
        states = rng.standard_normal((STATES, 3)).astype(np.float32)
        assert np.linalg.norm(step("raw", 0.4, g, where, states)) == pytest.approx(0.4, rel=1e-4)
        assert np.abs(step("sign", 0.01, g, where, states)) == pytest.approx(np.full(len(g), 0.01))
        moved = where.theta + step("kl", 1e-4, g, where, states)
        assert float(kl(where.policy, moved, where.theta, states).mean()) == pytest.approx(1e-4, rel=0.1)  # type: ignore[arg-type]
        assert (step("kl", 0.1, 0 * g, where, states) == 0).all()


def test_names_of_rows() -> None:
    assert find_row("ortho") == Row("ortho", "es", {"directions": "orthogonal"})
    assert find_row("auto-ortho-crn").sampling == ("orthogonal", True)
    assert find_row("cv-layer-gcmc").settings["cv.eta_per"] == "layer"
    assert [row.name for row in find_rows(["auto", " es", "auto"])] == ["es", "auto"]
    assert gamma_rows([0.9])[0].settings["cv.gamma"] == 0.9
    for bad in ("ess", "auto-orto"):
        with pytest.raises(UsageError, match="known"):
            find_row(bad)


@pytest.mark.parametrize(
    "words",
    [
        ["lqr-302", "--sweep", "gamma", "0.9"],
        ["lqr-302", "--sweep", "horizon", "1", "2"],
        ["lqr-302", "--sweep", "gamma", "0.9", "1.5"],
        ["lqr-302", "--gain", "raw"],
        ["lqr-302", "--gain", "raw:-1"],
        ["lqr-302", "--methods", "es,nonsense"],
        ["lqr-302", "--pairs", "1"],
        ["lqr-302", "--at", "nowhere"],
        ["lqr-302", "--settings", "sigma", "-1"],
        ["no-such-task"],
    ],
)
def test_bad_requests_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["variance", *words]) == 2
    assert "error" in capsys.readouterr().err


SMALL = ["lqr-302", "--settings", "horizon", "6", "policy.hidden", "[]", "--pairs", "20", "--warmup", "10"]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*SMALL, "--workers", "1", "--methods", "cv,auto", "--json", str(tmp_path / "a" / "v.json")]
    words += ["--gain", "sign:0.01", "--gain-estimates", "3", "--figure", str(tmp_path / "v.png")]
    assert cli.main(["variance", *words]) == 0
    out = capsys.readouterr().out
    assert "cv-paper" in out  # --gain needs it, so it is measured too
    values = json.loads((tmp_path / "a" / "v.json").read_text())
    assert [row["name"] for row in values["rows"]] == ["es", "cv", "auto", "cv-paper"]
    assert len(values["gains"]) == 3
    assert (tmp_path / "v.png").stat().st_size > 10_000


def test_sweeps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        *SMALL,
        "--workers",
        "1",
        "--methods",
        "cv",
        "--sweep",
        "std",
        "0.5",
        "1",
        "--figure",
        str(tmp_path / "s.png"),
    ]
    assert cli.main(["variance", *words]) == 0
    out = capsys.readouterr().out
    assert "action std 0.5" in out
    assert "std=1" in out
    assert (tmp_path / "s.png").exists()
    assert cli.main(["variance", *SMALL, "--methods", "", "--sweep", "gamma", "0.9", "1"]) == 0
    assert "cv gamma=0.9" in capsys.readouterr().out


def test_theory_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["theory", "--d", "10", "--n", "3", "20", "--rho", "0.5", "2", "--simulate", "400"]
    assert cli.main([*words, "--json", str(tmp_path / "t.json"), "--figure", str(tmp_path / "t.png")]) == 0
    assert "worst z" in capsys.readouterr().out
    assert len(json.loads((tmp_path / "t.json").read_text())) == 4
    assert (tmp_path / "t.png").exists()
    for bad in (["--rho", "0"], ["--d", "0"], ["--simulate", "1"], ["--seed", "-1"]):
        assert cli.main(["theory", *bad]) == 2
