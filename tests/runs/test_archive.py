"""The records of a campaign in one file."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest
from made_up import made_up

from quell.errors import UsageError
from quell.runs import archive
from quell.runs.record import read, read_group, read_named

RUNS = {f"swimmer-cv-{seed}": made_up("swimmer", "cv", seed, 10.0 * seed) for seed in range(3)}


@pytest.fixture
def group(tmp_path: Path) -> Path:
    for name, run in RUNS.items():
        run.write(archive.loose(tmp_path, name))
    return tmp_path


def test_packed_records_are_those_that_were_loose(group: Path) -> None:
    assert read_named(group) == RUNS
    archive.pack(group)
    assert [path.name for path in group.iterdir()] == [archive.PACKED]
    assert read_named(group) == RUNS
    for name, run in RUNS.items():
        assert archive.exists(archive.loose(group, name))
        assert read(archive.loose(group, name)) == run
    assert not archive.exists(archive.loose(group, "swimmer-cv-3"))


def test_the_same_records_give_the_same_bytes(group: Path) -> None:
    archive.pack(group)
    once = (group / archive.PACKED).read_bytes()
    for name in reversed(RUNS):
        RUNS[name].write(archive.loose(group, name))
    archive.pack(group)
    assert (group / archive.PACKED).read_bytes() == once


def test_a_loose_record_stands_for_the_packed_one(group: Path) -> None:
    archive.pack(group)
    newer = made_up("swimmer", "cv", 0, 99.0)
    newer.write(archive.loose(group, "swimmer-cv-0"))
    assert read_named(group)["swimmer-cv-0"] == read(archive.loose(group, "swimmer-cv-0")) == newer
    archive.pack(group)
    assert read_named(group) == {**RUNS, "swimmer-cv-0": newer}


def test_several_that_pack_at_once_lose_nothing(group: Path) -> None:
    program = "import sys, pathlib; from quell.runs import archive; archive.pack(pathlib.Path(sys.argv[1]))"
    packing = [subprocess.Popen([sys.executable, "-c", program, str(group)]) for _ in range(3)]
    for seed in range(3, 9):
        made_up("swimmer", "cv", seed, 1.0).write(archive.loose(group, f"swimmer-cv-{seed}"))
    assert [one.wait() for one in packing] == [0, 0, 0]
    assert len(read_group(group)) == 9


@pytest.mark.parametrize(
    "data",
    [
        b"nothing packed",
        gzip.compress(b"[1]\n"),
        gzip.compress(b'{"config": {}}\n'),
        gzip.compress(json.dumps({"name": "a", "config": {}}).encode())[:-9],
        gzip.compress(b'{"name": "' + b"a" * archive.LARGEST + b'"}\n'),
    ],
    ids=["not gzip", "no table", "no name", "cut short", "too long"],
)
def test_a_malformed_archive_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / archive.PACKED).write_bytes(data)
    with pytest.raises(UsageError, match=r"records\.jsonl\.gz"):
        read_group(tmp_path)
