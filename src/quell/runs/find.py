"""Runs in a folder: which there are, and how each stands."""

import fcntl
import math
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from quell.config import Config
from quell.errors import QuellError, UsageError
from quell.runs import files
from quell.runs.folder import Run

DEPTH = 8
"""Folders below the one that is looked into: a sweep's runs are seven below `runs`."""
NOT_LOOKED_INTO = {"checkpoints", "tensorboard"}


@dataclass(frozen=True)
class Standing:
    """A run at a glance."""

    path: Path
    config: Config
    steps: int
    score: float | None
    """The newest evaluation: mean return with mean actions."""
    state: str
    """finished, running or interrupted; unfinished where the file system has no locks to tell these two by."""
    changed: float
    """When it last wrote, in seconds since 1970."""


def run_folders(*folders: Path) -> list[Path]:
    """Every run folder in some folders, the one that wrote last first."""
    return sorted((run for folder in folders for run in _walk(folder)), key=_changed, reverse=True)


def newest(folder: Path) -> tuple[Path, int]:
    """The newest run in a folder (or the run that it is), and how many there are."""
    if (folder / "config.json").is_file():
        return folder, 1
    found = run_folders(folder)
    if not found:
        raise UsageError(f"{str(folder)!r} is not a run folder, and none is below it (a run has a config.json)")
    return found[0], len(found)


def standing(path: Path) -> Standing | None:
    """How a run stands; None if its folder cannot be read."""
    try:
        config = Run.open(path).config
        steps, score, best = 0, None, -math.inf
        for row in Run.open(path).metrics():
            steps = int(row.get("steps") or 0)
            if (found := row.get("eval/mean_action")) is not None:
                score, best = found, max(best, found)
    except QuellError:
        return None
    done = config.finished(steps, best)
    held = _is_locked(path)
    unfinished = "unfinished" if held is None else "interrupted"
    state = "running" if held else "finished" if done else unfinished
    return Standing(path, config, steps, score, state, _changed(path))


def _walk(folder: Path, depth: int = DEPTH) -> Iterator[Path]:
    if (folder / "config.json").is_file():
        yield folder
    elif depth:
        with suppress(OSError):
            for entry in os.scandir(folder):
                if entry.is_dir(follow_symlinks=False) and entry.name not in NOT_LOOKED_INTO and entry.name[0] != ".":
                    yield from _walk(Path(entry.path), depth - 1)


def _changed(path: Path) -> float:
    times = [0.0]
    for name in ("metrics.jsonl", "config.json"):
        with suppress(OSError):
            times.append((path / name).stat().st_mtime)
    return max(times)


def _is_locked(path: Path) -> bool | None:
    """Whether a process holds the run's lock; None where that is unknown."""
    try:
        descriptor = os.open(path / "lock", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        free = files.is_free(descriptor, fcntl.LOCK_SH, path)
        return None if free is None else not free
    except OSError:
        return None
    finally:
        os.close(descriptor)
