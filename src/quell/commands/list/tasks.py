"""quell list tasks: list the tasks."""

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Annotated

import tyro

from quell.commands.arguments import parse
from quell.errors import EXTRAS
from quell.tasks import Task, get, names
from quell.terminal.streams import tell
from quell.terminal.tables import show


@dataclass(frozen=True)
class Arguments:
    """List the tasks: observation and action sizes, horizon, engine, and the extra each needs."""

    tasks: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[TASK ...]")] = ()
    """These tasks only."""


def main(arguments: list[str]) -> int:
    parsed = parse(Arguments, arguments, prog="quell list tasks")
    tasks = [get(name) for name in parsed.tasks or names()]
    show(("<task", "obs", "action", "horizon", "<engine", "<extra", "<"), map(_row, tasks))
    tell("\nAlso: any id of Gymnasium's, such as CartPole-v1 (in records gym:CartPole-v1), and envpool:ID;")
    tell("with --engine device also brax:NAME and playground:NAME.")
    return 0


def _row(task: Task) -> tuple[str, ...]:
    choices = (task.choices or (task.action_size,)) if task.discrete else ()
    action = " and ".join(f"1 of {number}" for number in choices) or str(task.action_size)
    missing = task.extra is not None and find_spec(EXTRAS[task.extra]) is None
    extra = (task.extra or "") + (" (not installed)" if missing else "")
    return task.name, str(task.obs_size), action, str(task.horizon), task.engine, extra, task.summary
