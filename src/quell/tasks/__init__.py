"""The tasks quell knows, by name: those of every `TASKS = [...]` in the files of this package and its folders."""

import functools
import importlib
import re
from dataclasses import fields, replace
from typing import Any

from quell.errors import UsageError, did_you_mean, warn_once
from quell.registry import check, listed, tidy, whole
from quell.tasks.base import MujocoTask, Simulator, Task
from quell.tasks.foreign.gym import from_env, trusted

__all__ = ["MujocoTask", "Simulator", "Task", "from_env", "from_given", "get", "names", "trusted"]

VERSIONED = re.compile(r"(?:[\w.-]+/)?[\w.-]+-v\d+")
"""How Gymnasium's ids look."""
FOREIGN = {
    **{"gym:": ("foreign.gym", "from_id"), "envpool:": ("foreign.envpool", "from_id")},
    **{f"{name}:": ("foreign.accelerated", f"from_{name}") for name in ("brax", "playground")},
}
"""How names begin that stand for environments of other libraries -> module and function that make the task."""


@functools.cache
def _registry() -> dict[str, type[Task]]:
    """name -> class, in alphabetical order."""
    return dict(sorted((task().name, task) for task in listed(__name__, "TASKS")))


def names() -> list[str]:
    """Every task name, sorted."""
    return list(_registry())


def _hint(name: str) -> str:
    """What may have been meant by a name that nothing has."""
    import gymnasium

    if ":" in name:
        return did_you_mean(name, names()) or f" (an environment of your own needs --trust-import {name})"
    unversioned = {spec.id.rpartition("-v")[0]: f"gym:{spec.id}" for spec in gymnasium.registry.values()}
    return did_you_mean(name, [*unversioned, *names()], lambda one: repr(unversioned.get(one, one)))


def get(name: str, **settings: Any) -> Task:
    """The task called `name` with its settings, e.g. `get("lqr", horizon=302, noise=0.5)`. `gym:ID` and `envpool:ID`
    name any environment those libraries know; settings other than horizon go to it. A name that ends in a version, such
    as CartPole-v1, is Gymnasium's: the task is gym:CartPole-v1, and so it is called in every record. Where quell has
    the same task itself, as for HalfCheetah-v5, that is taken, unless there are settings for Gymnasium's."""
    if "horizon" in settings:
        settings["horizon"] = whole("horizon", settings["horizon"], least=1)
    for prefix, (module, function) in FOREIGN.items():
        if name.startswith(prefix):
            made: Task = getattr(importlib.import_module(f"{__name__}.{module}"), function)(
                name.removeprefix(prefix), **settings
            )
            return made
    if name.startswith("own:"):
        again = "quell.load(path, env=make_env), quell.resume(path, env=make_env) or --trust-import my_module:make_env"
        raise UsageError(f"{name} is a script's own environment: pass it again, as in {again}")
    registry = _registry()
    if name not in registry and VERSIONED.fullmatch(name):
        ours = [ours for ours in registry if registry[ours]().original == f"gymnasium:{name}"]
        if not ours or settings.keys() - {"horizon"}:
            return get(f"gym:{name}", **settings)
        warn_once(
            f"{name} is trained as quell's task {ours[0]!r}, which is faster and tuned; gym:{name} is Gymnasium's"
        )
        name = ours[0]
    if name not in registry:
        raise UsageError(f"unknown task {name!r}{_hint(name)}; `quell list tasks` lists them all")
    task = registry[name]
    allowed = [field.name for field in fields(task)]
    for key in settings:
        if key not in allowed:
            hint = did_you_mean(key, allowed)
            if (original := task().original or "").startswith("gymnasium:"):
                hint += f" (gym:{original.partition(':')[2]} takes those of Gymnasium's)"
            raise UsageError(f"task {name!r} has no setting {key!r}{hint}; it has: {', '.join(allowed)}")
    own: Task = tidy(task(**settings))
    check(own, "task_settings.")
    return own


def from_given(given: Any, horizon: Any = None) -> Task:
    """A task that was given as one, as an environment, or as a function that makes environments."""
    length = whole("horizon", horizon, least=1) if horizon is not None else 0
    if isinstance(given, Task):
        return replace(given, horizon=length) if length else given
    return from_env(given, horizon=length)
