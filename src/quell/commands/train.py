"""quell train TASK: train a policy."""

import json
from contextlib import suppress
from typing import Any

from quell.api import start
from quell.commands.arguments import take
from quell.commands.common import report
from quell.commands.settings import TrainFlags, own_task, parse, take_choices
from quell.config import STRATEGIES, Config, flatten, full_name
from quell.errors import UsageError
from quell.presets import default_method, instead, method_name
from quell.registry import read_whole
from quell.rollout import Compute
from quell.tasks import Task, names
from quell.terminal.streams import say
from quell.terminal.tables import show
from quell.training.methods import ASKED, Setting, explain, make_config
from quell.training.settings_file import ALSO, read, without
from quell.words import SENTENCES

DESCRIPTION = """Train a policy on TASK (`quell list tasks` lists them). Every setting can be changed. Writes
<out>/<task>/<method>/<seed>-<time>/ and prints the result.

--config FILE reads settings, from TOML or from the config.json of a run; flags have precedence.
TASK may be an id of Gymnasium's (CartPole-v1, short for gym:CartPole-v1), or envpool:ID. An environment of your own:
quell train --trust-import my_module:make_env"""

EXAMPLE = "The defaults below are halfcheetah's, as an example: `quell {command} TASK --help` shows TASK's own."


def main(arguments: list[str]) -> int:
    config, compute, own, given = read_settings(arguments, TrainFlags, command="train", description=DESCRIPTION)
    settings = own.pop("settings")
    if own.pop("show"):
        show(("<setting", "<value", "<from"), [(one.name, _text(one.value), one.source) for one in settings])
        return 0
    if (seeds := own.pop("seeds")) is not None:
        from quell.commands.sweep import run

        compute.validate()
        log, out = own.pop("log"), own.pop("out")
        if log:
            raise UsageError("--seeds runs one process per seed, and these cannot log to trackers: leave out --log")
        note = own.pop("note")
        code = run(config, given, [{}], seeds=seeds, compute=compute, out=out / "seeds", **own)
        if note:
            say(note)
        return code
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
    file, rest = take(rest, "--config")
    if file == "":
        raise UsageError("--config needs a file: TOML with settings, or a run's config.json")
    written = {} if file is None else read(file, given=rest)
    task, rest = (given.name, rest) if given else _take_task(rest, command, written.pop("task", None))
    choices, rest = take_choices(rest)
    engine = choices.pop("engine", "cpu")
    (method, rest), (preset, _) = take(rest, "--method"), take(rest, "--preset")
    if method == "":
        raise UsageError("--method needs a value; `quell list methods` lists them")
    if method and (said := [name for name in STRATEGIES[1:] if name in written]):
        raise UsageError(f"{file} says which {' and '.join(said)} to use, and so does --method: leave one of them out")
    method, preset = method or written.pop("method", None), preset or written.pop("preset", None)
    written = {name: value for name, value in written.items() if name not in ALSO}
    written = without(written, choices)
    choices = {**written, **choices, **_conditions(rest)}
    if "--method" in {word.partition("=")[0] for word in rest}:
        raise UsageError("--method and --preset say whose settings are the defaults: give each of them once")
    default = make_config(task, method, preset or "tuned", choices, given)  # type: ignore[arg-type]
    prog = f"quell {command} {'TASK' if task not in arguments and not given else task}"
    defaults = EXAMPLE if prog.endswith("TASK") else "The defaults below are those for this task, method and preset."
    text = f"{description}\n\n{defaults.format(command=command)}"
    used = default_method(default.task) if method is None else method_name(method)
    config, compute, own = parse(rest, default, engine, others, prog=prog, description=text, method=used)
    if config.preset != default.preset:
        raise UsageError("--method and --preset say whose settings are the defaults: give each of them once")
    if "show" in own:
        own["note"] = instead(default.task) if method is None else None
        found = explain(task, method, config.preset, choices, given)
        known = flatten(default)
        names = {full_name(name, known): file for name in written}
        own["settings"] = [_with_flags(one, default, config, names.get(one.name)) for one in found]
    return config, compute, own, given


def _conditions(arguments: list[str]) -> dict[str, Any]:
    """--delay and --frame-skip, which keep a preset from cutting episodes. What is wrong in them is told later."""
    found: dict[str, Any] = {}
    for name in ("delay", "frame_skip"):
        said = take(arguments, f"--{name.replace('_', '-')}")[0]
        with suppress(ValueError):
            found |= {name: 0 if said == "end" else read_whole(said)} if said else {}
    return found


def _with_flags(setting: Setting, default: Config, config: Config, file: str | None) -> Setting:
    """The setting with the value of its flag, if that was given, and the file that it comes from, if that does."""
    before, after = flatten(default)[setting.name], flatten(config)[setting.name]
    changed = before != after
    asked = FLAG if file is None else file
    return Setting(setting.name, after, FLAG if changed else asked if setting.source == ASKED else setting.source)


FLAG = "command line"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _take_task(arguments: list[str], command: str, default: str | None = None) -> tuple[str, list[str]]:
    """The task's name and the other arguments; it comes first, or is recognised anywhere."""
    if arguments and not arguments[0].startswith("-"):
        return arguments[0], arguments[1:]
    if {"-h", "--help"} & set(arguments):
        return "halfcheetah", arguments
    for i, word in enumerate(arguments):
        if word in names():
            return word, arguments[:i] + arguments[i + 1 :]
    if default is not None:
        return default, arguments
    given = {word.partition("=")[0].removeprefix("--").replace("-", "_") for word in arguments}
    if given & {"env", "env_id", "environment", "task"}:
        raise UsageError(SENTENCES["env"][1].replace("quell train", f"quell {command}"))
    raise UsageError(f"which task? `quell {command} TASK [options]`; `quell list tasks` lists them")
