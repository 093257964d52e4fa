"""quell runs: list runs."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from quell.commands.arguments import parse
from quell.errors import UsageError
from quell.runs.find import run_folders, standing
from quell.terminal.numbers import age
from quell.terminal.tables import show


@dataclass(frozen=True)
class Arguments:
    """List the runs in FOLDER, the newest first: how far each is, what its last evaluation found, and its state."""

    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="[FOLDER]")] = Path("runs")
    """Where to look, however deep."""
    newest: int = 30
    """How many to list at most."""


def main(arguments: list[str]) -> int:
    parsed = parse(Arguments, arguments, prog="quell runs")
    if parsed.newest < 1:
        raise UsageError(f"--newest {parsed.newest} must be at least 1")
    if not parsed.folder.is_dir():
        raise UsageError(f"{str(parsed.folder)!r} is no folder; `quell train` makes runs in ./runs")
    found, rows = run_folders(parsed.folder), []
    for path in found[: parsed.newest]:
        if (run := standing(path)) is None:
            rows.append((str(path), "", "", "", "", "unreadable", ""))
            continue
        config, score = run.config, "" if run.score is None else f"{run.score:.4g}"
        share = f"{run.steps:,} of {config.steps:,}"
        rows.append((str(path), config.task, config.method, share, score, run.state, age(time.time() - run.changed)))
    show(("<run", "<task", "<method", "steps", "return", "<state", "age"), rows)
    if len(found) > len(rows):
        print(f"and {len(found) - len(rows)} older ones (--newest {len(found)} shows all)")
    return 0
