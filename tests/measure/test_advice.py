"""Advice against a problem whose law is exact, and what is said of it."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quell.cli import main
from quell.errors import UsageError
from quell.measure.advice import Advice, Beside, _flags, _traces, advise, planned
from quell.policy.fisher import Metric, factors
from quell.policy.network import Policy
from quell.stats import Interval
from quell.tasks.arrays import ArrayTask
from quell.tasks.base import Draws, State

STEPS = 5


@dataclass(frozen=True, kw_only=True)
class PureNoise(ArrayTask):
    """Rewards and observations are N(0, 1), whatever is done."""

    horizon: int = STEPS
    name = "pure-noise"
    summary = "nothing can be learned"
    obs_size, action_size = 3, 2

    def draw(self, rng: np.random.Generator) -> Draws:
        return rng.standard_normal((self.horizon + 1, 3)), rng.standard_normal(self.horizon)

    def initial(self, xp: Any, draws: Draws) -> tuple[dict[str, Any], Any]:
        return {"obs": draws[0], "rewards": draws[1], "time": 0}, draws[0][:, 0]

    def step(self, xp: Any, state: State, action: Any) -> tuple[dict[str, Any], Any, Any]:
        time = state["time"]
        return {**state, "time": time + 1}, state["obs"][:, time + 1], state["rewards"][:, time]


def test_the_law_where_advantages_are_noise(in_process: None) -> None:
    """d = (3 + 1) 2 + 2 = 10; c = (T + 1) / 2 = 3 for a critic that knows that nothing can be foreseen. One that learns
    noise by heart has more, most where states are large, which the law does not know. 100 iterations tell a ratio of
    variances to 20%; a tenth of the divergence makes ES ten times as noisy."""
    settings: dict[str, Any] = {"policy.hidden": (), "normalise_obs": False, "shared_reset": False}
    far, near = (
        advise(PureNoise(), pairs=400, warmup=80, nats=nats, settings=settings, progress=False) for nats in (1.0, 0.1)
    )
    assert far.parameters == 10
    assert far.felt == pytest.approx(10, rel=0.02)
    for found in (far, near):
        full = found.beside[0]
        assert 2.5 < full.c < 9
        assert full.law == pytest.approx(10 / (2 * found.nats * full.c))
        assert full.predicted == pytest.approx(full.law, rel=0.1)
        assert 0.4 < full.measured.value / full.predicted < 1.2
        assert full.measured.low < full.measured.value < full.measured.high
    assert near.beside[0].measured.value / far.beside[0].measured.value == pytest.approx(10, rel=0.4)


def test_traces_are_powers_of_d_where_nothing_is_damped() -> None:
    policy = Policy(3, 2, hidden=(), init_std=0.5, learn_std=False)
    theta, states = (
        policy.init(np.random.default_rng(0)).astype(float),
        np.random.default_rng(1).standard_normal((99, 3)),
    )
    metric = replace(Metric.of(policy, factors(policy)(theta, states)), damping=0.0)
    spectrum = metric.spectrum()
    d, felt, shaped, plain = _traces(metric, 0.0)
    assert (d, felt, shaped) == (8, pytest.approx(8), pytest.approx(64))
    assert plain == pytest.approx(spectrum.sum() * (1 / spectrum).sum())


def advice(ratio: float, bias: float = 0.0, near: float = 1.0) -> Advice:
    """Two policy gradients: ES has `ratio` and `near` times their noise, the second has a bias."""
    first = Beside(1.0, 1.0, 300.0, 0.1, 0.1, Interval(ratio, ratio / 2, 2 * ratio), 0.0)
    second = Beside(0.995, 0.97, 3.0, 10.0, 10.0, Interval(near, near / 2, 2 * near), bias)
    return Advice("halfcheetah", "untrained", 1, 1000.0, 114, 105.0, 20.0, 1.0, (first, second), 9.0)


def test_what_follows_from_the_numbers() -> None:
    assert (advice(0.01, near=0.02).verdict, advice(0.01, near=1.0).verdict) == ("es", "both")
    assert advice(0.01, near=0.02).settings == "--method es"
    assert advice(0.01, near=50.0).verdict == "policy gradient"
    assert advice(0.01, near=50.0).settings == "--method natural-cv --gamma 0.995 --trace 0.97"
    assert advice(0.01, near=1.0).settings.startswith("--method mixed-cv --gamma")
    biased = advice(0.5, near=50.0, bias=1e3)  # then it is worse than the one without a discount
    assert biased.best.gamma == 1
    assert biased.best.share == pytest.approx(1 / 1.5)
    said = str(advice(0.01, near=50.0))
    assert "The policy gradient suits this task" in said
    assert "share of 2%" in said
    assert max(map(len, said.splitlines())) <= 120


SETTINGS: dict[str, Any] = {"delay": 1000, "policy.hidden": (), "policy.init_std": 0.15, "normalise_obs": False}


@pytest.mark.parametrize("near", [0.02, 1.0, 50.0])
def test_what_it_says_can_be_typed(near: float, capsys: pytest.CaptureFixture[str]) -> None:
    found = replace(advice(0.01, near=near), asked=_flags(SETTINGS))
    (line,) = (line.split() for line in str(found).splitlines() if line.startswith("  quell train"))
    assert main([*line[1:], "--show"]) == 0
    shown = capsys.readouterr().out
    for words in ("--delay 1000", "--policy.init-std 0.15"):
        assert words in " ".join(line)
    assert "0.15" in shown
    assert "1000" in shown


def test_it_takes_no_more_steps_than_it_may() -> None:
    """Half of 120 + 40 pairs of 1,000 steps are 160,000 steps; at least 6 iterations are measured."""
    assert planned(1000, 120, 40, 160_000) == (15, 5)
    assert planned(1000, 120, 40, 10**9) == (30, 10)
    assert planned(1000, 120, 40, 1) == (6, 1)
    assert planned(1000, 8, 4, 1) == (2, 1)


def test_the_command_says_it_and_writes_it_down(
    tmp_path: Path, in_process: None, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "advice.json"
    few = ["--pairs", "8", "--warmup", "4", "--settings", "horizon", "40", "delay", "0", "policy.hidden", "[]"]
    assert main(["advise", "swimmer", *few, "--json", str(file)]) == 0
    out = capsys.readouterr().out
    assert "rewards paid at the end" in out
    assert "quell train swimmer" in out
    assert json.loads(file.read_text())["parameters"] == 18
    assert main(["advise"]) == 2
    assert main(["advise", "swimmer", "--nats", "0"]) == 2


def test_a_policy_without_a_gradient_is_refused() -> None:
    with pytest.raises(UsageError, match="stochastic policy"):
        advise("swimmer", settings={"policy": "deterministic", "step": "adam"}, progress=False)
