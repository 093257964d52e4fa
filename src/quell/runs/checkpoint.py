"""Checkpoints: safetensors for arrays, JSON for the rest, SHA-256 of both, written atomically.

    checkpoints/00000120/{arrays.safetensors, state.json, manifest.json}

A checkpoint is written beside its place, flushed to disk, and renamed; a kill at any moment leaves the old ones whole.
Reading verifies the manifest and falls back to the newest checkpoint that is intact. Nothing is ever unpickled.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quell.errors import QuellError

Arrays = dict[str, NDArray[Any]]
ARRAYS, STATE, MANIFEST = "arrays.safetensors", "state.json", "manifest.json"


class CorruptCheckpoint(QuellError):
    """A checkpoint whose files do not match its manifest."""


def save(folder: Path, iteration: int, arrays: Arrays, state: dict[str, Any], keep: int) -> Path:
    """Write checkpoint `iteration` into `folder` and remove all but the newest `keep`."""
    from safetensors.numpy import save as encode

    folder.mkdir(exist_ok=True)
    final, temporary = folder / f"{iteration:08d}", folder / f".{iteration:08d}.tmp"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    contents = {
        ARRAYS: encode({name: np.array(value, order="C") for name, value in arrays.items()}),
        STATE: json.dumps(state, indent=1).encode(),
    }
    contents[MANIFEST] = json.dumps({name: _digest(data) for name, data in contents.items()}, indent=1).encode()
    for name, data in contents.items():
        _write(temporary / name, data)
    _sync_folder(temporary)
    shutil.rmtree(final, ignore_errors=True)  # a resumed run rewrites its way forward
    temporary.rename(final)
    _sync_folder(folder)
    for old in iterations(folder)[:-keep]:
        shutil.rmtree(folder / f"{old:08d}", ignore_errors=True)
    return final


def load(path: Path) -> tuple[Arrays, dict[str, Any]]:
    """Arrays and state of one checkpoint; CorruptCheckpoint if a byte is out of place."""
    from safetensors import SafetensorError
    from safetensors.numpy import load as decode

    try:
        manifest = json.loads((path / MANIFEST).read_bytes())
        contents = {name: (path / name).read_bytes() for name in (ARRAYS, STATE)}
        for name, data in contents.items():
            if manifest.get(name) != _digest(data):
                raise CorruptCheckpoint(f"{path / name} does not match its SHA-256")
        return decode(contents[ARRAYS]), json.loads(contents[STATE])
    except (OSError, ValueError, AttributeError, SafetensorError) as error:
        raise CorruptCheckpoint(f"{path} cannot be read: {error}") from None


def load_newest(folder: Path, *, at_most: int | None = None) -> tuple[Arrays, dict[str, Any]] | None:
    """The newest intact checkpoint (of iteration `at_most` or earlier); warns about every broken one it passes over."""
    for iteration in reversed(iterations(folder)):
        if at_most is not None and iteration > at_most:
            continue
        try:
            return load(folder / f"{iteration:08d}")
        except CorruptCheckpoint as error:
            warnings.warn(f"checkpoint skipped: {error}", stacklevel=2)
    return None


def iterations(folder: Path) -> list[int]:
    """Iterations that have a checkpoint, oldest first."""
    return sorted(int(entry.name) for entry in folder.glob("[0-9]*") if entry.name.isdigit())


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a small file in one step."""
    temporary = path.with_name(f".{path.name}.tmp")
    _write(temporary, data)
    temporary.rename(path)
    _sync_folder(path.parent)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
