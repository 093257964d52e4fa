"""Run folders: the only place that knows what lies where.

runs/<task>/<method>/<seed>-<time>/
    config.json  versions.json  metrics.jsonl  metrics.csv  checkpoints/  tensorboard/  lock
"""

import fcntl
import importlib.metadata
import json
import os
import platform
import re
import shutil
import subprocess
import time
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

from quell.config import Config, changed, check_out, check_run_name, from_dict, replace, to_dict
from quell.errors import UsageError, resuming, shown
from quell.runs import checkpoint, files
from quell.threads import xla_threads

WRITTEN = ("config.json", "versions.json", "metrics.jsonl", "metrics.csv", "forked-from.txt")
SAVING = ("eval_every", "eval_episodes", "checkpoint_every", "keep_checkpoints")
FREE_TO_CHANGE = ("steps", "target", "max_trouble", *SAVING)
"""Settings that a resumed run may change: they do not alter the iterations already made."""
RECORDED_PACKAGES = (
    *("quell", "jax", "jaxlib", "optax", "numpy", "scipy", "mujoco", "gymnasium"),
    *("dm_control", "envpool", "pybullet", "Box2D", "ray"),
    *("mujoco-mjx", "warp-lang", "brax", "playground"),
)
_COMPONENT = re.compile(r"[^./\0][^/\0]{0,199}")


class Run(AbstractContextManager["Run"]):
    """One run folder. Writers hold its lock; readers need none.

    `path` is absolute: an environment or a callback may change the working directory.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._lock: int | None = None

    @staticmethod
    def create(config: Config, out: Path, name: str | None = None, engine: str = "exact") -> "Run":
        """Make and lock a new folder for a config; `engine` is its `quell.rollout.precision`."""
        if name is not None:
            check_run_name(name)
        parent = check_out(out).absolute() / _component(folder_name(config.task), "task") / config.method
        stamp = f"{config.seed}-{time.strftime('%Y%m%d-%H%M%S')}"
        for attempt in range(1000):
            path = parent / (name or (stamp if attempt == 0 else f"{stamp}-{attempt}"))
            try:
                path.mkdir(parents=True)
                break
            except FileExistsError:
                if name is not None:
                    advice = f"continue it with `{resuming(path, config.task)}` or choose another `name=...`"
                    raise UsageError(f"run folder {shown(path)!r} exists already; {advice}") from None
        run = Run(path)
        try:
            run.lock()
            run.update_config(config)
            files.write_atomically(
                path / "versions.json", json.dumps(versions() | {"engine": engine}, indent=1).encode()
            )
        except BaseException:
            run.remove_if_never_begun()
            run.close()
            raise
        return run

    @staticmethod
    def open(path: Path | str) -> "Run":
        """An existing run folder."""
        run = Run(Path(path))
        if not (run.path / "config.json").is_file():
            raise UsageError(f"{str(path)!r} is not a run folder (it has no config.json)")
        return run

    def lock(self) -> None:
        """Claim the folder for writing; the claim ends with this process, however it ends."""
        try:
            descriptor = files.claim(self.path / "lock")
        except OSError as error:
            raise UsageError(f"cannot write to {shown(self.path)!r}: {error.strerror or error}") from None
        try:
            free = files.is_free(descriptor, fcntl.LOCK_EX, self.path)
        except OSError as error:
            os.close(descriptor)
            raise UsageError(f"cannot lock {shown(self.path)!r}: {error.strerror or error}") from None
        if free is False:
            holder = os.read(descriptor, 32).decode(errors="replace").strip()
            os.close(descriptor)
            who = f"process {holder}" if holder.isdecimal() else "another process"
            raise UsageError(f"{who} is writing to {shown(self.path)!r}; wait for it or stop it first")
        self._lock = descriptor
        with suppress(OSError):  # a process that is refused learns our number; on a full disk, not
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"{os.getpid()}\n".encode())
        for name in WRITTEN:  # what a kill left half-written
            with suppress(OSError):
                (self.path / f".{name}.tmp").unlink(missing_ok=True)

    def close(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __exit__(self, *_: object) -> None:
        self.close()

    def remove_if_never_begun(self) -> None:
        """Delete a new folder that has no checkpoint: its engine never started, so there is nothing to go on from."""
        if not checkpoint.iterations(self.checkpoints):
            shutil.rmtree(self.path, ignore_errors=True)  # whatever it meets, the first error is reported

    def update_config(self, config: Config) -> None:
        """Record settings that a resumed run was allowed to change."""
        facts = {"schema": files.SCHEMA, **to_dict(config)}
        files.write_atomically(self.path / "config.json", json.dumps(facts, indent=1).encode())

    def fork(self, config: Config) -> "Run":
        """A new, locked folder beside this one with its checkpoints and metrics, but another config; this is let go."""
        here = self.path.resolve()
        own = here.parent.parent.name == folder_name(self.config.task)
        copy = Run.create(config, here.parents[2] if own else here.parent)
        asked = [f"changed.{name.removeprefix('step.')}" for name in changed(self.config, config)]
        checkpoint.copy(self.checkpoints, copy.checkpoints, {"config": to_dict(config)}, without=asked)
        with suppress(FileNotFoundError):
            files.write_new(copy.path / "metrics.jsonl", files.read(self.path / "metrics.jsonl", files.LARGE))
        files.write_atomically(copy.path / "forked-from.txt", f"{self.path.name}\n".encode())
        self.close()
        return copy

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def config(self) -> Config:
        try:
            config = from_dict(files.understood(files.read_json(self.path / "config.json")))
        except files.MALFORMED as error:
            raise UsageError(f"{shown(self.path / 'config.json')} cannot be read: {error}") from None
        return config

    def config_of(self, state: dict[str, Any]) -> Config:
        """The config that a checkpoint was trained with, and of config.json what may change; no other edit is taken."""
        try:
            trained, now = from_dict(state["config"]), self.config
        except KeyError:
            raise UsageError(f"the checkpoint of {shown(self.path)!r} does not say what it was trained with") from None
        if differing := forbidden(trained, now):
            edited = f"{shown(self.path / 'config.json')!r} was edited: {differing}"
            undo = "undo it (`quell resume RUN --fork` takes changes as flags)"
            raise UsageError(f"{edited} from what the checkpoint was trained with; {undo}")
        return replace(trained, {name: getattr(now, name) for name in FREE_TO_CHANGE})

    def warn_of_versions(self, engine: str | None = None) -> None:
        """Say what is not as it was when the run was begun: packages, threads of XLA, or the engine where one is not
        exact (`quell.rollout.precision`); bits may then differ."""
        with suppress(*files.MALFORMED):
            made_with = files.read_json(self.path / "versions.json")
            other = {"XLA threads": xla_threads()} | ({"engine": engine} if engine else {})
            kept = {"XLA threads": "xla_threads", "engine": "engine"}
            before = made_with["packages"] | {name: made_with.get(kept[name], now) for name, now in other.items()}
            now = packages() | other
            others = [
                f"{name} {old!s:.40} (now {now[name]})" for name, old in before.items() if now.get(name, old) != old
            ]
            text = f"this run was begun with {', '.join(others)}: results may differ in their bits"
            if others:
                warnings.warn(text, stacklevel=3)

    def metrics(self) -> Iterator[dict[str, Any]]:
        """Rows of metrics.jsonl; a half-written last line is left out."""
        return (row for _, row in files.read_rows(self.path / "metrics.jsonl"))


def forbidden(trained: Config, now: Config) -> str:
    """Which settings differ that a resumed run may not change, in words: "sigma differs"; nothing if none does."""
    names = [name for name in changed(trained, now) if name not in FREE_TO_CHANGE]
    return f"{', '.join(names)} differ{'s' * (len(names) == 1)}" if names else ""


def folder_name(task: str) -> str:
    """A task's name as that of a file or folder."""
    return task.replace(":", "-").replace("/", "-")


def _component(name: str, what: str) -> str:
    """A name that is one folder's, so that a run stays inside the run root."""
    if not _COMPONENT.fullmatch(name) or not name.isprintable():
        raise UsageError(f"{what} {name!r:.80} cannot be the name of a folder")
    return name


def packages() -> dict[str, str]:
    """Versions of what is installed."""
    found = {}
    for package in RECORDED_PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found


def versions() -> dict[str, Any]:
    """Python, platform, threads of XLA, package versions and, in a checkout, the commit."""
    machine = {"python": platform.python_version(), "platform": platform.platform(), "xla_threads": xla_threads()}
    return {**machine, "commit": _commit(), "packages": packages()}


def _commit() -> str | None:
    git = ["git", "-C", str(Path(__file__).parent)]
    options: dict[str, Any] = {"capture_output": True, "text": True, "check": True}
    try:
        subprocess.run([*git, "ls-files", "--error-unmatch", __file__], **options)  # is quell itself in the checkout?
        described = subprocess.run([*git, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"], **options)
    except (OSError, subprocess.CalledProcessError):
        return None
    return str(described.stdout).strip()
