"""quell tasks: list the tasks."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import tyro

from quell import speed
from quell.config import default_workers
from quell.errors import EXTRAS, UsageError
from quell.tasks import Task, get, names


@dataclass(frozen=True)
class Arguments:
    """List the tasks: observation and action sizes, horizon, engine, and the extra each needs."""

    tasks: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[TASK ...]")] = ()
    """These tasks only."""
    measure: bool = False
    """Measure steps per second here, playing one episode with each of ten members: ours, EnvPool's in its synchronous
    and asynchronous modes, and our ratio to the faster of them; then physics alone, which nobody can beat, and the
    library the task comes from (one environment, one process)."""
    seconds: float = 2.0
    """How long each measurement takes."""
    workers: int | None = None
    """Worker processes (and EnvPool threads) while measuring; by default one per core."""
    json: Path | None = None
    """Also write the measurements here."""


def main(arguments: list[str]) -> int:
    parsed = tyro.cli(Arguments, args=arguments, prog="quell tasks")
    if not parsed.seconds > 0:
        raise UsageError(f"--seconds must be greater than 0, got {parsed.seconds}")
    tasks = [get(name) for name in parsed.tasks or names()]
    speeds = speed.COLUMNS if parsed.measure else ()
    extra_columns = "".join(f"{title:>10}" for title in speeds)
    print(f"{'task':<26}{'obs':>5}{'action':>8}{'horizon':>9}  {'engine':<10}{'extra':<20}{extra_columns}")
    rows = {}
    for task in tasks:
        action = f"1 of {task.action_size}" if task.discrete else str(task.action_size)
        facts = f"{task.name:<26}{task.obs_size:>5}{action:>8}{task.horizon:>9}  {task.engine:<10}{_extra(task):<20}"
        if parsed.measure and not _missing(task):
            rows[task.name] = speed.measure(task, parsed.workers or default_workers(), parsed.seconds)
            print(facts + "".join(f"{_cell(value):>10}" for value in rows[task.name].values()), flush=True)
        else:
            print(facts + ("" if parsed.measure else task.summary))
    if not parsed.measure:
        print("\nAlso: gym:ID for any Gymnasium environment, envpool:ID for any of EnvPool's.")
    if parsed.json:
        parsed.json.write_text(json.dumps(rows, indent=1))
    return 0


def _missing(task: Task) -> bool:
    return task.extra is not None and find_spec(EXTRAS[task.extra]) is None


def _extra(task: Task) -> str:
    return (task.extra or "") + (" (not installed)" if _missing(task) else "")


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}" if value < 100 else f"{value:,.0f}"
