"""Checkpoints: safetensors for arrays, JSON for the rest, SHA-256 of both, written atomically.

    checkpoints/00000120/{arrays.safetensors, state.json, manifest.json}

A checkpoint is written beside its place, flushed to disk, and renamed; one that is already there steps aside (.old)
until its successor has its place. So a kill at any moment leaves every iteration whole. Reading verifies the manifest
and falls back to the newest checkpoint that is intact. Nothing is ever unpickled, and nothing that is not a checkpoint
is ever deleted.
"""

import json
import re
import warnings
from collections.abc import Collection
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as decode
from safetensors.numpy import save as encode

from quell.errors import QuellError, UsageError, shown
from quell.runs import files
from quell.types import Array

Arrays = dict[str, Array]
Saved = tuple[Arrays, dict[str, Any]]
"""What a checkpoint holds: arrays, and facts."""
ARRAYS, STATE, MANIFEST = "arrays.safetensors", "state.json", "manifest.json"
SIZES = {ARRAYS: files.HUGE, STATE: files.SMALL, MANIFEST: files.SMALL}
MOST = 1 << 53
"""Of anything that a state counts; no run comes near it, and what is larger does not fit where it is written to."""
_ENTRY = re.compile(r"([0-9]{8,12})|\.([0-9]{8,12})\.(tmp|old)")


class CorruptCheckpoint(QuellError):
    """A checkpoint whose files do not match its manifest."""


def save(folder: Path, iteration: int, arrays: Arrays, state: dict[str, Any], keep: int) -> Path:
    """Write checkpoint `iteration` into `folder`; of it and earlier ones only the newest `keep` stay."""
    files.make_folder(folder)
    _clear_leftovers(folder)
    final, temporary = _place(folder, iteration), folder / f".{iteration:08d}.tmp"
    temporary.mkdir()
    contents = {
        ARRAYS: encode({name: np.array(value, order="C") for name, value in arrays.items()}),
        STATE: json.dumps({"schema": files.SCHEMA, **state}, indent=1).encode(),
    }
    digests = {name: sha256(data).hexdigest() for name, data in contents.items()}
    contents[MANIFEST] = json.dumps(digests, indent=1).encode()
    try:
        for name, data in contents.items():
            files.write_new(temporary / name, data)
        files.sync_folder(temporary)
    except OSError:  # half of one must not keep the disk full
        _remove(temporary)
        raise
    if final.exists():  # a resumed run rewrites its way forward
        final.rename(_aside(final))
    temporary.rename(final)
    files.sync_folder(folder)
    _remove(_aside(final))
    for old in [past for past in iterations(folder) if past <= iteration][:-keep]:
        _remove(_place(folder, old))
    return final


def load(path: Path) -> Saved:
    """Arrays and state of one checkpoint; CorruptCheckpoint if a byte is out of place."""
    if not path.exists() and files.is_folder(_aside(path)):
        path = _aside(path)
    try:
        manifest = files.read_json(path / MANIFEST)
        contents = {name: files.read(path / name, SIZES[name]) for name in (ARRAYS, STATE)}
        for name, data in contents.items():
            if manifest.get(name) != sha256(data).hexdigest():
                raise CorruptCheckpoint(f"{shown(path / name)} does not match its SHA-256")
        state = files.understood(json.loads(contents[STATE]))
        arrays = decode(contents[ARRAYS])
    except UsageError as error:
        raise UsageError(f"{shown(path)} cannot be used: {error}") from None
    except (*files.MALFORMED, SafetensorError) as error:
        raise CorruptCheckpoint(f"{shown(path)} cannot be read: {' '.join(str(error).split())}") from None
    if complaint := _complaint(arrays, state):
        raise CorruptCheckpoint(f"{shown(path)} is no checkpoint of a run: {complaint}")
    if str(state.get("iteration")).zfill(8) != path.name.strip(".old"):
        raise CorruptCheckpoint(f"{shown(path)} is that of iteration {state.get('iteration')}")
    return arrays, state


def load_newest(folder: Path, *, at_most: int | None = None) -> Saved | None:
    """The newest intact checkpoint (of iteration `at_most` or earlier), with a warning of every broken one on the way.

    None if there is no checkpoint; a UsageError if there are some and none is intact.
    """
    broken: list[CorruptCheckpoint] = []
    for iteration in reversed([one for one in iterations(folder) if at_most is None or one <= at_most]):
        try:
            found = load(_place(folder, iteration))
        except CorruptCheckpoint as error:
            broken.append(error)
        else:
            for skipped in broken:
                warnings.warn(f"checkpoint skipped: {skipped}", stacklevel=2)
            return found
    if broken:
        raise UsageError(f"{shown(folder.parent)!r} has no intact checkpoint; the newest: {broken[0]}")
    return None


def iterations(folder: Path) -> list[int]:
    """Iterations that have a checkpoint, oldest first."""
    kept = [(name, entry) for name, left, entry in _entries(folder) if left != "tmp"]
    return sorted({int(name) for name, entry in kept if any((entry / part).exists() for part in SIZES)})


def copy(folder: Path, to: Path, changes: dict[str, Any], without: Collection[str] = ()) -> None:
    """Copy all checkpoints that are intact into another folder, with a changed state, and without some arrays."""
    files.make_folder(to)
    for iteration in iterations(folder):
        with suppress(CorruptCheckpoint):
            arrays, state = load(_place(folder, iteration))
            arrays = {name: array for name, array in arrays.items() if name not in without}
            save(to, iteration, arrays, state | changes, keep=iteration + 1)


def _complaint(arrays: Arrays, state: Any) -> str | None:
    """What is wrong with contents whose hashes are right: anyone can compute those."""
    if not isinstance(state, dict) or not isinstance(state.get("config", {}), dict):
        return "its state is not a table"
    for name, value in state.items():
        if name != "config" and (not files.is_number(value) or not 0 <= value <= MOST):
            return f"{name} is {value!r:.40}"
    for name, array in arrays.items():
        if array.dtype.kind not in "fiub":
            return f"{name} holds no numbers"
        if name in ("theta", "best.theta", "best.score") and not np.isfinite(array).all():
            return f"{name} holds NaN or infinity"
    return None


def _place(folder: Path, iteration: int) -> Path:
    return folder / f"{iteration:08d}"


def _aside(final: Path) -> Path:
    return final.with_name(f".{final.name}.old")


def _entries(folder: Path) -> list[tuple[str, str | None, Path]]:
    """Checkpoints and what a kill left of some: (name, "tmp" or "old" of what was left, path)."""
    paths = folder.iterdir() if files.is_folder(folder) else ()
    found = [(match, path) for path in paths if (match := _ENTRY.fullmatch(path.name)) and files.is_folder(path)]
    return [(match[1] or match[2], match[3], path) for match, path in found]


def _clear_leftovers(folder: Path) -> None:
    """What a kill left: unfinished checkpoints, and old ones whose successor never took its place."""
    for name, left, entry in _entries(folder):
        if left == "old" and not (folder / name).exists():
            entry.rename(folder / name)
        elif left:
            _remove(entry)


def _remove(path: Path) -> None:
    """Delete a checkpoint; whatever else lies there stays, and so does the folder."""
    if files.is_folder(path):
        for name in (MANIFEST, STATE, ARRAYS):
            (path / name).unlink(missing_ok=True)
        with suppress(OSError):
            path.rmdir()
