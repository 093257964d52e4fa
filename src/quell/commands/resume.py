"""quell resume RUN: continue a run from its newest intact checkpoint."""

from typing import Any

from quell import registry, zoo
from quell.api import resume
from quell.commands.arguments import take
from quell.commands.common import find_run, report
from quell.commands.settings import ResumeFlags, own_task, parse, take_choices
from quell.config import Config, changed, flatten, replace
from quell.errors import UsageError
from quell.runs import Run
from quell.terminal.streams import say
from quell.training.callbacks import Callback
from quell.training.methods import make_config

PROG = "quell resume RUN"
DESCRIPTION = """Continue RUN (a run folder, or the newest run in a folder) bit for bit as if it had never stopped.
--steps extends it. Settings that would change its course need --fork, which continues in a new folder.
"""
OWN = "The defaults below are the run's own."
EXAMPLE = "The defaults below are halfcheetah's, as an example: `quell resume RUN --help` shows the run's own."


def main(arguments: list[str]) -> int:
    factory, arguments = take(arguments, "--trust-import")
    if not arguments or (arguments[0].startswith("-") and not {"-h", "--help"} & set(arguments)):
        raise UsageError("which run? `quell resume RUN [options]`")
    if arguments[0] in ("-h", "--help"):
        parse(["--help"], make_config("halfcheetah"), "cpu", ResumeFlags, prog=PROG, description=DESCRIPTION + EXAMPLE)
    if arguments[0].startswith(zoo.PREFIX):
        raise UsageError(f"{arguments[0]} is a policy without its training state: it can be played, not resumed")
    run = Run.open(find_run(arguments[0]))
    choices, rest = take_choices(arguments[1:])
    engine = choices.pop("engine", "cpu")
    own = {name: _with_settings(one, run.config, name) for name, one in choices.items() if not isinstance(one, str)}
    default, given = replace(run.config, choices | own), own_task(factory, run.config.horizon)
    config, compute, others = parse(rest, default, engine, ResumeFlags, prog=PROG, description=DESCRIPTION + OWN)
    after = flatten(config)
    settings = {name: after[name] for name in changed(run.config, config) if name in after}
    settings = {name: value for name, value in settings.items() if name.partition(".")[0] not in own}
    settings |= {name: getattr(config, name) for name in own}
    counter = Counter()
    result = resume(run.path, engine=compute, env=given, callbacks=counter, **others, **settings)
    if result.finished and not counter.iterations:
        spent = f"it has {result.steps:,} steps, and {config.steps:,} were asked for"
        say(f"nothing was left to do: {spent if result.steps >= config.steps else 'its target is reached'}")
    return report(result)


def _with_settings(own: Any, config: Config, name: str) -> Any:
    """A strategy of the user's, with the settings that it has in the run, if it is the run's."""
    current = getattr(config, name, None)
    known = isinstance(current, registry.Elsewhere) and current.name == registry.name_of(own)
    return registry.replace(own, current.settings) if known else own  # type: ignore[union-attr]


class Counter(Callback):
    """How many iterations there were."""

    iterations = 0

    def on_iteration(self, row: dict[str, Any]) -> None:
        self.iterations += 1
