"""Where gradients are measured: theta of an untrained policy or of a run, and the settings around it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from quell import registry
from quell.api import Result, load
from quell.config import Config, Preset, flatten, full_name, replace
from quell.errors import UsageError
from quell.estimate import Problem
from quell.estimate.es import Es
from quell.keys import Purpose, generator
from quell.perturb import Kind
from quell.perturb.gaussian import Gaussian
from quell.policy.network import Policy
from quell.tasks.base import Task
from quell.training.methods import make_config, make_policy, make_task
from quell.types import Array, ObsStats


@dataclass(frozen=True)
class Point:
    """A task, a policy's parameters, and the settings of the iterations to be repeated there.

    The config is one of plain ES, whatever trained theta: rows bring their own estimators and directions.
    """

    config: Config
    task: Task
    policy: Policy
    theta: Array
    obs_stats: ObsStats | None
    where: str

    @property
    def sigma(self) -> float:
        """The perturbation of ES, and of every row that does not bring its own."""
        return float(self.config.directions.sigma)

    @property
    def action_std(self) -> float:
        return float(self.policy.std(self.theta).mean())

    def problem(self, directions: Kind) -> Problem:
        """What estimators are used on; training's own streams are others, so a run's seed may be used again."""
        return Problem(self.policy, directions, self.config.seed)


def find_point(
    task: str | Task,
    at: str,
    *,
    preset: Preset,
    seed: int,
    settings: Mapping[str, Any],
    trust_files: bool = False,
    method: str = "es",
) -> Point:
    """`at` is "init" (with settings of `method`), a run folder, or RUN@ITERATION (the newest checkpoint up to it)."""
    name, given = (task, None) if isinstance(task, str) else (task.name, task)
    if at != "init":
        return _trained(name, given, at, seed, settings, trust_files=trust_files)
    config = make_config(name, method, preset, {"seed": seed, **settings}, given).validate()
    config = config if method == "es" else _plain(config)
    played = make_task(config, given)
    policy = make_policy(config, played)
    theta = policy.init(generator(seed, Purpose.INIT))
    return Point(config, played, policy, theta, ObsStats.empty(played.obs_size) if config.normalise_obs else None, at)


def _trained(
    name: str, given: Task | None, at: str, seed: int, settings: Mapping[str, Any], *, trust_files: bool
) -> Point:
    path, _, iteration = at.partition("@")
    if iteration and not iteration.isdigit():
        raise UsageError(f"`at={at!r}` needs a whole number after the @")
    result = load(Path(path), at=int(iteration) if iteration else None, env=given, trust_files=trust_files)
    if result.config.task != name:
        raise UsageError(f"{path!r} was trained on {result.config.task!r}, not on {name!r}")
    config = replace(_plain(result.config), {"seed": seed, "pairs": _pairs(result), **settings}).validate()
    played = make_task(config, given)
    policy, trained = make_policy(config, played), result.policy
    where = f"{result.config.combination} after {result.steps:,} steps"
    if policy.layout != trained.policy.layout:
        raise UsageError(f"these settings change the parameters, of which {where} has {len(trained.theta)}")
    theta, known = trained.theta, flatten(config)
    if any(full_name(setting, known) == "policy.init_std" for setting in settings) and "log_std" in policy.layout:
        theta = theta.copy()
        theta[policy.layout["log_std"][0]] = np.log(policy.init_std)  # the action noise of this theta
    return Point(config, played, policy, theta, trained.obs_stats, where)


def _pairs(result: Result) -> int:
    """Pairs of the run's last iteration, of which there may be as many as make up its `batch_steps`."""
    if not result.history:
        return result.config.pairs
    before, last = ([{"steps": 0}, *result.history])[-2:]
    episodes: int = round((last["steps"] - before["steps"]) / last["episode_length"])
    return episodes // 2


def _plain(config: Config) -> Config:
    """A run's config with plain ES in place of what trained it, at the run's sigma if it had one."""
    sigma = registry.settings_of(config.directions).get("sigma") or Gaussian().sigma
    return replace(config, {"estimator": Es(shaping="none"), "directions": Gaussian(sigma=sigma)})
