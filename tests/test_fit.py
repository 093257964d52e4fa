"""Strategies that cannot be used with one another: one check, wherever they are put together."""

from __future__ import annotations

from typing import Any

import pytest

import quell
from quell import registry
from quell.errors import UsageError
from quell.estimate.actor_critic import ActorCritic
from quell.estimate.es import Es
from quell.estimate.policy_gradient import PolicyGradient
from quell.fit import check_fit
from quell.perturb import Unperturbed
from quell.perturb.gaussian import Gaussian
from quell.policy import DeterministicPolicy, GaussianPolicy
from quell.training.methods import make_config
from quell.update.first_order import Adam
from quell.update.natural import Natural

FITTING: dict[str, Any] = {
    "estimator": PolicyGradient(),
    "directions": Unperturbed(),
    "policy": GaussianPolicy(),
    "step": Adam(),
}
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"directions": Gaussian()}, "policy-gradient does not take perturbations"),
    ({"estimator": Es()}, "es needs perturbations"),
    ({"policy": DeterministicPolicy()}, "needs a stochastic policy"),
    ({"estimator": Es(), "directions": Gaussian(nats=0.01)}, "need the metric of a step"),
    ({"estimator": ActorCritic(line_search=True)}, "`line_search=True` is not read with step adam"),
    (
        {"estimator": Es(), "directions": Gaussian(), "policy": DeterministicPolicy(), "step": Natural()},
        "`step='natural'` measures the divergence",
    ),
]


@pytest.mark.parametrize(("changes", "message"), WRONG, ids=lambda value: value if isinstance(value, str) else "")
def test_strategies_that_do_not_fit_are_refused(changes: dict[str, Any], message: str) -> None:
    check_fit(**FITTING)
    with pytest.raises(UsageError, match=message):
        check_fit(**FITTING | changes)
    with pytest.raises(UsageError, match=message):
        make_config("hopper", "pg", overrides=FITTING | changes).validate()


def test_a_measurement_refuses_the_same(tmp_path: Any) -> None:
    with pytest.raises(UsageError, match=r"^pg needs a stochastic policy"):
        quell.variance("lqr-302", methods="pg", settings={"policy": "deterministic", "horizon": 5}, progress=False)


def test_strategies_that_are_elsewhere_are_not_looked_at() -> None:
    check_fit(**FITTING | {"estimator": registry.Elsewhere("estimator", "mine", {})})
