"""The tasks quell knows, by name: those of every `TASKS = [...]` in the files of this package and its folders."""

import functools
import importlib
from dataclasses import fields
from typing import Any

from quell.errors import UsageError, did_you_mean
from quell.registry import check, listed, tidy, whole
from quell.tasks.base import MujocoTask, Simulator, Task
from quell.tasks.foreign.gym import from_env, trusted

__all__ = ["MujocoTask", "Simulator", "Task", "from_env", "get", "names", "trusted"]

FOREIGN = {"gym:": "foreign.gym", "envpool:": "foreign.envpool"}  # names that stand for somebody else's environments


@functools.cache
def _registry() -> dict[str, type[Task]]:
    """name -> class, in alphabetical order."""
    return dict(sorted((task().name, task) for task in listed(__name__, "TASKS")))


def names() -> list[str]:
    """Every task name, sorted."""
    return list(_registry())


def get(name: str, **settings: Any) -> Task:
    """The task called `name` with its settings, e.g. `get("lqr", horizon=302, noise=0.5)`. `gym:ID` and `envpool:ID`
    name any environment those libraries know; settings other than horizon go to it."""
    if "horizon" in settings:
        settings["horizon"] = whole("horizon", settings["horizon"], least=1)
    for prefix, module in FOREIGN.items():
        if name.startswith(prefix):
            return importlib.import_module(f"{__name__}.{module}").from_id(name.removeprefix(prefix), **settings)
    if name.startswith("own:"):
        raise UsageError(f"{name} is a script's own: pass it again, as in quell.resume(path, env=make_env)")
    registry = _registry()
    if name not in registry:
        hint = did_you_mean(name, registry)
        if not hint and ":" in name:
            hint = f" (an environment of your own needs --trust-import {name})"
        raise UsageError(f"unknown task {name!r}{hint}; `quell tasks` lists them all")
    task = registry[name]
    allowed = [field.name for field in fields(task)]
    for key in settings:
        if key not in allowed:
            hint = did_you_mean(key, allowed)
            raise UsageError(f"task {name!r} has no setting {key!r}{hint}; it has: {', '.join(allowed)}")
    made = tidy(task(**settings))
    check(made, "task_settings.")
    return made
