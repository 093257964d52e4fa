"""Run folders: the only place that knows what lies where.

runs/<task>/<method>/<seed>-<time>/
    config.json  versions.json  metrics.jsonl  checkpoints/  tensorboard/  lock
"""

from __future__ import annotations

import fcntl
import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from quell.config import Config, check_out, check_run_name, from_dict, to_dict
from quell.errors import UsageError
from quell.runs.checkpoint import write_atomically
from quell.runs.versions import versions


class Run:
    """One run folder. Writers hold its lock; readers need none."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: TextIO | None = None

    @staticmethod
    def create(config: Config, out: Path, name: str | None = None) -> Run:
        """Make and lock a new folder for a config."""
        if name is not None:
            check_run_name(name)
        parent = check_out(out) / folder_name(config.task) / config.method
        stamp = f"{config.seed}-{time.strftime('%Y%m%d-%H%M%S')}"
        for attempt in range(1000):
            path = parent / (name or (stamp if attempt == 0 else f"{stamp}-{attempt}"))
            try:
                path.mkdir(parents=True)
                break
            except FileExistsError:
                if name is not None:
                    raise UsageError(
                        f"run folder {str(path)!r} exists already; "
                        f"continue it with `quell resume {path}` or choose another --name"
                    ) from None
        run = Run(path)
        run.lock()
        run.update_config(config)
        write_atomically(path / "versions.json", json.dumps(versions(), indent=1).encode())
        return run

    @staticmethod
    def open(path: Path | str) -> Run:
        """An existing run folder."""
        run = Run(Path(path))
        if not (run.path / "config.json").is_file():
            raise UsageError(f"{str(path)!r} is not a run folder (it has no config.json)")
        return run

    def lock(self) -> None:
        """Claim the folder for writing; the claim ends with this process, however it ends."""
        file = (self.path / "lock").open("w")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise UsageError(
                f"another process is writing to {str(self.path)!r}; wait for it or stop it first"
            ) from None
        self._lock = file

    def close(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def remove_if_never_begun(self) -> None:
        """Delete a new folder that has no checkpoint: its engine never started, so there is nothing to go on from."""
        if not self.checkpoints.exists():
            shutil.rmtree(self.path)

    def update_config(self, config: Config) -> None:
        """Record settings that a resumed run was allowed to change."""
        write_atomically(self.path / "config.json", json.dumps(to_dict(config), indent=1).encode())

    def fork(self, config: Config) -> Run:
        """A new, locked folder beside this one with its checkpoints and metrics, but another config."""
        copy = Run.create(config, self.path.resolve().parents[2])
        shutil.copytree(self.checkpoints, copy.checkpoints)
        if (self.path / "metrics.jsonl").exists():
            shutil.copyfile(self.path / "metrics.jsonl", copy.path / "metrics.jsonl")
        write_atomically(copy.path / "forked-from.txt", f"{self.path.name}\n".encode())
        return copy

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def config(self) -> Config:
        try:
            return from_dict(json.loads((self.path / "config.json").read_bytes()))
        except (OSError, ValueError) as error:
            raise UsageError(f"{self.path / 'config.json'} cannot be read: {error}") from None

    def metrics(self) -> Iterator[dict[str, Any]]:
        """Rows of metrics.jsonl; a half-written last line is left out."""
        file = self.path / "metrics.jsonl"
        for line in file.read_text().splitlines() if file.exists() else []:
            try:
                yield json.loads(line)
            except ValueError:
                return


def folder_name(task: str) -> str:
    """A task's name as that of a file or folder."""
    return task.replace(":", "-").replace("/", "-")
