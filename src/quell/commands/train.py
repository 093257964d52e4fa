"""quell train TASK: train a policy."""

from dataclasses import dataclass
from typing import Any

from quell.commands.arguments import take
from quell.commands.settings import TrainFlags, own_task, parse, take_choices
from quell.config import Config
from quell.errors import UsageError
from quell.rollout import Compute
from quell.rollout.cpu import Cpu
from quell.tasks import Task, names
from quell.training.methods import make_config

DESCRIPTION = """Train a policy on TASK (`quell tasks` lists them). Every setting can be changed. Writes
<out>/<task>/<method>/<seed>-<time>/ and prints the result.

TASK may be gym:ID or envpool:ID. An environment of your own: quell train --trust-import my_module:make_env"""

EXAMPLE = "The defaults below are halfcheetah's, as an example: `quell {command} TASK --help` shows TASK's own."


def main(arguments: list[str]) -> int:
    asked = read_settings(arguments, TrainFlags, command="train", description=DESCRIPTION)
    seeds = asked.others.pop("seeds")

    from quell.api import start
    from quell.commands.common import report, stopped

    if seeds is not None:
        from quell.commands.sweep import run

        log, out = asked.others.pop("log"), asked.others.pop("out")
        if log or not isinstance(asked.compute, Cpu):
            raise UsageError("--seeds runs one process of this machine per seed: leave out --engine and --log")
        return run(asked, [{}], seeds=seeds, jobs=asked.compute.workers, out=out / "seeds", **asked.others)
    result = start(asked.config, compute=asked.compute, task=asked.given, **asked.others)
    return report(result) if result.finished else stopped(result)


@dataclass(frozen=True)
class Asked:
    """What the command line asks for."""

    config: Config
    compute: Compute
    others: dict[str, Any]
    """The command's own flags."""
    given: Task | None
    """The environment of --trust-import."""
    trust: str


def read_settings(arguments: list[str], others: type[Any], *, command: str, description: str) -> Asked:
    """TASK and all flags."""
    factory, rest = take(arguments, "--trust-import")
    horizon = take(rest, "--horizon")[0] or ""
    given = own_task(factory, int(horizon) if horizon.isdigit() else None)
    task, rest = (given.name, rest) if given else _take_task(rest, command)
    choices, rest = take_choices(rest)
    engine = choices.pop("engine", "cpu")
    method, preset = take(rest, "--method")[0] or "cv", take(rest, "--preset")[0] or "tuned"
    default = make_config(task, method, preset, choices, given)  # type: ignore[arg-type]
    prog = f"quell {command} {'TASK' if task not in arguments and not given else task}"
    defaults = EXAMPLE if prog.endswith("TASK") else "The defaults below are those for this task, method and preset."
    text = f"{description}\n\n{defaults.format(command=command)}"
    config, compute, own = parse(rest, default, engine, others, prog=prog, description=text)
    return Asked(config, compute, own, given, given.name if given else "")


def _take_task(arguments: list[str], command: str) -> tuple[str, list[str]]:
    """The task's name and the other arguments; it comes first, or is recognised anywhere."""
    if arguments and not arguments[0].startswith("-"):
        return arguments[0], arguments[1:]
    if {"-h", "--help"} & set(arguments):
        return "halfcheetah", arguments
    for i, word in enumerate(arguments):
        if word in names():
            return word, arguments[:i] + arguments[i + 1 :]
    raise UsageError(f"which task? `quell {command} TASK [options]`; `quell tasks` lists them")
