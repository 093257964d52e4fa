"""Memory is looked at before it is taken: what is free of the machine, of control groups, and of the process's own."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from quell import limits
from quell.cli import main
from quell.errors import UsageError
from quell.limits import free_memory, require_memory
from quell.runs import files

MB = 1 << 20


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A made-up machine with 64 GB, of which 40 are free and 2 are room to swap."""
    monkeypatch.setattr(limits, "PROC", tmp_path / "proc")
    monkeypatch.setattr(limits, "GROUPS", tmp_path / "cgroup")
    lines = ["MemTotal: 67108864 kB", "MemFree: 1024 kB", "MemAvailable: 40960000 kB", "SwapFree: 2048000 kB"]
    put(tmp_path / "proc/meminfo", "\n".join(lines))
    return tmp_path


def put(path: Path, text: str | int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def test_memory_is_asked_for_first() -> None:
    require_memory(1 << 20, "a megabyte")
    with pytest.raises(UsageError, match=r"a lot would take 1,048,576 GiB of memory, and [\d.]+ are free \w+"):
        require_memory(1 << 50, "a lot")


def test_memory_that_others_hold_is_not_free(machine: Path) -> None:
    assert free_memory() == (1024 * 43_008_000, "on this machine")
    (machine / "proc/meminfo").unlink()
    assert free_memory()[0] > 0, "all there is, where nobody knows"


V1 = ("5:memory:{}", "cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_")
V2 = ("0::{}", "cgroup", "memory.max", "memory.current", "")


@pytest.mark.parametrize("version", [V1, V2], ids=["v1", "v2"])
@pytest.mark.parametrize(
    ("name", "limited"),
    [
        ("/job/step", "job/step"),
        ("/job/step", "job"),
        ("/job/step", ""),  # as a container has it: its own group is the root it sees
        ("/", ""),
        ("/../outside", ""),
    ],
)
def test_a_limit_of_a_control_group_or_of_one_above_it(
    version: tuple[str, ...], name: str, limited: str, machine: Path
) -> None:
    line, mount, limit, used, prefix = version
    put(machine / "proc/self/cgroup", f"3:cpu:/elsewhere\n{line.format(name)}")
    for folder in ("", "job", "job/step"):
        unlimited = 2**63 - 4096 if prefix else "max"
        put(machine / mount / folder / limit, 700 * MB if folder == limited else unlimited)
        put(machine / mount / folder / used, 300 * MB)
    assert free_memory() == (400 * MB, f"in its control group, {machine / mount / limited}")
    stat = machine / mount / limited / "memory.stat"
    put(stat, f"{prefix}inactive_file {60 * MB}\n{prefix}active_file {40 * MB}\ninactive_anon {MB}")
    assert free_memory()[0] == 500 * MB, "copies of files make room"
    with pytest.raises(UsageError, match=r"a GB would take 1.0 GiB of memory, and 0.5 are free in its control group"):
        require_memory(1 << 30, "a GB")


def test_a_run_that_does_not_fit_into_its_group_is_refused(
    machine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(machine / "proc/self/cgroup", "4:memory:/slurm/job_7")
    put(machine / "cgroup/memory/slurm/job_7/memory.limit_in_bytes", 700 * MB)
    put(machine / "cgroup/memory/slurm/job_7/memory.usage_in_bytes", 200 * MB)
    out = tmp_path / "runs"
    assert main(["train", "lqr", "--method", "es", "--pairs", "20000", "--steps", "100", "--out", str(out)]) == 2
    assert "GiB of memory, and 0.5 are free in its control group" in capsys.readouterr().err
    assert not list(out.glob("*/*/*"))


@contextmanager
def ulimit(more: int) -> Iterator[None]:
    """So many bytes more than are mapped."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (limits._address_space() + more, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def test_the_limit_of_a_process(capsys: pytest.CaptureFixture[str]) -> None:
    with ulimit(300 * MB):
        free, where = free_memory()
        code = main(["paper", "theorem", "--d", "10000000", "--simulate", "10"])
    assert 250 * MB < free <= 300 * MB
    assert where == "of what `ulimit -v` allows"
    assert code == 2
    assert "are free of what `ulimit -v` allows" in capsys.readouterr().err


def test_a_small_file_takes_little_however_large_it_may_be(tmp_path: Path) -> None:
    """A run under `ulimit -v` ended with an error, once it was done: room for the largest checkpoint was asked for."""
    (tmp_path / "small").write_bytes(b"small")
    with ulimit(300 * MB):
        assert files.read(tmp_path / "small", files.HUGE) == b"small"


def test_running_out_of_memory_is_reported(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def takes(*_: object) -> int:
        error = MemoryError()
        error.add_note("saved after iteration 3: quell resume x")
        raise error

    monkeypatch.setattr("quell.commands.list.tasks.main", takes)
    assert main(["list", "tasks"]) == 1
    told = capsys.readouterr().err.splitlines()
    assert told[0].startswith("quell: error: out of memory: ")
    assert " GiB of memory are free " in told[0]
    assert told[1:] == ["saved after iteration 3: quell resume x"]
