"""quell report: one HTML page about runs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from quell.commands.arguments import parse
from quell.config import check_file
from quell.paper.published import LABELS
from quell.paper.render import html_tables
from quell.report.build import build, check_videos
from quell.runs.files import write
from quell.runs.find import run_folders, standing
from quell.terminal.numbers import size
from quell.terminal.streams import tell

DESCRIPTION = """Write one HTML page that opens offline: final returns with intervals and verdicts, interactive learning
curves, tables with the paper's numbers, variance measurements, settings and films. Runs that differ only in their seed
are averaged; others are named by the settings that differ. PATHS are run folders, folders with runs (all are shown, and
the newest is named), or folders with results of `quell paper` and `quell variance`."""


@dataclass(frozen=True)
class Arguments:
    paths: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[PATH ...]")] = (Path("runs"),)
    """Run folders, folders with runs, results folders or single files."""
    out: Path = Path("report.html")
    """The page."""
    title: str = "quell report"
    """Title of the page."""
    video: tuple[Path, ...] = ()
    """Films to put into the page (mp4, webm or gif), such as `quell play` makes."""


def main(arguments: list[str]) -> int:
    parsed = parse(Arguments, arguments, prog="quell report", description=DESCRIPTION)
    check_videos(parsed.video)
    check_file(parsed.out, "out")
    run = next(filter(None, map(standing, run_folders(*parsed.paths))), None)
    page = build(
        parsed.paths,
        title=parsed.title,
        videos=parsed.video,
        order=tuple(LABELS),
        tables=html_tables,
        newest=run,
        out=parsed.out,
    )
    length = write(parsed.out, page)
    tell(f"{parsed.out} ({size(length)})" + (f"; the newest run: {run.path}" if run else ""))
    return 0
