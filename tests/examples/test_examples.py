"""Every example runs as docs/examples.md says it, but short; the own strategies stay one short file each."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from pages import ROOT, said

EXAMPLES = ROOT / "examples"
LINES = {Path(words[0]).stem: words for words in said("python") if words[0].startswith("examples/")}
SHORT = {
    "train": ["2000"],
    "own_environment": ["2000"],
    "compare": ["--task", "hopper", "--steps", "100", "--seeds", "1", "--episodes", "1", "--estimates", "0"],
    "own_loop": ["20"],
    "own_estimator": ["16000"],
    "own_directions": ["2000"],
    "own_step": ["2000"],
    "own_policy": ["2000"],
}
"""Example -> arguments that make it take seconds."""
SAYS = {
    "train": "20 fresh episodes",
    "own_environment": "after 100 steps the boat is at",
    "compare": "run folders",
    "own_loop": "iteration  20  return",
    "own_estimator": "iteration   1  return",
    "own_directions": "steps",
    "own_step": "KL 0.0",
    "own_policy": "98 parameters, mean action",
}


def test_no_example_is_forgotten() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == SHORT.keys() == LINES.keys()


def run(name: str, arguments: list[str], folder: Path) -> str:
    script, *words = LINES[name]
    command = [sys.executable, str(ROOT / script), *words, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", SHORT)
def test_an_example_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a script, but in this process, which has imported and compiled most of what it needs."""
    script, *words = LINES[name]
    monkeypatch.setattr(sys, "argv", [str(ROOT / script), *words, *SHORT[name]])
    monkeypatch.setattr(sys, "path", [str(EXAMPLES), *sys.path])
    monkeypatch.chdir(tmp_path)
    code: object = 0
    try:
        runpy.run_path(str(ROOT / script), run_name="__main__")
    except SystemExit as ended:
        code = ended.code
    assert not code
    assert SAYS[name] in capsys.readouterr().out


@pytest.mark.slow
def test_both_halves_of_the_comparison_run(tmp_path: Path) -> None:
    words = ["--task", "hopper", "--steps", "100", "--seeds", "2", "--episodes", "2", "--estimates", "2"]
    assert "a run of natural-cv ends above one of trpo with probability" in run("compare", words, tmp_path)


@pytest.mark.parametrize("name", ["own_estimator", "own_directions", "own_step", "own_policy"])
def test_an_own_strategy_is_one_short_file_used_through_train(name: str) -> None:
    text = (EXAMPLES / f"{name}.py").read_text()
    assert len(text.splitlines()) < 60
    assert "quell.train(" in text
