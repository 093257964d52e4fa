"""From a task, a method and a preset to a config, and from a config to what is trained."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from quell import registry
from quell.config import STRATEGIES, Config, Preset, flatten, full_name, replace
from quell.errors import UsageError, require
from quell.estimate import Problem
from quell.estimate.actor_critic import ActorCritic
from quell.fit import check_fit
from quell.limits import require_memory
from quell.perturb import Unperturbed
from quell.perturb.gaussian import Gaussian
from quell.policy.network import Policy
from quell.presets import METHODS, Method, default_method, layers, method_name
from quell.tasks.base import Task


@dataclass(frozen=True)
class Setting:
    """A setting's value, and where it comes from."""

    name: str
    value: Any
    source: str


def make_config(
    task: str,
    method: str | None = None,
    preset: Preset = "tuned",
    overrides: Mapping[str, Any] | None = None,
    instance: Task | None = None,
) -> Config:
    """The method's strategies, then the preset's numbers for the task, then overrides.

    Strategies among the overrides are chosen first, so that presets and other overrides speak of what is used. No
    method means the task's default. `instance` is the task itself where `task` is not a name that can be looked up.
    """
    return _made(task, method, preset, overrides or {}, instance)[0]


def explain(
    task: str,
    method: str | None = None,
    preset: Preset = "tuned",
    overrides: Mapping[str, Any] | None = None,
    instance: Task | None = None,
) -> list[Setting]:
    """Every setting of the config that `make_config` makes, and where its value comes from."""
    config, sources = _made(task, method, preset, overrides or {}, instance)
    return [Setting(name, value, sources.get(name, DEFAULTS)) for name, value in flatten(config).items()]


DEFAULTS = "default"


def _made(
    task: str, method: str | None, preset: Preset, asked: Mapping[str, Any], instance: Task | None
) -> tuple[Config, dict[str, str]]:
    """The config, and where those of its settings come from that are not the defaults of strategies."""
    import quell.tasks
    from quell.tasks.foreign.base import ForeignTask

    if preset not in ("tuned", "paper"):
        raise UsageError(f"unknown preset {preset!r}: use tuned or paper")
    played = instance or quell.tasks.get(task)
    name = default_method(played.name) if method is None else method_name(method)
    chosen, sources = METHODS[name], dict[str, str]()
    config = Config(task=played.name, preset=preset)

    def layer(source: str, made: Config) -> Config:
        before, after = flatten(config), flatten(made)
        sources.update({one: source for one in after if one not in before or before[one] != after[one]})
        return made

    strategies = {kind: getattr(chosen, kind) for kind in STRATEGIES}
    config = layer(f"method {name}", dataclasses.replace(config, **strategies))
    sources.update(dict.fromkeys(STRATEGIES, f"method {name}"))
    if played.discrete and chosen.discrete:
        config = layer("the task: its actions are choices", replace(config, {"policy": "categorical"}))
    config = layer(ASKED, _choose(config, asked))
    facts = {"foreign": isinstance(played, ForeignTask), "discrete": played.discrete}
    for source, numbers in layers(name, preset, played.name, **facts):
        config = layer(source, read := _numbers(config, numbers, chosen))
        known = [full_name(one, flatten(read)) for one in numbers]
        sources.update({one: source for one in known if one and sources.get(one) != ASKED})
    if chosen.normalise_obs is not None:
        config = layer(f"method {name}", replace(config, {"normalise_obs": chosen.normalise_obs}))
    config = layer("the step: it looks at no states", _fit(config))
    config = layer(ASKED, replace(_choose(config, asked), asked))
    if "train_horizon" not in asked and (config.delay != 1 or config.frame_skip):
        # A preset's cut is so many of the task's own steps, and a late reward would be paid there: sooner than asked.
        config = layer("delay or frame_skip: episodes are not cut", replace(config, {"train_horizon": 0}))
    sources.update({one: ASKED for one in (full_name(key, flatten(config)) for key in asked) if one})
    return config, {one: source for one, source in sources.items() if one in flatten(config)} | {"task": ASKED}


ASKED = "asked for"


def _numbers(config: Config, numbers: Mapping[str, Any], method: Method) -> Config:
    """A preset's numbers that are read. Those of an estimator or a step are for the method's own kind of it."""
    others = [kind for kind in ("estimator", "step") if _other(getattr(config, kind), getattr(method, kind))]
    for name, value in numbers.items():
        where = full_name(name, flatten(config))
        if where is not None and where.partition(".")[0] not in others:
            config = replace(config, {where: value})
    return config


def _other(chosen: Any, own: Any) -> bool:
    return registry.name_of(chosen) != registry.name_of(own)


def _fit(config: Config) -> Config:
    """A step that looks at nothing does without a line search."""
    estimator = config.estimator
    if isinstance(estimator, ActorCritic) and not config.step.states:
        return replace(config, {"estimator.line_search": False})
    return config


def _choose(config: Config, asked: Mapping[str, Any]) -> Config:
    """The config with the strategies that were asked for, as objects or by name."""
    chosen = {name: value for name, value in asked.items() if name.rpartition(".")[2] in registry.KINDS}
    known = {name: value for name, value in chosen.items() if full_name(name, flatten(config)) is not None}
    config = replace(config, known)
    unperturbed = not config.estimator.needs.perturbed
    if "directions" not in chosen and unperturbed != (config.directions.sigma == 0):
        config = replace(config, {"directions": Unperturbed() if unperturbed else Gaussian()})
    return config


def as_strategies(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Keywords with an optax optimiser, if there is one, made a step."""
    step = settings.get("step")
    if hasattr(step, "init") and hasattr(step, "update") and not registry.is_strategy(step):
        from quell.update.first_order import OwnOptax

        return {**settings, "step": OwnOptax(step)}
    return dict(settings)


def make_task(config: Config, given: Task | None = None) -> Task:
    """The task with the config's settings, on this machine; `given` is the user's own, which has no name."""
    task = find_task(config) if given is None else regime_of(config, given)
    if task.extra is not None:
        require(task.extra, f"task {task.name!r}")
    return task


def find_task(config: Config) -> Task:
    """The same, whether or not it could run here: what a plan needs to know of it."""
    import quell.tasks

    settings: dict[str, Any] = dict(config.task_settings)
    if "horizon" in settings:
        raise UsageError("an episode's length is `horizon=...`, not a setting of the task")
    if config.horizon is not None:
        settings["horizon"] = config.horizon
    return regime_of(config, quell.tasks.get(config.task, **settings))


def regime_of(config: Config, task: Task) -> Task:
    """A task under the conditions that a config asks for."""
    from quell.tasks.regimes import in_regime

    names = ("delay", "frame_skip", "hide", "obs_noise", "horizon")
    return in_regime(task, **{name: getattr(config, name) for name in names})


FILE_LIKE = re.compile(r"[/\\~$:]|^\.")
"""What a text has that may be the name of a file, or of something to import."""


def names_a_file(value: Any) -> bool:
    """Whether a task's setting may be the name of a file, which the task would open."""
    return isinstance(value, str) and bool(FILE_LIKE.search(value) or os.path.lexists(value))


def refuse_files(settings: Mapping[str, Any], task: str) -> None:
    """Raise UsageError if settings of a task, which may be of unknown origin, name files for it to open."""
    for name, text in settings.items():
        if names_a_file(text):
            opens = f"this run's settings name a file for {task:.80} to open ({name:.80} = {text!r:.300})"
            raise UsageError(f"{opens}: add `trust_files=True` if you know where the folder is from")


def make_policy(config: Config, task: Task) -> Policy:
    """The policy for a task; says when the two do not fit."""
    chosen = config.policy
    if task.discrete != chosen.discrete:
        wanted = "categorical" if task.discrete else "gaussian or deterministic"
        raise UsageError(f"task {task.name!r} needs a {wanted} policy, not {registry.name_of(chosen)} (policy)")
    made: Policy = chosen.make(task)
    check_fit(config.estimator, config.directions, made, config.step)
    return made


def check_memory(config: Config, task: Task, policy: Policy) -> None:
    """Complain of layers so wide that the step, or a critic, cannot hold what grows with their square."""
    for name, owner in registry.strategies(config).items():
        if callable(memory := getattr(owner, "memory", None)):
            setting = "policy.hidden" if name == "step" else f"{name}.hidden"
            what = f"{registry.name_of(owner)}'s arrays (smaller layers, `{setting}=...`)"
            require_memory(memory(policy, task.horizon), what)


def make_problem(config: Config, task: Task) -> Problem:
    """What the estimator is used on."""
    return Problem(make_policy(config, task), config.directions, config.seed)
