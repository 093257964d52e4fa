"""quell zoo: trained policies that come with quell."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from quell import zoo
from quell.api import Checkpoint
from quell.commands.arguments import UNSET, parse
from quell.errors import UsageError
from quell.terminal.streams import say, tell
from quell.terminal.tables import show

DESCRIPTION = """List the trained policies that come with quell, with their returns over fresh episodes (mean actions).
They are used like runs: quell play zoo:hopper, quell eval zoo:hopper, quell.load("zoo:hopper")."""


@dataclass(frozen=True)
class Arguments:
    add: Annotated[Path | None, UNSET] = None
    """Add the policy of this run (or of the newest run in this folder)."""
    checkpoint: Checkpoint = "newest"
    """Whose policy: the newest, or that of the best evaluation."""
    name: Annotated[str | None, UNSET] = None
    """What to call it; by default as its task."""
    episodes: int = 100
    """Fresh episodes to measure it on."""
    replace: bool = False
    """Take the place of one that is there already."""


def main(arguments: list[str]) -> int:
    parsed = parse(Arguments, arguments, prog="quell zoo", description=DESCRIPTION)
    if parsed.add is not None:
        return _add(parsed)
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
    from quell.runs import Run

    config, score = Run.open(zoo.located(f"zoo:{name}")).config, zoo.score(name)
    returns = f"{score['mean']:.1f} ± {score['std']:.1f}"
    return f"zoo:{name}", config.task, config.method, f"{score['steps']:,}", returns, str(len(score["returns"]))


def _add(parsed: Arguments) -> int:
    from quell.api import evaluate, load
    from quell.commands.common import find_run
    from quell.config import check_run_name
    from quell.runs.folder import folder_name

    assert parsed.add is not None
    result = load(find_run(parsed.add), checkpoint=parsed.checkpoint)
    name = check_run_name(parsed.name or folder_name(result.config.task))
    if name in zoo.names() and not parsed.replace:
        mean = zoo.score(name)["mean"]
        raise UsageError(f"the zoo has a {name!r} already, with return {mean}: give --replace, or another --name")
    returns = evaluate(result, episodes=parsed.episodes).returns
    folder = zoo.add(name, result, returns.tolist())
    tell(f"zoo:{name}  return {returns.mean():.1f} ± {returns.std():.1f} over {parsed.episodes} episodes  ({folder})")
    return 0
