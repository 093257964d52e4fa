"""quell train TASK: train a policy."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from quell.rollout import default_compute
from quell.config import Config, refuse_unused
from quell.errors import UsageError
from quell.training.methods import make_config
from quell.tasks import Task, names

DESCRIPTION = """Train a policy on TASK (`quell tasks` lists them). The defaults below are those for the task, method
and preset given; every setting can be changed. Writes <out>/<task>/<method>/<seed>-<time>/ and prints the result.

TASK may be gym:ID or envpool:ID. An environment of your own: quell train --trust-import my_module:make_env"""


@dataclass(frozen=True)
class Arguments:
    config: Annotated[Config, tyro.conf.arg(name="")]
    compute: Annotated[Compute, tyro.conf.arg(name="")] = field(default_factory=Compute)
    out: Path = Path("runs")
    """Where run folders are made."""
    name: str | None = None
    """Name of the run folder instead of <seed>-<time>."""


def main(arguments: list[str]) -> int:
    given, rest = _take_given(arguments)
    task, rest = (given.name, rest) if given else _take_task(rest)
    method = _peek(rest, "--method") or "cv"
    preset = _peek(rest, "--preset") or "tuned"
    default = make_config(task, method, preset, instance=given)  # type: ignore[arg-type]
    prog = f"quell train {'TASK' if task not in arguments and not given else task}"
    parsed = tyro.cli(Arguments, args=rest, default=Arguments(default), prog=prog, description=DESCRIPTION)
    config = refuse_unused(default, parsed.config.validate())

    from quell.api import start
    from quell.commands.common import report, stopped

    result = start(config, compute=parsed.compute, out=parsed.out, name=parsed.name, task=given)
    return report(result, given) if result.finished else stopped(result)


def _take_given(arguments: list[str]) -> tuple[Task | None, list[str]]:
    if not any(word.startswith("--trust-import") for word in arguments):
        return None, arguments  # spare the common case an import of half the library
    from quell.commands.common import take_trusted

    horizon = _peek(arguments, "--horizon")
    return take_trusted(arguments, int(horizon) if horizon and horizon.isdigit() else None)


def _take_task(arguments: list[str]) -> tuple[str, list[str]]:
    """The task's name and the other arguments; it comes first, or is recognised anywhere."""
    if arguments and not arguments[0].startswith("-"):
        return arguments[0], arguments[1:]
    if any(flag in arguments for flag in ("-h", "--help")):
        return "halfcheetah", arguments
    for i, word in enumerate(arguments):
        if word in names():
            return word, arguments[:i] + arguments[i + 1 :]
    raise UsageError("which task? `quell train TASK [options]`; `quell tasks` lists them")


def _peek(arguments: list[str], flag: str) -> str | None:
    """The value of a flag, before the real parsing, because defaults depend on it."""
    for i, word in enumerate(arguments):
        if word.startswith(f"{flag}="):
            return word.partition("=")[2]
        if word == flag and i + 1 < len(arguments):
            return arguments[i + 1]
    return None
