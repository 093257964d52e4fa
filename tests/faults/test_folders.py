"""Run folders from anywhere: nothing in them is run, no link is followed, nothing foreign deleted, and no save lost."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import quell
from quell import zoo
from quell.cli import main
from quell.config import check_out
from quell.errors import UsageError
from quell.runs import Run, checkpoint
from quell.runs.metrics import MetricsWriter

CANARY = "import pathlib; pathlib.Path({path!r}).touch()\n"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs")
    settings = {"steps": 3000, "checkpoint_every": 1, "progress": False, "workers": 1}
    return quell.train("swimmer", method="es", horizon=100, out=out, name="x", **settings).path  # type: ignore[call-overload]


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """A copy of a run, where it may be spoilt."""
    path = tmp_path / "runs" / "swimmer" / "es" / "x"
    path.parent.mkdir(parents=True)
    subprocess.run(["cp", "-r", str(trained), str(path)], check=True)
    return path


def quell_in(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "quell", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


def test_modules_in_the_folder_are_not_imported(run: Path, tmp_path: Path) -> None:
    for module in ("mujoco", "numpy", "tyro", "jax", "typing", "enum", "re", "copyreg", "socket"):
        (run / f"{module}.py").write_text(CANARY.format(path=str(tmp_path / "canary")))
    done = quell_in(run, "eval", ".", "--episodes", "1", "--workers", "1")
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "canary").exists()


def test_probes_and_children_do_not_import_from_the_working_directory(tmp_path: Path) -> None:
    for module in ("mujoco", "quell"):
        (tmp_path / f"{module}.py").write_text(CANARY.format(path=str(tmp_path / "canary")))
    from quell.video import PROBE

    for command in (["-P", "-c", PROBE], ["-P", "-m", "quell.campaign.child", "{}"]):
        subprocess.run([sys.executable, *command], cwd=tmp_path, capture_output=True)
    assert not (tmp_path / "canary").exists()
    source = Path(quell.__file__).parent
    for file in ("campaign/runner.py", "video.py", "rollout/cluster/session.py"):
        assert '[sys.executable, "-P", ' in (source / file).read_text()


def test_a_trusted_module_of_the_working_directory_is(tmp_path: Path) -> None:
    code = """
    import gymnasium
    def make():
        return gymnasium.make("CartPole-v1").unwrapped
    """
    (tmp_path / "own.py").write_text(textwrap.dedent(code))
    arguments = ["--trust-import", "own:make", "--horizon", "20", "--steps", "1", "--workers", "1", "--method", "es"]
    done = quell_in(tmp_path, "train", *arguments)
    assert done.returncode == 0, done.stderr


def test_modules_beside_a_notebook_reach_the_workers(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "import gymnasium\ndef make():\n    return gymnasium.make('CartPole-v1').unwrapped\n"
    )
    code = (
        "import own, quell; from quell.tasks import from_env; "
        "quell.train(from_env(own.make, horizon=9), method='es', steps=1, workers=1, progress=False)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


LINKS = [
    ".metrics.jsonl.tmp",
    "metrics.jsonl",
    "metrics.csv",
    "lock",
    ".config.json.tmp",
    "config.json",
    "checkpoints/.00000099.tmp",
]


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize("name", LINKS)
def test_no_link_is_followed_when_writing(name: str, run: Path, tmp_path: Path) -> None:
    outside = tmp_path / "precious"
    outside.write_text((run / name).read_text() if (run / name).is_file() else "precious")
    before = outside.read_bytes()
    (run / name).unlink(missing_ok=True)
    (run / name).symlink_to(outside)
    assert main(["resume", str(run), "--steps", "4000"]) in (0, 1, 2)
    assert outside.read_bytes() == before


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize("name", ["tensorboard", "checkpoints"])
def test_no_linked_folder_is_written_into(name: str, run: Path, tmp_path: Path) -> None:
    (run / name).rename(tmp_path / "elsewhere")
    (run / name).symlink_to(tmp_path / "elsewhere")
    before = sorted((tmp_path / "elsewhere").rglob("*"))
    assert main(["resume", str(run), "--steps", "4000"]) == 2 or name == "checkpoints"
    assert sorted((tmp_path / "elsewhere").rglob("*")) == before


def test_foreign_folders_among_the_checkpoints_are_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    (folder / "20240101").mkdir(parents=True)
    (folder / "20240101" / "photo.jpg").touch()
    (folder / "00000001").mkdir()
    (folder / "00000001" / "notes.txt").touch()
    for iteration in range(2, 9):
        checkpoint.save(folder, iteration, {"theta": np.zeros(3, np.float32)}, {"iteration": iteration}, keep=2)
    assert (folder / "20240101" / "photo.jpg").exists()
    assert (folder / "00000001" / "notes.txt").exists()
    assert checkpoint.iterations(folder) == [7, 8]


def test_an_abandoned_future_never_costs_the_present(tmp_path: Path) -> None:
    theta = {"theta": np.zeros(3, np.float32)}
    checkpoint.save(tmp_path, 100, theta, {"iteration": 100}, keep=1)
    (tmp_path / "00000120").mkdir()
    (tmp_path / "00000120" / "manifest.json").write_text("{}")
    checkpoint.save(tmp_path, 101, theta, {"iteration": 101}, keep=1)
    with pytest.warns(UserWarning, match="skipped"):
        saved = checkpoint.load_newest(tmp_path)
    assert saved is not None
    assert saved[1]["iteration"] == 101


@pytest.mark.parametrize("method", ["../../x", "/etc", "..", ".hidden", ""])
def test_a_method_cannot_leave_the_run_root(method: str, run: Path, tmp_path: Path) -> None:
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps(config | {"method": method}))
    before = set(tmp_path.rglob("*"))
    assert main(["resume", str(run), "--fork", "--steps", "4000", "--pairs", "2"]) == 0
    assert all(run.parent in path.parents for path in set(tmp_path.rglob("*")) - before), "a method's name is derived"


def test_a_fork_of_a_stray_folder_stays_beside_it(run: Path, tmp_path: Path) -> None:
    stray = tmp_path / "a" / "b" / "stray"
    stray.parent.mkdir(parents=True)
    run.rename(stray)
    with Run.open(stray).fork(Run.open(stray).config) as forked:
        assert forked.path.is_relative_to(stray.parent)
        assert checkpoint.iterations(forked.checkpoints) == checkpoint.iterations(stray / "checkpoints")


def test_the_lock_names_who_holds_it(run: Path) -> None:
    with Run.open(run) as held:
        held.lock()
        with pytest.raises(UsageError, match=f"process {os.getpid()} is writing"):
            Run.open(run).lock()


def test_a_folder_that_cannot_be_written_is_one_line(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / "lock").unlink(missing_ok=True)
    (run / "lock").mkdir()  # as good as a read-only disk, also for root
    assert main(["resume", str(run)]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


@pytest.mark.filterwarnings("ignore:checkpoint skipped")
def test_no_valid_checkpoint_is_exit_2(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in (run / "checkpoints").iterdir():
        (path / "arrays.safetensors").write_bytes(b"")
    for command in ("resume", "eval"):
        assert main([command, str(run)]) == 2
        assert "no intact checkpoint" in capsys.readouterr().err


@pytest.mark.usefixtures("in_process")
def test_a_run_killed_before_its_first_checkpoint_begins_again(run: Path, trained: Path) -> None:
    subprocess.run(["rm", "-r", str(run / "checkpoints"), str(run / "metrics.jsonl")], check=True)
    again = quell.resume(run, workers=1, progress=False)
    assert again.theta.tobytes() == quell.load(trained).theta.tobytes()


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize("there", ["a run of that name", "nothing"])
def test_a_working_directory_that_changes_costs_no_run_anything(
    there: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is saved after `os.chdir` goes where the run began, never into the run of that name elsewhere."""

    class Moves(quell.Callback):
        def on_iteration(self, row: dict[str, Any]) -> None:
            if row["iteration"] == 3:
                os.chdir(tmp_path / "b")

    settings: dict[str, Any] = {"method": "es", "horizon": 20, "pairs": 1, "checkpoint_every": 1, "name": "x"}
    settings |= {"eval_episodes": 1, "workers": 1, "progress": False}
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path / "b")
    if there == "a run of that name":
        quell.train("lqr-302", steps=160, **settings)
    before = {path: path.read_bytes() for path in (tmp_path / "b").rglob("*") if path.is_file()}
    monkeypatch.chdir(tmp_path / "a")
    result = quell.train("lqr-302", steps=280, seed=7, callbacks=[Moves()], **settings)
    assert (Path.cwd(), result.iteration, len(result.history)) == (tmp_path / "b", 7, 7)
    assert checkpoint.iterations(tmp_path / "a/runs/lqr-302/es/x/checkpoints") == [5, 6, 7]
    assert {path: path.read_bytes() for path in (tmp_path / "b").rglob("*") if path.is_file()} == before
    monkeypatch.chdir(tmp_path / "a")
    quell.resume("runs/lqr-302/es/x", steps=360, callbacks=[Moves()], progress=False)
    assert checkpoint.iterations(tmp_path / "a/runs/lqr-302/es/x/checkpoints") == [7, 8, 9]


@pytest.mark.usefixtures("in_process")
def test_leftover_temporaries_go(run: Path) -> None:
    (run / ".config.json.tmp").write_text("half")
    (run / "checkpoints" / ".00000007.tmp").mkdir()
    (run / "checkpoints" / ".00000007.tmp" / "arrays.safetensors").write_text("half")
    quell.resume(run, steps=4000, workers=1, progress=False)
    assert not list(run.rglob(".*"))


KILLED = """
import os, sys
from pathlib import Path
import numpy as np
from quell.runs import checkpoint
folder, rewrite = Path(sys.argv[1]), sys.argv[2] == "rewrite"
CALLS = ("open", "mkdir", "rename", "unlink", "rmdir", "fsync", "replace")

def save(iteration, value):
    theta = np.full(3, value, np.float32)
    return checkpoint.save(folder, iteration, {"theta": theta}, {"iteration": iteration}, keep=2)

def armed(after):
    left = [after]
    def wrap(call):
        def wrapped(*args, **kwargs):
            if left[0] == 0:
                os._exit(9)
            left[0] -= 1
            return call(*args, **kwargs)
        return wrapped
    for name in CALLS:
        setattr(os, name, wrap(getattr(os, name)))

import safetensors.numpy
for point in range(1000):
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    for iteration in (1, 2, 3):
        save(iteration, 0.0)
    child = os.fork()
    if child == 0:
        armed(point)
        save(3 if rewrite else 4, 1.0)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    saved = checkpoint.load_newest(folder)
    assert saved is not None and saved[1]["iteration"] in ((3,) if rewrite else (3, 4)), (point, saved)
    if not rewrite and saved[1]["iteration"] == 3:
        assert saved[0]["theta"][0] == 0.0
    save(5, 2.0)  # and the next save tidies up
    assert not [path for path in folder.iterdir() if path.name.startswith(".")], point
    if code == 0:
        print(point)
        break
"""


@pytest.mark.parametrize("how", ["new", "rewrite"])
def test_a_kill_at_any_call_of_a_save_loses_nothing(how: str, tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", KILLED, str(tmp_path / "x"), how], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 15  # points at which it was killed


STEERS = "\x1b]0;pwn\x07\x1b[2J\x1b[8m\u202e"  # a title, a cleared screen, hidden text, text from right to left


@pytest.mark.usefixtures("in_process")
def test_no_name_in_a_folder_steers_the_terminal(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names of folders, tasks and files, on stdout as on stderr; and none looks like two lines of a table."""
    there = run.with_name(f"y{STEERS}\n{'z' * 9}")
    run.rename(there)
    monkeypatch.chdir(there.parent)
    commands = [
        ["list", "runs", "."],
        ["resume", there.name, "--steps", "4000"],
        ["eval", there.name, "--episodes", "1"],
        ["eval", ".", "--episodes", "1"],
        ["export", there.name, "--out", STEERS],
        ["report", ".", "--out", f"{STEERS}.html"],
    ]
    for command in commands:
        assert main(command) == 0
    file = there / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"task": f"gym:{STEERS}"}))
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal, where headings are bold
    assert main(["list", "runs", "."]) == 0
    told = capsys.readouterr()
    assert "gym:?]0;pwn" in told.out
    assert "?zzzzzzzzz " in told.out, "a row is a line"
    seen = re.sub("\x1b\\[[01]m", "", told.out + told.err)
    assert seen.count("zzzzzzzzz") == 5
    assert [c for c in seen if not c.isprintable() and c != "\n"] == []


@pytest.mark.usefixtures("in_process")
def test_files_that_settings_name_are_opened_where_that_is_trusted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By whoever gave them, to `train` or now, or who says that the folder may be trusted."""
    model = tmp_path / "own.xml"
    model.write_bytes((Path(gymnasium.__file__).parent / "envs/mujoco/assets/hopper.xml").read_bytes())
    settings: dict[str, Any] = {"horizon": 5, "pairs": 1, "steps": 10, "eval_episodes": 1, "workers": 1}
    settings |= {"task_settings": {"xml_file": str(model)}, "progress": False}
    path = quell.train("gym:Hopper-v5", method="es", out=tmp_path, **settings).path
    refused = r"name a file for gym:Hopper-v5 to open \(xml_file = '/.*own.xml'\): add `trust_files=True` if you know"
    with pytest.raises(UsageError, match=refused):
        quell.load(path)
    with pytest.raises(UsageError, match=refused):
        quell.resume(path, steps=20, progress=False)
    assert main(["eval", str(path)]) == 2
    assert "add `--trust-files` if you know where the folder is from" in capsys.readouterr().err
    assert quell.load(path, trust_files=True).iteration == 1
    assert quell.load(path, env=quell.task("gym:Hopper-v5", xml_file=str(model))).iteration == 1
    assert main(["eval", str(path), "--trust-files", "--episodes", "1", "--workers", "1"]) == 0
    monkeypatch.setattr(zoo, "HOME", tmp_path / "zoo")
    assert main(["export", str(path), "--zoo", "mine", "--episodes", "1"]) == 2
    assert main(["export", str(path), "--zoo", "mine", "--episodes", "1", "--trust-files"]) == 0
    assert main(["resume", str(path), "--trust-files", "--steps", "20", "--workers", "1"]) == 0
    other = {"xml_file": "hopper.xml"}  # which is Gymnasium's own
    assert quell.resume(path, fork=True, task_settings=other, steps=30, workers=1, progress=False).finished


HOSTILE = {
    "a fifo": lambda path: os.mkfifo(path.unlink() or path),
    "a sparse giant": lambda path: os.truncate(path, 1 << 40),
    "deep": lambda path: path.write_text("[" * 200_000),
    "a device": lambda path: (path.unlink(), path.symlink_to("/dev/zero")),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
    "a list": lambda path: path.write_text("[]"),
    "a word": lambda path: path.write_text('"x"'),
    "bytes": lambda path: path.write_bytes(b"\xff\xfe\x00"),
}


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("name", ["config.json", "metrics.jsonl", "checkpoints/{}/manifest.json"])
def test_hostile_files_are_answered_in_lines(
    kind: str, name: str, run: Path, capsys: pytest.CaptureFixture[str], recwarn: pytest.WarningsRecorder
) -> None:
    newest = f"{checkpoint.iterations(run / 'checkpoints')[-1]:08d}"
    HOSTILE[kind](run / name.format(newest))
    code = main(["eval", str(run), "--episodes", "1", "--workers", "1"])
    assert code == 2 if name == "config.json" else code in (0, 1, 2)
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "change", [{"steps": "many"}, {"iteration": None}, {"obs_count": float("inf")}, {"seconds": -1.0}, {"config": []}]
)
def test_states_that_are_none_are_refused(change: dict[str, object], tmp_path: Path) -> None:
    state = {"iteration": 1, "steps": 1, "obs_count": 1.0, "config": {}} | change
    path = checkpoint.save(tmp_path, 1, {"theta": np.zeros(2, np.float32)}, state, keep=1)
    with pytest.raises(checkpoint.CorruptCheckpoint):
        checkpoint.load(path)


def test_nan_in_theta_is_refused(tmp_path: Path) -> None:
    path = checkpoint.save(tmp_path, 1, {"theta": np.full(2, np.nan, np.float32)}, {"iteration": 1}, keep=1)
    with pytest.raises(checkpoint.CorruptCheckpoint, match="theta holds NaN"):
        checkpoint.load(path)


@pytest.mark.parametrize("value", ['"$(touch x)"', "NaN", "-Infinity", "1" + "0" * 400, "[]", "{}"])
def test_metrics_that_are_none_end_the_history(value: str, tmp_path: Path) -> None:
    lines = ['{"iteration": 1}\n', f'{{"iteration": 2, "steps": {value}}}\n', '{"iteration": 3}\n']
    (tmp_path / "metrics.jsonl").write_text("".join(lines))
    MetricsWriter(tmp_path, after=5).close()
    assert (tmp_path / "metrics.jsonl").read_text() == '{"iteration": 1}\n'


def test_one_run_root_is_tried_from_many_threads_at_once(tmp_path: Path) -> None:
    """Seeds side by side look at the same root: none removes the file with which another tries it."""
    start = threading.Barrier(8)

    def often(_: int) -> None:
        start.wait()
        for _ in range(200):
            check_out(tmp_path / "runs")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(often, range(8)))
    assert not list((tmp_path / "runs").iterdir())
