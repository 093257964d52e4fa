"""File systems that lack something: no locks (NFS without lockd, Lustre), or folders that cannot be flushed (FUSE)."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import quell
from quell.cli import main
from quell.errors import UsageError
from quell.runs import Run, checkpoint, files
from quell.runs.find import standing

SMALL: dict[str, Any] = {"method": "es", "horizon": 20, "pairs": 1, "steps": 200, "checkpoint_every": 1, "name": "x"}
SMALL |= {"eval_episodes": 1, "workers": 1, "progress": False}
pytestmark = pytest.mark.usefixtures("in_process")


@pytest.fixture(autouse=True)
def untold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_told", set())


def fails(number: int, where: Callable[[int], bool] = lambda mode: True) -> Callable[..., None]:
    """A call that a file system does not offer, for files of some modes."""

    def call(descriptor: int, *_: int) -> None:
        if where(os.fstat(descriptor).st_mode):
            raise OSError(number, os.strerror(number))

    return call


def warnings_of(told: pytest.WarningsRecorder) -> list[str]:
    return [str(one.message) for one in told]


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_without_locks_it_goes_on_with_a_warning(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    monkeypatch.setattr(fcntl, "flock", fails(number))
    path = quell.train("lqr-302", out=tmp_path, **SMALL).path
    assert quell.resume(path, steps=280, progress=False).finished
    why = f"has no locks ({os.strerror(number)}): make sure that only one process writes to a run there"
    assert warnings_of(recwarn) == [f"the file system of {str(path)!r} {why}"]


@pytest.mark.filterwarnings("default")
def test_without_locks_no_run_is_called_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done = quell.train("lqr-302", out=tmp_path, **SMALL).path
    half = quell.train("lqr-302", out=tmp_path, **SMALL | {"name": "y"}).path
    with Run.open(half) as run:
        run.update_config(quell.config.replace(run.config, {"steps": 1000}))
    monkeypatch.setattr(fcntl, "flock", fails(errno.ENOLCK))
    assert main(["list", "runs", str(tmp_path)]) == 0
    told = capsys.readouterr()
    assert [" finished " in row for row in told.out.splitlines() if "/x " in row] == [True]
    assert [" unfinished " in row for row in told.out.splitlines() if "/y " in row] == [True]
    assert told.err.count("\n") == 1, "the warning, once"
    assert "has no locks" in told.err
    monkeypatch.undo()
    assert [standing(path).state for path in (done, half)] == ["finished", "interrupted"]  # type: ignore[union-attr]


@pytest.mark.parametrize(("kind", "where"), [("folders", stat.S_ISDIR), ("files", stat.S_ISREG)])
def test_without_flushing_it_goes_on_with_a_warning(
    kind: str,
    where: Callable[[int], bool],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    recwarn: pytest.WarningsRecorder,
) -> None:
    monkeypatch.setattr(os, "fsync", fails(errno.EINVAL, where))
    path = quell.train("lqr-302", out=tmp_path, **SMALL).path
    (told,) = warnings_of(recwarn)
    assert f"cannot flush {kind} to disk (Invalid argument): a power failure may cost the newest" in told
    assert str(path) in told
    assert checkpoint.iterations(path / "checkpoints") == [3, 4, 5]


def test_other_errors_are_not_borne(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = quell.train("lqr-302", out=tmp_path, **SMALL).path
    monkeypatch.setattr(os, "fsync", fails(errno.EIO))
    with pytest.raises(OSError, match="Input/output error"):
        files.write_atomically(path / "versions.json", b"{}")
    monkeypatch.setattr(fcntl, "flock", fails(errno.EIO))
    with pytest.raises(UsageError, match=r"cannot lock '.*/x': Input/output error"):
        Run.open(path).lock()
