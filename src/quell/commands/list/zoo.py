"""quell list zoo: trained policies that come with quell."""

from dataclasses import dataclass

from quell import zoo
from quell.commands.arguments import parse
from quell.errors import UsageError
from quell.runs import Run
from quell.terminal.streams import say
from quell.terminal.tables import show


@dataclass(frozen=True)
class Arguments:
    """List the trained policies that come with quell, with their returns over fresh episodes (mean actions).
    They are used as runs are: quell play zoo:hopper, quell eval zoo:hopper, quell.load("zoo:hopper")."""


def main(arguments: list[str]) -> int:
    parse(Arguments, arguments, prog="quell list zoo")
    rows, broken = [], []
    for name in zoo.names():
        try:
            rows.append(_row(name))
        except UsageError as error:
            broken.append(str(error))
    show(("<name", "<task", "<method", "steps", "return, mean action", "episodes"), rows)
    for message in broken:
        say(f"quell: error: {message}")
    return int(bool(broken))


def _row(name: str) -> tuple[str, ...]:
    config, score = Run.open(zoo.located(f"zoo:{name}")).config, zoo.score(name)
    returns = f"{score['mean']:.1f} ± {score['std']:.1f}"
    return f"zoo:{name}", config.task, config.method, f"{score['steps']:,}", returns, str(len(score["returns"]))
