"""A method's name follows from the strategies, and presets do not change these."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import quell.tasks
from quell.config import Config, Preset, flatten
from quell.estimate.control_variate import ControlVariate
from quell.presets import METHODS
from quell.registry import KINDS, Elsewhere
from quell.training.methods import make_config

PRESETS: tuple[Preset, ...] = ("paper", "tuned")


@pytest.mark.parametrize("preset", ["paper", "tuned"])
@pytest.mark.parametrize("task", ["swimmer", "gym:CartPole-v1", "dm-quadruped-walk", "lqr"])
def test_a_method_is_called_by_its_name(task: str, preset: Preset) -> None:
    """Under both presets and on every kind of task."""
    configs = {method: make_config(task, method, preset) for method in METHODS}
    assert {method: config.method for method, config in configs.items()} == {method: method for method in METHODS}
    assert make_config(task, "ppo-paper+m+s", preset).method == "ppo-paper+s+m"


@pytest.mark.parametrize("method", METHODS)
def test_a_preset_chooses_numbers_only(method: str) -> None:
    """The same strategies, at every depth, under both presets and on every task."""
    for task in (*quell.tasks.names(), "gym:CartPole-v1", "gym:Pendulum-v1"):
        paper, tuned = (_strategies(make_config(task, method, preset)) for preset in PRESETS)
        assert paper == tuned, task
        if not quell.tasks.get(task).discrete:
            assert paper == _strategies(make_config("swimmer", method)), task


def _strategies(config: Config) -> dict[str, Any]:
    return {name: value for name, value in flatten(config).items() if name.rpartition(".")[2] in KINDS}


@pytest.mark.parametrize(
    ("method", "exchanged", "name"),
    [
        ("es", {"estimator": "policy-gradient"}, "pg"),
        ("es", {"step": "natural"}, "custom (es, natural)"),
        ("es", {"policy": "deterministic"}, "det"),
        ("es", {"directions": "orthogonal"}, "ortho"),
        ("es", {"lr": 0.1, "pairs": 3}, "es"),
        ("natural-cv", {"estimator": "es", "step": "adam"}, "es"),
        ("natural-cv", {"step": "adam"}, "custom (control-variate, adam)"),
        ("natural-cv", {"estimator": ControlVariate(), "step": "adam"}, "cv"),
        ("cv", {"coefficients": "moments"}, "custom (control-variate, adam)"),
        ("trpo", {"line_search": False}, "custom (actor-critic, natural)"),
        ("ppo-paper", {"normalise_obs": True}, "ppo-paper+s"),
        ("pg", {"normalise_obs": True}, "pg"),
        ("natural-cv", {"directions": "orthogonal"}, "custom (control-variate, orthogonal, natural)"),
        ("ortho", {"directions": "gaussian"}, "es"),
        ("det", {"policy": "gaussian"}, "es"),
    ],
)
def test_a_method_with_an_exchanged_part_is_custom(method: str, exchanged: dict[str, Any], name: str) -> None:
    assert make_config("swimmer", method, overrides=exchanged).combination == name


def test_an_unknown_strategy_is_custom() -> None:
    """A record from elsewhere: a strategy that is not known here."""
    config = make_config("swimmer", "es")
    mine: Any = Elsewhere("estimator", "mine", {})
    custom = replace(config, estimator=mine)
    assert (custom.method, custom.combination) == ("custom", "custom (mine, adam)")
