"""What a config trains is told by its strategies, whatever it is called."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from quell.config import Preset
from quell.registry import Elsewhere
from quell.training.methods import METHODS, make_config, trained


@pytest.mark.parametrize("preset", ["paper", "tuned"])
@pytest.mark.parametrize("task", ["swimmer", "gym:CartPole-v1", "dm-quadruped-walk", "lqr"])
def test_a_method_is_called_by_its_name(task: str, preset: Preset) -> None:
    """Under both presets and on every kind of task; but LQR's preset of cv is plain ES, and is called so."""
    names = {method: trained(make_config(task, method, preset)) for method in METHODS}
    fallen = {"cv": "es"} if (task, preset) == ("lqr", "tuned") else {}
    assert names == {**{method: method for method in METHODS}, **fallen}
    assert trained(make_config(task, "ppo+m+s", preset)) == "ppo+m+s"


@pytest.mark.parametrize(
    ("method", "exchanged", "name"),
    [
        ("es", {"estimator": "policy-gradient"}, "custom (policy-gradient, adam)"),
        ("es", {"step": "natural"}, "custom (es, natural)"),
        ("es", {"policy": "deterministic"}, "custom (es, adam, deterministic)"),
        ("es", {"directions": "orthogonal"}, "custom (es, orthogonal, adam)"),
        ("es", {"lr": 0.1, "pairs": 3}, "es"),
        ("cv", {"estimator": "es", "step": "adam"}, "es"),
        ("cv", {"estimator": "control-variate", "step": "adam"}, "cv"),
        ("cv", {"directions": "orthogonal"}, "custom (control-variate, orthogonal, natural)"),
        ("ortho", {"directions": "gaussian"}, "es"),
        ("det", {"policy": "gaussian"}, "es"),
    ],
)
def test_what_was_exchanged_is_no_longer_the_method(method: str, exchanged: dict[str, Any], name: str) -> None:
    assert trained(make_config("swimmer", method, overrides=exchanged)) == name


def test_what_is_not_known_is_custom() -> None:
    """A record from elsewhere: a strategy of somebody's own, or a method that there is not."""
    config = make_config("swimmer", "es")
    mine: Any = Elsewhere("estimator", "mine", {})
    assert trained(replace(config, estimator=mine)) == "custom (mine, adam)"
    assert trained(replace(config, method="nobody")) == "es"
    assert trained(replace(make_config("swimmer", "cv"), method="nobody")) == "custom (control-variate, natural)"
