"""The record of a finished run: its final policy and the one it started from, on fresh episodes."""

from __future__ import annotations

import dataclasses

from quell.api import Result, TrainedPolicy, evaluate
from quell.keys import Purpose, generator
from quell.runs.record import Record, thin, variance_ratio
from quell.runs.versions import versions
from quell.training.methods import make_policy, make_task


def record_of(result: Result, episodes: int, label: str = "") -> Record:
    """Play `episodes` with sampled and with mean actions, and as many with the untrained policy."""
    made_with = versions()
    return Record(
        config=result.config,
        versions={"python": made_with["python"], "packages": made_with["packages"]},
        final={"sampled": _returns(result, episodes), "mean_action": _returns(result, episodes, mean_action=True)},
        untrained=_returns(untrained(result), episodes),
        curve=thin(result.history),
        label=label,
        variance=variance_ratio(result.history),
    )


def untrained(result: Result) -> Result:
    """The run's policy as it was before the first iteration."""
    policy = make_policy(result.config, make_task(result.config))
    theta = policy.init(generator(result.config.seed, Purpose.INIT))
    return dataclasses.replace(
        result, iteration=0, steps=0, policy=TrainedPolicy(policy, theta, obs_stats=None), history=[]
    )


def _returns(result: Result, episodes: int, *, mean_action: bool = False) -> list[float]:
    returns = evaluate(result, episodes=episodes, mean_action=mean_action, workers=1).returns
    return [float(f"{value:.6g}") for value in returns]
