"""quell train TASK: train a policy."""

from __future__ import annotations

from quell.commands.settings import TrainFlags, as_flags, parse, peek, take_choices
from quell.errors import UsageError
from quell.tasks import Task, names
from quell.training.methods import make_config

DESCRIPTION = """Train a policy on TASK (`quell tasks` lists them). {defaults} Every setting can
be changed. Writes <out>/<task>/<method>/<seed>-<time>/ and prints the result.

TASK may be gym:ID or envpool:ID. An environment of your own: quell train --trust-import my_module:make_env"""

EXAMPLE = "The defaults below are halfcheetah's, as an example: `quell train TASK --help` shows TASK's own."


def main(arguments: list[str]) -> int:
    given, rest = _take_given(arguments)
    task, rest = (given.name, rest) if given else _take_task(rest)
    choices, rest = take_choices(rest)
    engine = choices.pop("engine", "cpu")
    method, preset = peek(rest, "--method") or "cv", peek(rest, "--preset") or "tuned"
    with as_flags():
        default = make_config(task, method, preset, choices, given)  # type: ignore[arg-type]
    prog = f"quell train {'TASK' if task not in arguments and not given else task}"
    defaults = EXAMPLE if prog.endswith("TASK") else "The defaults below are those for this task, method and preset."
    text = DESCRIPTION.format(defaults=defaults)
    config, compute, others = parse(rest, default, engine, TrainFlags, prog=prog, description=text)

    from quell.api import start
    from quell.commands.common import report, stopped

    result = start(config, compute=compute, task=given, **others)
    return report(result) if result.finished else stopped(result)


def _take_given(arguments: list[str]) -> tuple[Task | None, list[str]]:
    if not any(word.startswith("--trust-import") for word in arguments):
        return None, arguments  # spare the common case an import of half the library
    from quell.commands.common import take_trusted

    horizon = peek(arguments, "--horizon")
    return take_trusted(arguments, int(horizon) if horizon and horizon.isdigit() else None)


def _take_task(arguments: list[str]) -> tuple[str, list[str]]:
    """The task's name and the other arguments; it comes first, or is recognised anywhere."""
    if arguments and not arguments[0].startswith("-"):
        return arguments[0], arguments[1:]
    if {"-h", "--help"} & set(arguments):
        return "halfcheetah", arguments
    for i, word in enumerate(arguments):
        if word in names():
            return word, arguments[:i] + arguments[i + 1 :]
    raise UsageError("which task? `quell train TASK [options]`; `quell tasks` lists them")
