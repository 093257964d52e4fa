"""docs/from-sb3.md: what its tables say of old words is what quell answers, and the new ones are understood."""

from __future__ import annotations

import json
import re
from pathlib import Path

import habits
import pytest

import quell
from quell import cli
from quell.errors import UsageError

PAGE = (Path(__file__).parents[1] / "docs" / "from-sb3.md").read_text()
ROWS = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if line.startswith("| `")]
NAMED = [row[0] for row in ROWS if len(row) == 3 and row[2].startswith(("named", "`"))]


def test_the_page_has_the_habits() -> None:
    assert len(ROWS) >= 30
    assert len(NAMED) >= 18


def test_habits_were_tried_and_none_failed() -> None:
    """results/habits is of the lines of benchmarks/habits.py, carried out where Stable-Baselines3 is installed."""
    found = json.loads(habits.OUT.read_text())["habits"]
    assert [*found] == [*habits.PYTHON, *habits.COMMANDS]
    assert {one["outcome"] for one in found.values()} == {"works", "answered"}
    assert found["sb3: evaluate_policy(policy, env)"] == {"outcome": "works", "said": "500.0 ± 0.0"}


def test_a_population_is_counted_in_pairs() -> None:
    with pytest.raises(UsageError, match=r"called 'pairs' here \(a pair is two members"):
        quell.train("CartPole-v1", method="es", popsize=200)  # type: ignore[call-overload]


@pytest.mark.parametrize("word", sorted({*re.findall(r"`(\w+)=", " ".join(NAMED))} - {"model"}))
def test_old_words_are_named(word: str) -> None:
    with pytest.raises(UsageError) as refused:
        quell.train("CartPole-v1", method="ppo", **{word: 1})  # type: ignore[call-overload]
    assert "it reads" not in str(refused.value)


@pytest.mark.parametrize(("old", "new"), [row[:2] for row in ROWS if len(row) == 3 and re.fullmatch(r"`\w+`", row[1])])
def test_hyperparameters_have_the_names_that_the_page_says(old: str, new: str) -> None:
    for word in re.findall(r"`(\w+)`", old)[:1]:
        with pytest.raises(UsageError, match=f"it is called '{new.strip('`')}' here"):
            quell.train("CartPole-v1", method="ppo", **{word: 1})  # type: ignore[call-overload]


@pytest.mark.parametrize("flags", [words for row in NAMED for words in re.findall(r"rl_zoo3\.train (--[^`]*)`", row)])
def test_lines_of_rl_zoo_are_answered(flags: str, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (flags.split(), ["CartPole-v1", *flags.split()]):
        assert cli.main(["train", *words]) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert "it reads" not in said
