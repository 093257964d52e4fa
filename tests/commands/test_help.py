"""What --help says: every flag explained, the most used first, and nothing that is not so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from quell.cli import COMMANDS, main
from quell.commands.list import KINDS

SMALL = ["--horizon", "5", "--pairs", "1", "--steps", "10", "--eval-episodes", "1", "--workers", "1", "--method", "es"]


def text_of(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as stop:
        main([*words, "--help"])
    assert stop.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("name", [*COMMANDS, *(f"list {kind}" for kind in KINDS), "paper theorem"])
def test_every_flag_is_explained(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = text_of(capsys, *name.split())
    assert "None" not in said, "what a default of nothing means is said in words"
    lines = [line.strip("│| ") for line in said.partition("-h, --help")[2].splitlines()]
    for i, line in enumerate(lines):
        if re.match(r"--[a-z]", line):
            flag, _, text = line.partition("  ")
            text = text.strip() or lines[i + 1]
            assert not re.match(r"$|--|\(default", text), f"{flag} is not explained"


def test_options_of_train_are_grouped_the_most_used_first(capsys: pytest.CaptureFixture[str]) -> None:
    said = text_of(capsys, "train", "hopper").partition("-h, --help")[2]
    flags = re.findall(r"^[│| ]+(--[a-z][a-z.-]+)", said, re.MULTILINE)
    assert flags[:4] == ["--steps", "--seed", "--method", "--preset"]
    titles = [title for title in re.findall(r"([a-z.]+) options", said) if title != "options"]
    assert titles[:4] == ["batch", "episode", "saving", "engine"]
    assert {"policy", "directions", "estimator", "step"} <= set(titles)
    assert len(flags) == len(set(flags))


def test_defaults_are_those_of_the_task_and_of_the_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for command in ("train", "resume"):
        assert "halfcheetah's, as an example" in " ".join(text_of(capsys, command).split())
    assert "those for this task" in " ".join(text_of(capsys, "train", "hopper", "--method", "es").split())
    assert main(["train", "lqr-302", *SMALL, "--sigma", "0.123", "--out", str(tmp_path), "--name", "a"]) == 0
    capsys.readouterr()
    said = " ".join(text_of(capsys, "resume", str(tmp_path)).split())
    assert "the run's own" in said
    assert "(default: 0.123)" in said
