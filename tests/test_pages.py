"""Every block of code on README and the pages runs, in a version that takes seconds.

A block of Python is copied alone and runs alone, with nothing imported, unless its first line says that it continues
the one above; `quell.train` and `quell.variance` do what is asked with tiny budgets on one worker. Lines of bash blocks
are carried out in the same way if they are quell's own; what takes long even when it is tiny is among the slow tests.
Lines of other programs, and quell's that need a cluster, are carried out by test_page_programs.py.
"""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from made_up import small_group
from pages import PAGES, PROGRAMS, ROOT, blocks, lines

import quell
from quell import cli

LANGUAGES = {"python", "bash", "text", "toml"}
LONG = {"variance", "paper", "benchmark", "tune", "sweep", "doctor"}
"""Commands that measure or train for long: tiny versions are among the slow tests."""
LONG_FLAGS = {"--video", "--seeds"}
"""And these, which start a renderer or many processes."""
QUIET: dict[str, Any] = {"workers": 1, "progress": False}
TINY: dict[str, Any] = {"steps": 20, "pairs": 2, "batch_steps": 0, "eval_episodes": 1, **QUIET}
GOES_ON = "# continues the block above"
MY_MODULE = "import gymnasium\ndef make_env():\n    return gymnasium.make('Pendulum-v1', max_episode_steps=10)\n"


def with_blocks(language: str) -> list[Any]:
    return [pytest.param(p, id=p.name) for p in PAGES if any(kind == language for kind, _ in blocks(p))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_says_what_it_is(page: Path) -> None:
    for language, text in blocks(page):
        assert language in LANGUAGES, f"{page.name}: {text[:60]}"
        if language == "text":
            assert not re.search(r"^\s*(quell [a-z]+ |import |pip )", text, flags=re.MULTILINE), f"{page.name}: {text}"


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder with a module of the user's and the examples, in which everything is tiny."""
    (tmp_path / "my_module.py").write_text(MY_MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    monkeypatch.setitem(sys.modules, "my_module", None)
    monkeypatch.delitem(sys.modules, "my_module")
    for module in ("campaign.child", "commands.eval", "commands.export", "commands.resume"):
        importlib.import_module(f"quell.{module}")  # they keep the true functions, also for tests that come later
    train, resume, variance, evaluate = quell.train, quell.resume, quell.variance, quell.evaluate

    def tiny_train(task: Any, **settings: Any) -> quell.Result:
        settings.pop("engine", None)  # a cluster takes ten seconds to start; tests/rollout/cluster has one
        short = {"horizon": 10} if isinstance(task, str) else {}
        return train(task, **{**settings, **TINY, **short})

    def tiny_resume(run: Any, **settings: Any) -> quell.Result:
        commanded = settings.get("engine") is not None  # by the command line, whose flags are tiny already
        return resume(run, **settings) if commanded else resume(run, **{**settings, "steps": 60, **QUIET})

    def tiny_variance(task: Any, **settings: Any) -> Any:
        return variance(task, **{**settings, "pairs": 10, "warmup": 5, "workers": 1, "settings": {"horizon": 10}})

    monkeypatch.setattr("quell.front.train", tiny_train)
    monkeypatch.setattr("quell.api.resume", tiny_resume)
    monkeypatch.setattr("quell.measure.variance", tiny_variance)
    monkeypatch.setattr("quell.api.evaluate", lambda run, **_: evaluate(run, episodes=2, workers=1))
    return tmp_path


@pytest.mark.parametrize("page", with_blocks("python"))
def test_python_blocks_run(page: Path, workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    if page.name == "output.md":
        quell.train("lqr-302", method="es")  # a run to read
    for language, text in blocks(page):
        if language == "python":
            names = names if text.startswith(GOES_ON) else {}
            exec(compile(text, page.name, "exec"), names)


def tiny(words: list[str]) -> list[str]:
    """A command of quell's with budgets that take a second."""
    command, *rest = words
    for flag in ("--steps", "--pairs", "--horizon", "--episodes", "--engine"):
        while flag in rest:
            at = rest.index(flag)
            del rest[at : at + 2]
    if command in ("train", "resume"):
        more = ["--steps", "20" if command == "train" else "40", "--workers", "1"]
        more += (
            ["--pairs", "2", "--batch-steps", "0", "--eval-episodes", "1", "--horizon", "10"]
            if command == "train"
            else []
        )
        return [command, *rest, *more]
    return [command, *rest, *(["--episodes", "2", "--workers", "1"] if command == "eval" else [])]


def prepare(words: list[str], folder: Path) -> None:
    """Make the run that a command is about."""
    for word in words:
        if word.endswith(".toml"):
            (folder / word).parent.mkdir(parents=True, exist_ok=True)
            (folder / word).write_text('task = "hopper"\nmethod = "es"\n')
        elif word.startswith(("results", "runs/seeds", "runs/sweeps")):
            small_group(folder / word)
        elif match := re.fullmatch(r"runs/([\w-]+)", word):
            if not (folder / word).exists():
                quell.train(match[1])
        elif word == "runs" and not (folder / word).exists():
            quell.train("lqr-302", method="es")


@pytest.mark.parametrize("page", with_blocks("bash"))
def test_bash_blocks_run(page: Path, workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for language, text in blocks(page):
        for program, *words in lines(text) if language == "bash" else []:
            if program == "quell" and words[0] not in LONG:
                if {"--address", *LONG_FLAGS} & set(words):
                    continue
                prepare(words, workplace)
                assert cli.main(tiny(words)) == 0, f"{page.name}: {words}\n{capsys.readouterr().err}"
            else:
                assert program in ("quell", "ray", *PROGRAMS), f"{page.name}: {program}"
    shutil.rmtree(workplace / "runs", ignore_errors=True)


@pytest.mark.parametrize("page", with_blocks("bash"))
def test_no_line_names_a_run_that_only_its_writer_has(page: Path) -> None:
    for language, text in blocks(page):
        assert language != "bash" or not re.search(r"/\d+-\d{8}-\d{6}", text), f"{page.name}: {text}"


def without(words: list[str], *flags: str) -> list[str]:
    """The words less these flags and their values."""
    kept, dropping = [], False
    for word in words:
        dropping = word in flags or (dropping and not word.startswith("--"))
        kept += [] if dropping else [word]
    return kept


def shortened(words: list[str]) -> list[str]:
    """A long command with budgets that take seconds."""
    few = ["--pairs", "2", "--batch-steps", "0", "--eval-episodes", "1", "--horizon", "10", "--steps", "20"]
    if words[0] in ("train", "sweep"):
        episodes = ["--episodes", "1"] if words[0] == "sweep" else []
        return [*without(words, "--steps", "--seeds"), *few, "--seeds", "2", *episodes]
    if words[0] == "variance":
        cut = without(words, "--pairs", "--warmup", "--settings", "--gain-estimates", "--gain-episodes")
        gains = ["--gain-estimates", "2", "--gain-episodes", "1"] if "--gain" in words else []
        return [*cut, "--pairs", "10", "--warmup", "5", "--workers", "1", "--settings", "horizon", "10", *gains]
    if words[0] == "benchmark" and "--render" not in words:
        return [
            "benchmark",
            "--tasks",
            "lqr-302",
            "--methods",
            "es",
            "--steps",
            "300",
            "--seeds",
            "1",
            "--episodes",
            "1",
        ]
    if words[0] == "paper" and words[1].startswith("table") and "--plan" not in words:
        cut = without(words, "--budget", "--steps", "--seeds", "--tasks")
        return [*cut, "--tasks", "lqr-302", "--steps", "300", "--seeds", "1", "--episodes", "1"]
    return [*words, *(["--seconds", "0.2", "--size", "64", "48"] if words[0] == "play" else [])]


@pytest.mark.slow
@pytest.mark.parametrize("page", with_blocks("bash"))
def test_long_lines_of_bash_blocks_run(page: Path, workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for language, text in blocks(page):
        for program, *words in lines(text) if language == "bash" else []:
            if program == "quell" and "--address" not in words and (words[0] in LONG or LONG_FLAGS & set(words)):
                if words[0] == "play":  # which starts a process, and that does not go well with JAX in this one
                    prepare(words, workplace)
                    subprocess.run([sys.executable, "-m", "quell", *shortened(words)], check=True)
                else:
                    assert cli.main(shortened(words)) == 0, f"{page.name}: {words}\n{capsys.readouterr().err}"
