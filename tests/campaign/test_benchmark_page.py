"""What README and docs/benchmark.md say of the benchmark in words, from its records."""

from __future__ import annotations

import re
from itertools import chain

import numpy as np
import pytest
from printed import RESULTS, page, says

from quell.campaign.benchmark import Grid, grid, scores
from quell.commands.benchmark import Arguments
from quell.paper.published import SCORES
from quell.runs.record import read_group
from quell.stats import mean_std, verdict

PAGE = "docs/benchmark.md"
COUNTS = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
OTHERS = Arguments().methods[1:]


@pytest.fixture(scope="module")
def found() -> Grid:
    return grid(read_group(RESULTS / "benchmark"))


def mean(runs: list[float]) -> float:
    return float(np.mean(runs))


def test_no_row_is_lost(found: Grid) -> None:
    """Not one method is told to be above the control variate, by the test or because no seeds overlap."""
    for page_name in (PAGE, "README.md"):
        assert "In every row the control variate is the best, or its seeds are not told from the best's" in page(
            page_name
        )
    for task, row in found.items():
        ours = scores(row["cv"])
        for name in OTHERS:
            theirs = scores(row[name])
            assert verdict(theirs, ours)[1] != "above", (task, name)
            assert min(theirs) <= max(ours), (task, name)


def test_trpo_is_told_apart_on_lqr_alone(found: Grid) -> None:
    apart = [task for task, row in found.items() if verdict(scores(row["cv"]), scores(row["trpo"]))[1] == "above"]
    assert apart == ["lqr", "lqr-302"]
    higher = [task for task, row in found.items() if mean(scores(row["trpo"])) > mean(scores(row["cv"]))]
    told = re.search(
        r"TRPO is not told from it in any row but LQR's, and has the higher mean in (\w+) of them", page(PAGE)
    )
    assert told
    assert told[1] == COUNTS[len(higher)]


def test_against_the_papers_control_variate(found: Grid) -> None:
    """Fourteen of sixteen; LQR counts over the steps where the paper's scores can have been taken."""
    ours = {task.removesuffix("-302"): mean(scores(found[task]["cv"])) for task in found if task != "lqr"}
    paper = {task: float(re.split("±", text)[0]) for (task, name), text in SCORES.items() if name == "cv"}
    assert len(paper) == 16
    behind = {task for task, value in paper.items() if ours[task] <= value}
    assert behind == {"dm-cartpole-two-poles", "dm-quadruped-escape"}
    assert "on fourteen of the paper's sixteen tasks" in page(PAGE)
    assert "ahead on fourteen of sixteen tasks" in page("README.md")


@pytest.mark.parametrize(
    ("before", "task", "methods"),
    [
        ("* dm-quadruped-walk (", "dm-quadruped-walk", ("cv", "trpo", "ppo")),
        ("on roboschool-halfcheetah (", "roboschool-halfcheetah", ("cv", "ppo", "trpo")),
        ("on dm-quadruped-escape (", "dm-quadruped-escape", ("cv", "ppo", "trpo")),
        ("one seed of five lands badly (", "gym:LunarLander-v3", ("cv", "trpo", "ppo")),
        ("* bipedalwalker walks on every seed (", "bipedalwalker", ("cv",)),
    ],
)
def test_seeds(found: Grid, before: str, task: str, methods: tuple[str, ...]) -> None:
    says(PAGE, before, list(chain.from_iterable(scores(found[task][name]) for name in methods)))


@pytest.mark.parametrize(
    ("before", "task", "method"),
    [
        ("halfcheetah reaches", "halfcheetah", "cv"),
        ("* ant:", "ant", "cv"),
        ("value network, GAE):", "halfcheetah", "trpo"),
        ("epochs, clipping) against RL Zoo:", "hopper", "ppo"),
        ("on hopper (2410; CleanRL 2814),", "walker2d", "ppo"),
        ("on walker2d (3479),", "swimmer", "ppo"),
        ("on swimmer (282),", "ant", "ppo"),
        ("on ant (1327),", "halfcheetah", "ppo"),
        ("on walker2d it has", "walker2d", "ars"),
    ],
)
def test_means(found: Grid, before: str, task: str, method: str) -> None:
    known = mean_std(scores(found[task][method]))
    says(PAGE, before, [known.mean, known.std])


def test_readme(found: Grid) -> None:
    says("README.md", "some seeds get up and some do not (", scores(found["dm-quadruped-walk"]["cv"]))


def test_seeds_that_are_left_behind(found: Grid) -> None:
    tasks = ("hopper", "dm-cartpole-balance", "dm-cartpole-swingup", "swimmer", "inverted-pendulum")
    says("docs/natural.md", "where the control variate leaves none (", [min(scores(found[t]["trpo"])) for t in tasks])
    says("docs/natural.md", "where TRPO leaves none (", [min(scores(found["gym:LunarLander-v3"]["cv"]))])
