"""A disk that is full: training goes on, nothing hangs, and the last checkpoint stays whole."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import quell
from quell.cli import main
from quell.errors import QuellError, explained, naming
from quell.runs import checkpoint, files
from quell.runs.metrics import Board, MetricsWriter

SMALL: dict[str, Any] = {"steps": 6000, "horizon": 100, "checkpoint_every": 1, "progress": False, "workers": 1}


def full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_metrics_wait_and_lose_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = MetricsWriter(tmp_path)
    writer.write({"iteration": 1, "steps": 10})
    with monkeypatch.context() as patch:
        patch.setattr("quell.runs.metrics.os.write", lambda fd, data: os.pwrite(fd, data[:3], 0))  # half a line
        with pytest.warns(UserWarning, match="waits in memory: No space left"):
            writer.write({"iteration": 2, "steps": 20})
        writer.write({"iteration": 3, "steps": 30})
        assert (tmp_path / "metrics.jsonl").read_text().count("\n") == 1
    writer.write({"iteration": 4, "steps": 40})
    writer.close()
    rows = [files.as_table(line) for line in files.read_lines(tmp_path / "metrics.jsonl")]
    assert [row["iteration"] for row in rows if row] == [1, 2, 3, 4]


@pytest.mark.usefixtures("in_process")
def test_a_dead_tensorboard_never_holds_up_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Board, "write", full)
    with pytest.warns(UserWarning, match="nothing more is written to TensorBoard"):
        result = quell.train("swimmer", method="es", out=tmp_path, **SMALL)
    assert result.finished


@pytest.mark.usefixtures("in_process")
def test_three_failed_saves_end_the_run_with_its_last_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save, calls = checkpoint.save, []

    def fails_from_the_third(*args: Any, **kwargs: Any) -> Path:
        calls.append(args[1])
        with monkeypatch.context() as patch:
            if len(calls) > 2:
                patch.setattr(files, "write_new", full)
            return save(*args, **kwargs)

    monkeypatch.setattr(checkpoint, "save", fails_from_the_third)
    with pytest.warns(UserWarning, match="could not be saved"), pytest.raises(QuellError, match="is intact"):
        quell.train("swimmer", method="es", out=tmp_path, name="x", **SMALL)
    assert calls == [0, 1, 2, 3, 4]
    folder = tmp_path / "swimmer" / "es" / "x" / "checkpoints"
    assert sorted(path.name for path in folder.iterdir()) == ["00000000", "00000001"]
    assert checkpoint.load_newest(folder) is not None


FILL = """
mount -t tmpfs -o size=400k tmpfs disk || exit 77
"$@" --out disk --name x
code=$?
test $(df --output=avail disk | tail -1) -lt 60 || exit 78
cp -r disk/swimmer/es/x left
exit $code
"""


def test_a_real_disk_that_fills_up(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    arguments = ["swimmer", "--method", "es", "--horizon", "10", "--steps", "100000000", "--workers", "1"]
    command = [sys.executable, "-m", "quell", "train", *arguments, "--checkpoint-every", "1", "--eval-every", "0"]
    line = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", FILL, "sh", *command]
    try:
        done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    except FileNotFoundError:
        pytest.skip("there is no unshare on this system")
    if done.returncode == 77 or "unshare failed" in done.stderr:
        pytest.skip("no file system can be mounted here")
    assert done.returncode == 1, done
    assert "Traceback" not in done.stderr
    assert "No space left on device; the last checkpoint is intact: quell resume" in done.stderr.splitlines()[-1]
    saved = checkpoint.load_newest(tmp_path / "left" / "checkpoints")
    assert saved is not None
    rows = list(quell.runs.Run(tmp_path / "left").metrics())
    assert [row["iteration"] for row in rows] == list(range(1, len(rows) + 1))
    assert saved[1]["iteration"] > 3


def limited(what: str, most: int, folder: Path, *arguments: str) -> str:
    """The last line that a command with a limit (`resource.RLIMIT_...`) leaves on stderr."""
    code = f"import resource, sys; resource.setrlimit(resource.{what}, ({most}, {most})); "
    code += "from quell.cli import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=folder, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr.splitlines()[-1]


def test_errors_of_the_system_say_where(tmp_path: Path) -> None:
    train = ["train", "lqr", "--method", "es", "--horizon", "20", "--steps", "400", "--workers", "1", "--name", "x"]
    told = limited("RLIMIT_FSIZE", 500, tmp_path, *train)
    assert re.search(r"'runs/lqr/es/x/\S+': File too large$", told), told
    told = limited("RLIMIT_NOFILE", 10, tmp_path, *train)
    assert re.search(r"Too many open files \(`ulimit -n` allows 10\)$", told), told


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full on this system")
def test_a_full_disk_says_which_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["paper", "theorem", "--n", "5", "--rho", "1.0", "--json", "/dev/full"]) == 1
    assert capsys.readouterr().err == "quell: error: '/dev/full': No space left on device\n"
    assert explained(OSError(errno.EBADF, os.strerror(errno.EBADF), 5)) == "Bad file descriptor"
    with pytest.raises(OSError, match=r"No space left on device: 'a\.png'"), naming(Path("a.png")):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with pytest.raises(OSError, match="No space left on device: 'inner'"), naming(Path("outer")), naming(Path("inner")):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_tensorboard_has_every_point_after_kills(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    from tensorboardX.proto.event_pb2 import Event, SessionLog

    for after in (0, 3, 5):
        writer = MetricsWriter(tmp_path, after=after)
        for iteration in range(after + 1, after + 5):
            writer.write({"iteration": iteration, "steps": 100 * iteration, "speed": float(iteration)})
        written = {path: path.read_bytes() for path in (tmp_path / "tensorboard").iterdir()}
        writer.close()
        for path, data in written.items():  # as a kill would have left it
            path.write_bytes(data)
    seen: list[int] = []
    for file in sorted((tmp_path / "tensorboard").iterdir()):
        data, at = file.read_bytes(), 0
        while at < len(data):
            length = int.from_bytes(data[at : at + 8], "little")
            event = Event.FromString(data[at + 12 : at + 12 + length])
            at += 16 + length
            if event.session_log.status == SessionLog.START:
                seen = [step for step in seen if step < event.step]
            elif event.summary.value:
                seen.append(event.step)
    assert sorted(set(seen)) == list(range(100, 1000, 100)), "over environment steps"
