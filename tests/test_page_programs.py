"""Lines on the pages that are not quell's own, carried out in a version that takes seconds: pip, make, python and Ray.

Nothing is fetched: pip has to find what is asked for among what is installed here, where `.[dev]` is.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from pages import PAGES, ROOT, blocks, lines, said

from quell.rollout.cluster.session import _descendants

OFFLINE = ["--disable-pip-version-check", "--no-cache-dir", "--no-index", "--no-build-isolation"]
"""hatchling, which builds the package, is installed with the extra dev."""
SECONDS = 300
ALONE = {
    **{"dm_control": "dm_control", "pybullet-envs-gymnasium": "pybullet_envs_gymnasium"},
    **{"jax[cuda12]": "jax_cuda12_plugin", "quell[mjx-warp]": "warp"},
}
"""What a page has a reader install by itself -> the module that it is."""


def run(command: list[str], folder: Path, **variables: str) -> str:
    """What a command prints; it must succeed."""
    environment = {**os.environ, **variables}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout + done.stderr


def pip_lines() -> list[Any]:
    """Looking for everything that `all` needs takes longer."""
    marks = {True: [pytest.mark.slow], False: []}
    return [pytest.param(words, id=" ".join(words), marks=marks["all" in words[-1]]) for words in said("pip")]


@pytest.mark.parametrize("words", pip_lines())
def test_pip_finds_what_it_is_asked_for(words: list[str]) -> None:
    pytest.importorskip("hatchling")
    if "--require-hashes" in words:
        pytest.importorskip("editables")  # it came with the rest, from the same file
    if (package := ALONE.get(words[-1])) and find_spec(package) is None:
        pytest.skip("it is not for this Python, or for machines with a GPU alone")
    told = run([sys.executable, "-m", "pip", *words, *OFFLINE, "--dry-run"], ROOT)
    assert "does not provide the extra" not in told
    assert ("Would install quell-" in told) == words[-1].startswith("."), "and nothing else: what it needs is here"
    assert "Would install" not in told.replace("Would install quell-", "")


def test_the_installed_package_runs(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    run([sys.executable, "-m", "pip", "install", ".", *OFFLINE, "--no-deps", "--target", str(tmp_path)], ROOT)
    code = "import quell; print(quell.__file__)"
    assert run([sys.executable, "-c", code], tmp_path, PYTHONPATH=str(tmp_path)).startswith(str(tmp_path))
    assert "usage: quell" in run([str(tmp_path / "bin/quell")], tmp_path, PYTHONPATH=str(tmp_path))


STAND_INS = {
    "python": ("[]", "['--task', 'hopper', *'--steps 2000 --seeds 2 --episodes 2 --estimates 2'.split()]"),
    "pip": ("['-m', 'pip']", f"['--dry-run', *{OFFLINE}]"),
    "pytest": ("['-m', 'pytest']", "['tests/test_keys.py']"),
    **{name: (f"['-m', {name!r}]", "[]") for name in ("ruff", "mypy", "mkdocs")},
}
"""Program in .venv/bin -> what goes in front of the words that make gives it, and what comes after them."""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of this one, whose .venv has this environment's programs, told to take seconds."""
    folder = tmp_path_factory.mktemp("fresh") / "quell"
    made = shutil.ignore_patterns(".git", ".venv", ".*_cache", "runs", "site")
    shutil.copytree(ROOT, folder, ignore=lambda where, names: made(where, names) if where == str(ROOT) else set())
    programs = folder / ".venv/bin"
    programs.mkdir(parents=True)
    for name, (before, after) in STAND_INS.items():
        given = "[word for word in sys.argv[1:] if word != '--editable']"  # which would need one more package to build
        command = f"os.execv(sys.executable, [sys.executable, *{before}, *{given}, *{after}])"
        (programs / name).write_text(f"#!{sys.executable}\nimport os, sys\n{command}\n")
        (programs / name).chmod(0o755)
    (programs / "uv").write_text("#!/bin/sh\ncat > /dev/null\n")  # it finds that all is as it should be
    (programs / "uv").chmod(0o755)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("words", [words for words in said("make") if words != ["clean"]], ids=" ".join)
def test_make_does_what_it_is_asked_for(words: list[str], checkout: Path) -> None:
    path = os.pathsep.join((str(checkout / ".venv/bin"), os.environ["PATH"]))
    caches = {"MYPY_CACHE_DIR": str(ROOT / ".mypy_cache")}
    words = [word for word in words if not word.startswith("PYTHON=")]  # of which .venv has one
    told = run(["make", *words], checkout, PYTHONPATH=str(checkout / "src"), PATH=path, **caches)
    assert (checkout / "constraints.txt").read_text() == (ROOT / "constraints.txt").read_text()
    seen = {"run": "P(CV above ES)", "test": " passed", "docs": "open site/index.html", "lint": "no issues found"}
    for target in ("lint", "docs", "test") if words[0] == "check" else words:
        assert seen.get(target.partition("-")[0], "") in told
        assert target != "docs" or (checkout / "site/first-run.html").is_file()


SHORT = {
    "benchmarks/ablation.py": [
        "--tasks",
        "swimmer",
        "--variants",
        "es-adam",
        "--seeds",
        "1",
        "--steps",
        "2000",
        "--out",
        ".",
    ],
    "benchmarks/cluster.py": ["--rounds", "1", "--widths", "1"],
    "benchmarks/device.py": [
        *("--tasks", "lqr", "--members", "8", "--impls", "jax", "--rows", "es", "--rounds", "1"),
    ],
    "benchmarks/device_peers.py": [
        "--envs",
        "inverted_pendulum",
        "--members",
        "16",
        "--horizon",
        "20",
        "--rounds",
        "1",
    ],
    "benchmarks/films.py": ["swimmer"],
    "benchmarks/flat.py": ["inverted-pendulum", "--methods", "natural-cv", "--seeds", "100", "--steps", "2000"],
    "benchmarks/normalisation.py": ["--tasks", "swimmer", "--pairs", "2", "--iterations", "20"],
    "benchmarks/parity.py": ["inverted-pendulum", "--episodes", "0", "--steps", "2"],
    "benchmarks/same_bits.py": ["--methods", "es", "--tasks", "swimmer", "--on-ray"],
    "benchmarks/scale_model.py": [],
    "benchmarks/soak.py": ["--iterations", "200", "--every", "0.1", "--out", "soak.json"],
    "benchmarks/task_speed.py": ["--seconds", "0.1", "--workers", "1"],
    "benchmarks/throughput.py": ["--rounds", "1", "--processes", "1", "--rows", "es", "--workers", "1"],
}
"""Script -> what makes it take seconds."""


@pytest.mark.slow
@pytest.mark.parametrize("words", [words for words in said("python") if words[0] in SHORT], ids=" ".join)
def test_benchmarks_run(words: list[str], tmp_path: Path) -> None:
    script, *rest = ["swimmer" if word == "TASK" else "HEAD" if word == "COMMIT" else word for word in words]
    if script.endswith("device_peers.py"):
        pytest.importorskip("brax")
        pytest.importorskip("evosax")
    if "HEAD" in rest and not (ROOT / ".git").exists():
        pytest.skip("there is no other commit to compare with")
    run([sys.executable, str(ROOT / script), *(word for word in rest if word != "..."), *SHORT[script]], tmp_path)


def test_no_script_is_forgotten() -> None:
    """Those of examples/ run in tests/examples; what those of docs/ write is compared with what is there."""
    for script, *_ in said("python"):
        assert script in SHORT or script.startswith(("examples/", "docs/make_", "-m", "-P")), script


BASH = [text for page in PAGES for language, text in blocks(page) if language == "bash"]
CLUSTERS = [text for text in BASH if any(words[0] == "ray" for words in lines(text))]
"""Blocks that start a cluster, and then use it."""


@contextmanager
def node(words: list[str], folder: Path, environment: dict[str, str]) -> Iterator[None]:
    """A machine of a cluster, which runs when this begins and is gone when it ends."""
    with tempfile.NamedTemporaryFile("w", dir=folder) as log:
        begun = subprocess.Popen([*words, "--block"], stdout=log, stderr=log, env=environment)
        try:
            until = time.monotonic() + 120
            while "Ray runtime started" not in (told := Path(log.name).read_text()):
                assert begun.poll() is None, told
                assert time.monotonic() < until, told
                time.sleep(0.2)
            yield
        finally:
            below = _descendants(begun.pid)
            begun.terminate()
            try:
                begun.wait(60)
            finally:
                begun.kill()
                for pid in below:
                    with suppress(OSError):
                        if str(folder) in Path(f"/proc/{pid}/cmdline").read_text():
                            os.kill(pid, signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize("block", CLUSTERS)
def test_a_cluster_is_started_and_used(block: str, tmp_path: Path) -> None:
    """All machines are this one. Ray's own lines run as they are, but for the address and that they stay in sight."""
    ray = Path(sys.executable).with_name("ray")
    if not ray.exists():
        pytest.skip("Ray is not installed")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    few = ["--steps", "40", "--pairs", "2", "--batch-steps", "0", "--horizon", "10", "--eval-episodes", "1"]
    trained = 0
    with tempfile.TemporaryDirectory(prefix="q") as home, ExitStack() as cluster:  # Ray's sockets need a short path
        quietly = {"HOME": home, "RAY_TMPDIR": home, "RAY_USAGE_STATS_ENABLED": "0"}
        for words in lines(block.replace("FIRST:6379", f"127.0.0.1:{port}").replace("6379", port), settings=True):
            own = dict(word.split("=", 1) for word in words if word.startswith("RAY_"))
            program, *rest = words[len(own) :]
            environment = {**os.environ, **quietly, **own}
            if program == "ray" and rest[0] == "start":
                small = ["--num-cpus", "1", "--node-ip-address", "127.0.0.1"]
                small += ["--include-dashboard", "false"] if "--head" in rest else []
                cluster.enter_context(node([str(ray), *rest, *small], Path(home), environment))
            elif program == "ray":
                run([str(ray), *rest], tmp_path, **quietly, **own)
            elif program == "quell":
                told = run([sys.executable, "-m", "quell", *rest, *few], tmp_path, **quietly, **own)
                assert "run folder  runs/" in told
                trained += "--address" in rest
    assert trained == 1


def test_lines_with_an_address_stand_below_what_starts_a_cluster() -> None:
    blocks_of_quell = [text for page in PAGES for language, text in blocks(page) if language == "bash"]
    assert all(text in CLUSTERS for text in blocks_of_quell if "--address" in text)
