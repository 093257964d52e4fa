"""Hostile run folders and records: one line, quickly, in little memory; nothing outside is touched, nothing is run."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import hostile
import pytest
from made_up import made_up

import quell
from quell.cli import main

SECONDS, MEGABYTES = 3.0, 300
FORBIDDEN = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "pickle.find_class", "socket.connect")
"""What nothing in a run folder may bring about before it is refused."""
EXTRA = {"eval": ["--episodes", "1", "--workers", "1"], "resume": ["--steps", "9000", "--workers", "1"]}
EXTRA |= {"export": ["--out", "{run}/policy"], "play": ["--video", "{run}/x.gif"]}


def arguments(command: str, run: Path) -> list[str]:
    return [command, str(run), *(word.format(run=run) for word in EXTRA[command])]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A run of a method, made when it is first asked for."""

    @functools.cache
    def made(method: str) -> Path:
        settings: dict[str, Any] = {"horizon": 100, "steps": 3000, "normalise_obs": True, "keep_checkpoints": 1}
        out = tmp_path_factory.mktemp("runs")
        path = quell.train("swimmer", method=method, out=out, name="x", workers=1, progress=False, **settings).path
        for command in hostile.ALL:  # import all there is to import
            assert main(arguments(command, path)) == 0
        return path

    return made


@pytest.fixture
def run(
    trained: Callable[[str], Path],
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    """A copy of the case's run to spoil, among things that must stay as they are; it is the working directory."""
    path, case = tmp_path / "x", getattr(request.node, "callspec", None)
    method = case.params["case"].method if case is not None and "case" in case.params else "es"
    subprocess.run(["cp", "-r", str(trained(method)), str(path)], check=True)
    (tmp_path / "precious").write_text("precious")
    for module in ("mujoco", "numpy", "evil"):
        (path / f"{module}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.chdir(path)
    return path


def outside(run: Path) -> dict[str, Any]:
    """Everything beside the run folder, with its contents."""
    found = {}
    for path in sorted(run.parent.rglob("*")):
        if not path.is_relative_to(run):
            found[str(path)] = path.read_bytes() if path.is_file() else path.is_symlink()
    return found


events: list[str] | None = None


def listen(event: str, arguments: tuple[Any, ...]) -> None:
    if events is None:
        return
    if event in FORBIDDEN:
        events.append(f"{event} {arguments!r:.200}")
    if event == "open" and isinstance(arguments[0], str) and arguments[2] & (os.O_WRONLY | os.O_RDWR):
        events.append(f"open {arguments[0]}")


sys.addaudithook(listen)


@contextmanager
def watched(run: Path, allowed: tuple[str, ...] = ()) -> Iterator[None]:
    """Processor time, memory and what is opened or started while something happens."""
    global events
    before = outside(run)
    with measured():
        events = []
        try:
            yield
        finally:
            seen, events = events, None
    inside = [str(run), os.devnull, *allowed]
    assert not [event for event in seen if not any(place in event for place in inside)]
    assert outside(run) == before


@contextmanager
def measured() -> Iterator[None]:
    """Processor time and memory while something happens."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak is measured from here on
    held, begun = status("VmRSS"), time.process_time()
    yield
    assert time.process_time() - begun < SECONDS
    assert status("VmHWM") - held < MEGABYTES * 1024


def status(name: str) -> int:
    """A line of /proc/self/status, in kB."""
    (line,) = [row for row in Path("/proc/self/status").read_text().splitlines() if row.startswith(name)]
    return int(line.split()[1])


def refused(run: Path, case: hostile.Case, capsys: pytest.CaptureFixture[str]) -> None:
    case.spoil(run)
    for command in case.commands:
        with watched(run):
            code = main(arguments(command, run))
        told = capsys.readouterr()
        assert code in (1, 2), told
        assert told.out == ""
        assert told.err.startswith("quell: error: "), told.err
        assert told.err.count("\n") == 1, told.err
        assert told.err.isprintable() or told.err[:-1].isprintable(), told.err
        assert len(told.err) < 2000


def test_there_are_enough_of_them() -> None:
    assert len(hostile.CASES) >= 200
    assert len({case.name for case in hostile.CASES}) == len(hostile.CASES)


SAMPLE = 9  # every so many are in the quick tests
MARKED = [
    pytest.param(case, id=ascii(case.name)[1:-1], marks=[pytest.mark.slow] if number % SAMPLE else [])
    for number, case in enumerate(hostile.CASES)
]


@pytest.mark.parametrize("case", MARKED)
def test_a_hostile_folder_is_refused_in_a_line(
    case: hostile.Case, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused(run, case, capsys)


ROWS: dict[str, dict[str, Any]] = {
    "no numbers": {},
    "null": dict.fromkeys(quell.runs.metrics.METRICS),
    "huge": dict.fromkeys(quell.runs.metrics.METRICS, 1e307),
    "below zero": dict.fromkeys(quell.runs.metrics.METRICS, -1.0),
}


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("command", ["eval", "resume", "runs", "report"])
def test_metrics_that_say_little_are_borne(
    command: str, rows: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No command needs a number in them, also where nothing is left to train; a page has none of such a size."""
    lines = [json.dumps({**ROWS[rows], "iteration": i, "steps": i, "trouble/flat": i % 2}) for i in (1, 2, 3)]
    (run / "metrics.jsonl").write_text("".join(line + "\n" for line in lines))
    words = {"runs": ["list", "runs", "."], "report": ["report", ".", "--out", "page.html"], "resume": ["resume", "."]}
    code = main(words.get(command) or arguments(command, run))
    assert code == 2 if (command, rows) == ("report", "huge") else code == 0, capsys.readouterr().err


@pytest.mark.parametrize("command", ["eval", "resume", "runs"])
def test_endless_metrics_take_little(command: str, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """28 MB of one line: the second is out of order, and ends the history."""
    with (run / "metrics.jsonl").open("w") as file:
        file.writelines(['{"iteration": 1, "steps": 1}\n'] * 1_000_000)
    with measured():
        assert main(["list", "runs", "."] if command == "runs" else arguments(command, run)) == 0
    assert len(list(quell.runs.Run(run).metrics())) == 1


def reported(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with watched(run):
        code = main(["report", str(run), "--out", str(run / "page.html")])
    told = capsys.readouterr()
    assert code == 2, told
    assert told.out == ""
    assert told.err.count("\n") == 1, told.err
    assert not (run / "page.html").exists()


@pytest.mark.parametrize("name", hostile.RECORDS)
def test_a_hostile_record_is_refused_in_a_line(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "results"
    run.mkdir()
    made_up("swimmer", "es", 0, 1.0).write(run / "x.json")
    facts = json.loads((run / "x.json").read_text())
    (run / "x.json").write_text(json.dumps(hostile.RECORDS[name](facts)))
    reported(run, capsys)


@pytest.mark.parametrize("kind", hostile.SPECIAL)
def test_a_file_that_only_looks_like_a_record_is_refused(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "results"
    run.mkdir()
    hostile.SPECIAL[kind](run / "x.json")
    reported(run, capsys)


def test_half_a_character_in_a_name_is_shown_as_something_else(tmp_path: Path) -> None:
    record = made_up("swimmer", "es", 0, 1.0)
    record.write(tmp_path / "x.json")
    text = (tmp_path / "x.json").read_text().replace('"swimmer"', '"\\ud800"')
    (tmp_path / "x.json").write_text(text)
    assert main(["report", str(tmp_path), "--out", str(tmp_path / "page.html")]) == 0


MEASURED = """
import os, resource, sys
code = os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-m", "quell", *sys.argv[1:]])
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(code, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
"""
WHOLE = [
    *("config.json is fifo", "arrays.safetensors is 3 GiB of holes", "state: deep lists", "metrics is endless device"),
    *("task = 'gym:os:system'", "safetensors: million axes", "policy.hidden = [1000000000, 1000000000]"),
    *(
        "a setting names the file './made'",
        "edited policy.activation",
        "state of a newer quell",
        "safetensors: strange names",
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize("command", EXTRA)
@pytest.mark.parametrize("name", WHOLE)
def test_a_process_of_its_own_needs_little(name: str, command: str, run: Path) -> None:
    """From its start to its end; seconds are those of the processor, since a machine has other things to do."""
    (case,) = [case for case in hostile.CASES if case.name == name]
    case.spoil(run)
    before = outside(run)
    environment = {**os.environ, **({"MUJOCO_GL": "osmesa"} if command == "play" else {})}  # it need not try them out
    measured = [sys.executable, "-P", "-c", MEASURED, *arguments(command, run)]
    done = subprocess.run(measured, cwd=run, capture_output=True, text=True, timeout=60, env=environment)
    code, seconds, megabytes = done.stdout.split()
    assert code in ("1", "2"), done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert float(seconds) < SECONDS
    assert float(megabytes) < MEGABYTES
    assert outside(run) == before
