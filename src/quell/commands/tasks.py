"""quell tasks: list the tasks."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec

import tyro

from quell.errors import EXTRAS
from quell.tasks import get, names


@dataclass(frozen=True)
class Arguments:
    """List the tasks: observation and action sizes, horizon, engine, and the extra each needs."""


def main(arguments: list[str]) -> int:
    tyro.cli(Arguments, args=arguments, prog="quell tasks")
    print(f"{'task':<26}{'obs':>5}{'action':>8}{'horizon':>9}  {'engine':<10}{'extra':<16}")
    for name in names():
        task = get(name)
        action = f"{task.action_size} of" if task.discrete else str(task.action_size)
        missing = task.extra is not None and find_spec(EXTRAS[task.extra]) is None
        extra = (task.extra or "") + (" (missing)" if missing else "")
        print(f"{name:<26}{task.obs_size:>5}{action:>8}{task.horizon:>9}  {task.engine:<10}{extra:<16}{task.summary}")
    return 0
