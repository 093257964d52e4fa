"""Where gradients are measured: theta of an untrained policy or of a run, and the settings around it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quell.config import Config, Preset
from quell.config import replace as change
from quell.errors import UsageError
from quell.keys import Purpose, generator
from quell.policy import Policy
from quell.policy.normalise import ObsStats
from quell.tasks.base import Task
from quell.training.methods import make_config, make_policy, make_task

Array = NDArray[Any]


@dataclass(frozen=True)
class Point:
    """A task, a policy's parameters, and the settings of the iterations to be repeated there."""

    config: Config
    task: Task
    policy: Policy
    theta: Array
    obs_stats: ObsStats | None
    where: str

    def with_settings(self, settings: Mapping[str, Any]) -> Point:
        """The same theta under other settings; `policy.init_std` sets the action noise of this theta."""
        config = change(self.config, settings).validate()
        task = make_task(config)
        policy = make_policy(config, task)
        if policy.layout != self.policy.layout:
            raise UsageError(f"these settings change the parameters, of which {self.where} has {len(self.theta)}")
        theta = self._with_std(config.policy.init_std) if "policy.init_std" in settings else self.theta
        return replace(self, config=config, task=task, policy=policy, theta=theta)

    def _with_std(self, std: float) -> Array:
        theta = self.theta.copy()
        if "log_std" in self.policy.layout:
            theta[self.policy.layout["log_std"][0]] = np.log(std)
        return theta


def find_point(task: str, at: str, *, preset: Preset, seed: int, settings: Mapping[str, Any]) -> Point:
    """`at` is "init", a run folder, or RUN@ITERATION (the newest checkpoint up to it)."""
    if at == "init":
        config = change(make_config(task, "es", preset, {"seed": seed}), settings).validate()
        found = make_task(config)
        policy = make_policy(config, found)
        theta = policy.init(generator(seed, Purpose.INIT))
        return Point(config, found, policy, theta, ObsStats.empty(found.obs_size) if config.normalise_obs else None, at)

    from quell.api import load

    path, _, iteration = at.partition("@")
    if iteration and not iteration.isdigit():
        raise UsageError(f"--at RUN@ITERATION needs a whole number after the @, got {iteration!r}")
    result = load(Path(path), at=int(iteration) if iteration else None)
    if result.config.task != task:
        raise UsageError(f"{path!r} was trained on {result.config.task!r}, not on {task!r}")
    config = change(result.config, {"seed": seed + 1_000_003})  # no stream that training used
    trained = result.policy
    where = f"{result.config.method} after {result.steps:,} steps"
    point = Point(config, make_task(config), trained.policy, trained.theta, trained.obs_stats, where)
    return point.with_settings(settings) if settings else point
