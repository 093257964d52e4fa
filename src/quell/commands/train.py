"""quell train TASK: train a policy."""

from contextlib import suppress
from typing import Any

from quell.api import start
from quell.commands.arguments import take
from quell.commands.common import report
from quell.commands.settings import TrainFlags, own_task, parse, take_choices
from quell.config import Config
from quell.errors import UsageError
from quell.registry import read_whole
from quell.rollout import Compute
from quell.tasks import Task, names
from quell.training.methods import make_config

DESCRIPTION = """Train a policy on TASK (`quell tasks` lists them). Every setting can be changed. Writes
<out>/<task>/<method>/<seed>-<time>/ and prints the result.

TASK may be an id of Gymnasium's (CartPole-v1, short for gym:CartPole-v1), or envpool:ID. An environment of your own:
quell train --trust-import my_module:make_env"""

EXAMPLE = "The defaults below are halfcheetah's, as an example: `quell {command} TASK --help` shows TASK's own."


def main(arguments: list[str]) -> int:
    config, compute, own, given = read_settings(arguments, TrainFlags, command="train", description=DESCRIPTION)
    if (seeds := own.pop("seeds")) is not None:
        from quell.commands.sweep import run

        compute.validate()
        log, out = own.pop("log"), own.pop("out")
        if log:
            raise UsageError("--seeds runs one process per seed, which tell no tracker: leave out --log")
        return run(config, given, [{}], seeds=seeds, compute=compute, out=out / "seeds", **own)
    return report(start(config, compute=compute, task=given, **own))


def read_settings(
    arguments: list[str], others: type[Any], *, command: str, description: str
) -> tuple[Config, Compute, dict[str, Any], Task | None]:
    """TASK and all flags; then the command's own flags, and the environment of --trust-import."""
    factory, rest = take(arguments, "--trust-import")
    length = None
    with suppress(ValueError):
        length = read_whole(take(rest, "--horizon")[0] or "")
    given = own_task(factory, length)
    task, rest = (given.name, rest) if given else _take_task(rest, command)
    choices, rest = take_choices(rest)
    engine = choices.pop("engine", "cpu")
    (method, rest), (preset, _) = take(rest, "--method"), take(rest, "--preset")
    if method == "":
        raise UsageError("--method needs a value; `quell methods` lists them")
    default = make_config(task, method or "cv", preset or "tuned", choices, given)  # type: ignore[arg-type]
    prog = f"quell {command} {'TASK' if task not in arguments and not given else task}"
    defaults = EXAMPLE if prog.endswith("TASK") else "The defaults below are those for this task, method and preset."
    text = f"{description}\n\n{defaults.format(command=command)}"
    config, compute, own = parse(rest, default, engine, others, prog=prog, description=text)
    if (config.method, config.preset) != (default.method, default.preset):
        raise UsageError("--method and --preset say whose settings are the defaults: give each of them once")
    return config, compute, own, given


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
