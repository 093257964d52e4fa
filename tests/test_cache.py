"""Compiled programs are kept between processes, in a folder that nobody else can write to."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from quell.cache import compiled_folder, is_ours, prune

PROGRAM = """
from quell.cache import keep_compiled
{before}
keep_compiled()
import jax, jax.numpy as jnp
print(jax.jit(lambda x: jnp.sin(x).sum() * 3)(jnp.arange(7.0)), bool(jax.config.jax_compilation_cache_dir))
"""


def run(home: Path, before: str = "", **environment: str) -> str:
    """What a process prints that compiles something; it may not warn."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "XDG_"))}
    command = [sys.executable, "-W", "error", "-c", PROGRAM.format(before=before)]
    environment = kept | {"XDG_CACHE_HOME": str(home)} | environment
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.strip()


def entries(home: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in home.glob("quell/compiled-*/*-cache")}


@pytest.mark.parametrize("before", ["", "import jax"])
def test_what_one_process_compiles_the_next_one_loads(tmp_path: Path, before: str) -> None:
    first = run(tmp_path, before)
    there = entries(tmp_path)
    assert len(there) > 0
    assert run(tmp_path, before) == first
    assert entries(tmp_path) == there
    (folder,) = tmp_path.glob("quell/compiled-*")
    assert folder.stat().st_mode & 0o777 == folder.parent.stat().st_mode & 0o777 == 0o700


def test_an_entry_that_was_cut_short_costs_time_alone(tmp_path: Path) -> None:
    first = run(tmp_path)
    for path in tmp_path.glob("quell/compiled-*/*-cache"):
        path.write_bytes(path.read_bytes()[:100])
    assert run(tmp_path) == first


def test_what_the_user_decided_holds(tmp_path: Path) -> None:
    own = tmp_path / "own"
    assert run(tmp_path, JAX_COMPILATION_CACHE_DIR=str(own)).endswith("True")
    assert run(tmp_path, JAX_COMPILATION_CACHE_DIR="").endswith("False")
    assert run(tmp_path, f"import jax; jax.config.update('jax_compilation_cache_dir', {str(own)!r})").endswith("True")
    run(tmp_path, JAX_ENABLE_COMPILATION_CACHE="false")
    assert not entries(tmp_path)


def test_a_folder_that_others_can_write_to_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What lies in it would be run."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = compiled_folder()
    assert is_ours(folder)
    for part in (folder, folder.parent):
        part.chmod(0o770)
        assert not is_ours(folder)
        part.chmod(0o700)
    folder.rmdir()
    folder.symlink_to(tmp_path)
    assert not is_ours(folder)
    folder.unlink()
    folder.write_text("a file")
    assert not is_ours(folder)
    folder.unlink()
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert not is_ours(folder)
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    assert not is_ours(compiled_folder())


def test_the_oldest_programs_go_once_there_is_too_much(tmp_path: Path) -> None:
    for age in range(10):
        (tmp_path / f"{age}").write_bytes(bytes(100))
        os.utime(tmp_path / f"{age}", (1000 - age, 1000 - age))
    prune(tmp_path, 1000)
    assert len(list(tmp_path.iterdir())) == 10
    prune(tmp_path, 999)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1", "2", "3"]
