"""quell paper merge FOLDER: the records of another machine, beside those that are here."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from quell.commands.arguments import parse
from quell.config import check_out
from quell.errors import UsageError
from quell.paper.render import render_group
from quell.runs import archive
from quell.terminal.streams import tell

DESCRIPTION = """Add the runs of another machine's results folder to this one, and make tables and figures of all.

Two machines can run parts of one campaign (--tasks, --methods); then one adds the other's records and timings. A run
that both have must be the same in both."""


@dataclass(frozen=True)
class Arguments:
    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER")]
    """The other machine's OUT (results/paper), or one campaign's folder in it."""
    out: Path = Path("results/paper")
    """Where they go."""


def main(arguments: list[str]) -> int:
    parsed = parse(Arguments, arguments, prog="quell paper merge", description=DESCRIPTION)
    groups = [one for one in (parsed.folder, *sorted(parsed.folder.glob("*/"))) if archive.holds_records(one)]
    if not groups:
        raise UsageError(
            f"{str(parsed.folder)!r} holds no records of runs; name the results folder that was copied here"
        )
    check_out(parsed.out)
    for group in groups:
        here = parsed.out / group.resolve().name
        count = archive.merge(here, group)
        tell(f"{here}: {count} runs more")
        for path in render_group(here):
            tell(path)
    return 0
