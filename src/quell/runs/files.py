"""Files of a run, opened so that a folder from anywhere can do no harm: no links are followed, no pipes or devices
opened, nothing larger than expected is read."""

import errno
import fcntl
import json
import math
import os
import stat
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from quell.errors import QuellError, UsageError, naming, shown

SMALL, LARGE, HUGE = 1 << 20, 1 << 28, 1 << 32
"""Bytes, at most: of a config or manifest, of metrics, of a checkpoint's arrays."""
HOLLOW = 1 << 24  # bytes from which on a file has to be made of something: a sparse one costs its sender nothing
SCHEMA = 1
"""Of what a run folder holds. It is raised when an older quell would misread what is written."""
MALFORMED = (OSError, ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError, QuellError)
"""What reading a made-up file may raise."""
NOT_OFFERED = {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL}
"""What file systems say that have no locks, or cannot flush a folder (NFS without lockd, Lustre, FUSE)."""
_told: set[tuple[int, str]] = set()  # (file system, what it lacks) of which a warning was given
_CAREFULLY = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def open_regular(path: Path) -> BinaryIO:
    """A regular file to read from; OSError if it is none."""
    return os.fdopen(_regular(path, os.O_RDONLY), "rb")


def read(path: Path, limit: int = SMALL) -> bytes:
    """A regular file's contents; OSError if it is none, or larger than `limit`."""
    with open_regular(path) as file:
        found = os.fstat(file.fileno())
        if found.st_size > limit:
            raise OSError(f"{path.name} has {found.st_size:,} bytes, at most {limit:,} are expected")
        if found.st_size > HOLLOW and found.st_blocks * 512 < found.st_size // 8:
            raise OSError(f"{path.name} has {found.st_size:,} bytes, but most of them are holes (a sparse file)")
        return file.read(found.st_size)  # Python makes room for all that is asked for


def read_json(path: Path, limit: int = SMALL) -> Any:
    """What a JSON file holds; ValueError if it is none."""
    try:
        return json.loads(read(path, limit))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def read_lines(path: Path) -> Iterator[str]:
    """A text file's lines, with their ends, one by one; none if there is no file."""
    try:
        with open_regular(path) as file:
            while line := file.readline(SMALL):
                yield line.decode(errors="replace")
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(f"{str(path)!r} cannot be read: {error.strerror or error}") from None


def understood(facts: Any) -> Any:
    """What a file of a run folder holds, without its schema; a UsageError if a newer quell wrote it."""
    if not isinstance(facts, dict) or (schema := facts.pop("schema", SCHEMA)) == SCHEMA:
        return facts
    raise UsageError(f"it was written by a newer quell (schema {schema!r:.20}, this one knows {SCHEMA}): upgrade quell")


def as_facts(line: str) -> dict[str, Any]:
    """A line of JSON; nothing if it is half-written or something else."""
    try:
        facts = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return facts if isinstance(facts, dict) else {}


def is_number(value: Any) -> bool:
    """Whether a value from JSON is a number that can be computed with."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300


def as_table(line: str) -> dict[str, Any] | None:
    """A line of metrics; None if it is half-written or something else."""
    row = {sys.intern(name): value for name, value in as_facts(line).items()}  # once, not once in every row
    known = isinstance(row.get("iteration"), int | float)
    numbers = known and all(v is None or (isinstance(v, int | float) and abs(v) < 1e308) for v in row.values())
    return row if numbers else None


def read_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Lines of metrics with what they hold, up to the first that is half-written, out of order or something else."""
    last = -math.inf
    for line in read_lines(path):
        row = as_table(line)
        if row is None or row["iteration"] <= last:
            return
        last = row["iteration"]
        yield line, row


def append_to(path: Path) -> int:
    """A descriptor to append to a regular file with, which is made if missing."""
    return _regular(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def claim(path: Path) -> int:
    """A descriptor of a regular file, as it is or new."""
    return _regular(path, os.O_RDWR | os.O_CREAT)


def write_new(path: Path, data: bytes) -> None:
    """Write a file that must not be there yet, and flush it to disk."""
    with _new(path) as file:
        file.write(data)


def write(path: Path, text: str) -> int:
    """A file that the user named, which may be a device: UTF-8, whatever the locale. How many bytes it has."""
    with naming(path):
        return path.write_bytes(text.encode(errors="replace"))  # there may be half a character in a name


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a small file in one step."""
    with replaced(path) as file:
        file.write(data)


@contextmanager
def replaced(path: Path) -> Iterator[BinaryIO]:
    """What is written takes a file's place at the end, in one step."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.unlink(missing_ok=True)  # what a kill left, or a link: never what it points to
    try:
        with _new(temporary) as file:
            yield file
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    temporary.rename(path)
    sync_folder(path.parent)


@contextmanager
def _new(path: Path) -> Iterator[BinaryIO]:
    """A file that must not be there yet, flushed to disk at the end."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _CAREFULLY
    with naming(path), os.fdopen(os.open(path, flags, 0o666), "wb") as file:
        yield file
        file.flush()
        _flush(file.fileno(), path.parent, "files")


def make_folder(path: Path) -> Path:
    """A folder of a run, made if missing; it must not be a link to somewhere else."""
    path.mkdir(exist_ok=True)
    if not is_folder(path):
        raise UsageError(f"{str(path)!r} is a link; a run's folders must be its own")
    return path


def is_folder(path: Path) -> bool:
    """Whether a path is a folder itself, not a link to one."""
    return path.is_dir() and not path.is_symlink()


def sync_folder(path: Path) -> None:
    """Flush a folder's entries to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        _flush(descriptor, path, "folders")
    finally:
        os.close(descriptor)


def is_free(descriptor: int, lock: int, path: Path) -> bool | None:
    """Whether a lock (LOCK_SH, LOCK_EX) could be had, which this process then holds; None where there are none."""
    try:
        fcntl.flock(descriptor, lock | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
    except OSError as error:
        care = "make sure that only one process writes to a run there"
        _bear(error, descriptor, path, f"has no locks ({error.strerror}): {care}")
        return None


def _flush(descriptor: int, path: Path, kind: str) -> None:
    try:
        os.fsync(descriptor)
    except OSError as error:
        lost = "a power failure may cost the newest checkpoint"
        _bear(error, descriptor, path, f"cannot flush {kind} to disk ({error.strerror}): {lost}")


def _bear(error: OSError, descriptor: int, path: Path, lack: str) -> None:
    """Say, once of every file system, what it lacks; any other error is raised."""
    if error.errno not in NOT_OFFERED:
        raise error
    if (key := (os.fstat(descriptor).st_dev, lack)) not in _told:
        _told.add(key)
        warnings.warn(f"the file system of {shown(path)!r} {lack}", stacklevel=4)


def _regular(path: Path, flags: int) -> int:
    descriptor = os.open(path, flags | _CAREFULLY, 0o666)
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or (flags & os.O_ACCMODE != os.O_RDONLY and found.st_nlink > 1):
        os.close(descriptor)
        raise OSError(f"{path.name} is not a regular file of its own")
    return descriptor
