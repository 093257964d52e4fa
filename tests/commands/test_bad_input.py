"""Bad input of every kind, to every command: exit code 2, one line that names what is wrong, at once, and no file."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from quell.api import start
from quell.cli import COMMANDS, main
from quell.config import replace
from quell.rollout.cpu import Cpu
from quell.training.methods import make_config

SECONDS = 3.0
EXAMPLES = Path(__file__).parents[2] / "examples"
TABLE = Path(__file__).with_suffix(".txt").read_text().splitlines()
BAD = [line.split("  ->  ") for line in TABLE if "  ->  " in line]
"""(command, part of the message); RUN is a run folder of lqr-302."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder."""
    small = {"horizon": 5, "pairs": 1, "batch_steps": 0, "steps": 10, "eval_episodes": 1}
    config = replace(make_config("lqr-302", "es"), small).validate()
    return start(config, compute=Cpu(workers=1), out=tmp_path_factory.mktemp("runs"), progress=False).path


@pytest.fixture
def here(tmp_path: Path, run: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, but for a link called RUN."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "RUN").symlink_to(run)
    return tmp_path


def test_there_are_120_and_every_command_is_among_them() -> None:
    assert len({command for command, _ in BAD}) >= 120
    assert {command.split()[0] for command, _ in BAD} >= COMMANDS.keys()


@pytest.mark.parametrize(("command", "message"), BAD, ids=lambda text: text)
def test_bad_input(command: str, message: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    started = time.process_time()
    assert main(shlex.split(command)) == 2
    assert time.process_time() - started < SECONDS, "of the processor, so that a busy machine does not fail it"
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("quell: error: ")
    assert len(said.err.splitlines()) == 1, said.err
    assert message in said.err
    assert [name for _, _, names in os.walk(here) for name in names] == [], "nothing is left behind"


@pytest.mark.parametrize(
    "words",
    [
        ["-m", "quell", "train", "halfchetah"],
        ["-m", "quell", "train", "lqr", "--pairs", "1000000000"],
        ["-m", "quell", "eval", "RUN", "--seed", "-1"],
        ["-m", "quell", "play", "RUN", "--video", "/proc/film.gif"],
        ["-m", "quell", "paper", "theorem", "--json", "/proc/x.json"],
        ["-m", "quell", "variance", "lqr", "--figure", "x.xyz"],
        ["-m", "quell", "report", "nowhere"],
        [str(EXAMPLES / "compare.py"), "--seeds", "0"],
        [str(EXAMPLES / "compare.py"), "--seedz", "1"],
    ],
    ids=" ".join,
)
def test_in_a_process_of_its_own(words: list[str], here: Path) -> None:
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert "Traceback" not in done.stderr
