"""The tasks quell knows, by name.

A task is one small file in this package that ends in `TASKS = [...]`; files are found by looking, so adding one is
all it takes.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from dataclasses import fields
from typing import Any

from quell.errors import UsageError, did_you_mean
from quell.tasks.base import MujocoTask, Simulator, Task

__all__ = ["MujocoTask", "Simulator", "Task", "get", "names"]


@functools.cache
def _registry() -> dict[str, type[Task]]:
    found: dict[str, type[Task]] = {}
    for module in pkgutil.iter_modules(__path__):
        if module.name not in {"base", "mujoco"}:
            for task in getattr(importlib.import_module(f"{__name__}.{module.name}"), "TASKS", ()):
                found[task.name] = task
    return dict(sorted(found.items()))


def names() -> list[str]:
    """Every task name, sorted."""
    return list(_registry())


def get(name: str, **settings: Any) -> Task:
    """The task called `name` with its settings, e.g. `get("lqr", horizon=302, noise=0.5)`."""
    registry = _registry()
    if name not in registry:
        raise UsageError(f"unknown task {name!r}{did_you_mean(name, registry)}; `quell tasks` lists them all")
    task = registry[name]
    allowed = {field.name: field for field in fields(task)}
    for key, value in settings.items():
        if key not in allowed:
            raise UsageError(
                f"task {name!r} has no setting {key!r}{did_you_mean(key, allowed)}; it has: {', '.join(allowed)}"
            )
        if key == "horizon" and not (isinstance(value, int) and value > 0):
            raise UsageError(f"horizon must be a positive whole number, got {value!r}")
    return task(**settings)
