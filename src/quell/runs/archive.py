"""The records of a campaign: one file, `records.jsonl.gz`, with a record per line in the order of their names.

While a campaign runs, every run that ends leaves a file of its own, `records/NAME.json`, so that a kill loses nothing;
`pack` moves these into the one file. Readers see both: a loose file stands for what is packed under its name.
"""

import fcntl
import functools
import gzip
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from quell.errors import UsageError
from quell.runs import files

PACKED, LOOSE, TIMINGS = "records.jsonl.gz", "records", "timings.jsonl"
LARGEST = 1 << 24
"""Bytes of a record, at most."""

Facts = dict[str, Any]


def loose(group: Path, name: str) -> Path:
    """Where a run of a campaign leaves its record."""
    return group / LOOSE / f"{name}.json"


def place_of(path: Path) -> tuple[Path, str]:
    """(campaign's folder, name) of a loose record."""
    return path.parent.parent, path.stem


def exists(path: Path) -> bool:
    """Whether a record is there, as a loose file or packed."""
    group, name = place_of(path)
    return path.exists() or name in _packed(group)


def find(path: Path) -> Facts:
    """A record's contents, from its loose file or packed under its name."""
    group, name = place_of(path)
    if path.exists() or name not in _packed(group):
        return _as_record(files.read_json(path, LARGEST))
    return json.loads(_packed(group)[name])


def read(group: Path) -> dict[str, Facts]:
    """Name -> contents of every record of a campaign."""
    found = {name: json.loads(line) for name, line in _packed(group).items()}
    for path in sorted((group / LOOSE).glob("*.json")):
        found[path.stem] = _as_record(files.read_json(path, LARGEST))
    return dict(sorted(found.items()))


def pack(group: Path) -> None:
    """Move the loose records of a campaign into its one file."""
    with _alone(group / LOOSE) as waiting:
        if not (paths := sorted(waiting)):
            return
        write(group / PACKED, {**read(group)})
        for path in paths:
            path.unlink()
    if not any((group / LOOSE).iterdir()):
        (group / LOOSE).rmdir()


def merge(group: Path, other: Path) -> int:
    """Take over the records and timings of another folder of the same campaign; how many records were new.

    A UsageError, before anything is written, where both have a run of one name and not the same: only one can stand.
    """
    own, theirs = read(group), read(other)
    if differing := [name for name in theirs if name in own and own[name] != theirs[name]]:
        said = f"{str(group)!r} and {str(other)!r} both have {differing[0]!r}, with another result"
        raise UsageError(f"{said}, and {len(differing) - 1} more; take only the runs that are missing")
    pack(group)
    write(group / PACKED, {**own, **theirs})
    lines = [f"{line.rstrip()}\n" for folder in (group, other) for line in files.read_lines(folder / TIMINGS)]
    files.write_atomically(group / TIMINGS, "".join(dict.fromkeys(lines)).encode())
    return len(theirs.keys() - own.keys())


def holds_records(group: Path) -> bool:
    """Whether a folder is a campaign's."""
    return (group / PACKED).exists() or (group / LOOSE).is_dir()


def write(path: Path, records: Mapping[str, Facts]) -> None:
    """Records as one file; the same ones give the same bytes (of one version of zlib)."""
    lines = [json.dumps({"name": name} | facts) for name, facts in sorted(records.items())]
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_atomically(path, gzip.compress("".join(line + "\n" for line in lines).encode(), mtime=0))


def read_packed(path: Path) -> Iterator[tuple[str, Facts]]:
    """(name, contents) of every line of a packed file; a ValueError if it is none."""
    for name, line in _lines(path).items():
        yield name, json.loads(line)


def _packed(group: Path) -> Mapping[str, str]:
    path = group / PACKED
    return _lines(path) if path.exists() else {}


def _lines(path: Path) -> Mapping[str, str]:
    """Name -> line of a packed file, as long as it does not change."""
    try:
        found = path.stat()
        return _read_lines(path.absolute(), found.st_mtime_ns, found.st_size, found.st_ino)
    except (*files.MALFORMED, EOFError) as error:  # cut short
        raise UsageError(f"{str(path)!r} does not hold the records of runs: {error}") from None


@functools.lru_cache(maxsize=32)
def _read_lines(path: Path, *version: int) -> dict[str, str]:
    found: dict[str, str] = {}
    for number, line in enumerate(_unpacked(path), 1):
        facts = json.loads(line)
        if not isinstance(facts, dict) or not isinstance(name := facts.pop("name", None), str):
            raise ValueError(f"line {number} is not a record with a name")
        found[name] = json.dumps(facts)
    return found


def _unpacked(path: Path) -> Iterator[bytes]:
    """Lines, none longer than a record may be, and together not longer than a run's largest file."""
    total = 0
    with files.open_regular(path) as file, gzip.GzipFile(fileobj=file) as lines:
        while line := lines.readline(LARGEST):
            total += len(line)
            if len(line) == LARGEST or total > files.LARGE * 4:
                raise ValueError("it is larger than the records of a campaign are")
            yield line


def _as_record(facts: Any) -> Facts:
    if not isinstance(facts, dict):
        raise ValueError("it is not a table")
    return facts


@contextmanager
def _alone(folder: Path) -> Iterator[list[Path]]:
    """The folder's files, while no other process packs them; none where the file system cannot promise that."""
    if not folder.is_dir():
        yield []
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError:
            yield []
        else:
            yield list(folder.glob("*.json"))
    finally:
        os.close(descriptor)
