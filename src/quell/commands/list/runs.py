"""quell list runs: list runs."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from quell.commands.arguments import parse
from quell.errors import UsageError
from quell.runs.find import Standing, run_folders, standing
from quell.terminal.numbers import age
from quell.terminal.streams import tell
from quell.terminal.tables import show


@dataclass(frozen=True)
class Arguments:
    """List the runs in FOLDER, the newest first: how far each is, the score of its last evaluation, and its state.
    The runs of `--seeds` and of a sweep share a line; `quell list runs` with their folder lists them one by one."""

    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="[FOLDER]")] = Path("runs")
    """Folder to search, with all its subfolders."""
    newest: int = 30
    """Maximum number of lines."""


def main(arguments: list[str]) -> int:
    parsed = parse(Arguments, arguments, prog="quell list runs")
    if parsed.newest < 1:
        raise UsageError(f"--newest {parsed.newest} must be at least 1")
    if not parsed.folder.is_dir():
        raise UsageError(f"{str(parsed.folder)!r} is no folder; `quell train` makes runs in ./runs")
    entries: dict[Path, list[Path]] = {}
    for path in run_folders(parsed.folder):
        entries.setdefault(_entry(path, parsed.folder), []).append(path)
    rows = [_row(name, list(map(standing, paths))) for name, paths in list(entries.items())[: parsed.newest]]
    show(("<run", "<task", "<method", "steps", "return, mean action", "<state", "age"), rows)
    if len(entries) > len(rows):
        tell(f"and {len(entries) - len(rows)} older ones (--newest {len(entries)} shows all)")
    return 0


def _entry(path: Path, folder: Path) -> Path:
    """A run, or the folder of the seeds or the sweep that it is one of: they keep theirs in a folder `runs`."""
    above = [parent for parent in path.parents if parent.name == "runs" and folder in parent.parent.parents]
    return above[0].parent if above else path


def _row(name: Path, found: Sequence[Standing | None]) -> list[str]:
    """One run, or several together: all their steps, the lowest and the highest return, how many are in which state."""
    known = [run for run in found if run]
    states = Counter(run.state if run else "unreadable" for run in found)
    state = ", ".join(f"{count} {word}" if len(found) > 1 else word for word, count in states.items())
    if not known:
        return [str(name), "", "", "", "", state, ""]
    config, scores = known[0].config, sorted(run.score for run in known if run.score is not None)
    ends = " to ".join(dict.fromkeys(f"{score:.4g}" for score in scores[:1] + scores[-1:]))
    share = f"{sum(run.steps for run in known):,} of {sum(run.config.steps for run in known):,}"
    return [str(name), config.task, config.method, share, ends, state, age(time.time() - known[0].changed)]
