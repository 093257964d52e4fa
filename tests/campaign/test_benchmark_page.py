"""What docs/results.md and docs/benchmark.md say of the benchmark in words, from its records."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest
from printed import RESULTS, page, says
from scipy.stats import ttest_ind_from_stats

from quell.campaign.benchmark import APART, Grid, grid, scores
from quell.commands.benchmark import Arguments
from quell.estimate import Problem
from quell.keys import Purpose, Stream, generator
from quell.paper.published import SCORES
from quell.perturb import Unperturbed
from quell.rollout.cpu import Cpu
from quell.runs import archive
from quell.runs.record import read_group
from quell.stats import mean_std, verdict
from quell.training.methods import make_policy, make_task
from quell.types import Episodes

PAGE = "docs/benchmark.md"
COUNTS = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
OTHERS = Arguments().methods[1:]


@pytest.fixture(scope="module")
def found() -> Grid:
    """Task -> method -> runs, with the default's: on LQR that is ES."""
    rows = grid(read_group(RESULTS / "benchmark"))
    return {task: row | {"natural-cv": row.get("natural-cv", row["es"])} for task, row in rows.items()}


def mean(runs: list[float]) -> float:
    return float(np.mean(runs))


def test_no_row_is_lost(found: Grid) -> None:
    """Not one method is above the control variate, by the test or because no seeds overlap."""
    for task, row in found.items():
        ours = scores(row["natural-cv"])
        for name in OTHERS:
            theirs = scores(row[name])
            assert verdict(theirs, ours)[1] != "above", (task, name)
            assert min(theirs) <= max(ours), (task, name)


def test_over_all_tasks(found: Grid) -> None:
    """The pages say over how many tasks P is averaged."""
    assert len(found.keys() - set(APART)) == 22
    assert "over 22 tasks. It is above PPO" in page(PAGE)
    assert "Over 22 tasks together (all but LQR)" in page("docs/results.md")


def test_trpo_can_be_distinguished_on_lqr_alone(found: Grid) -> None:
    apart = [
        task for task, row in found.items() if verdict(scores(row["natural-cv"]), scores(row["trpo"]))[1] == "above"
    ]
    assert apart == ["lqr", "lqr-302"]
    higher = [task for task, row in found.items() if mean(scores(row["trpo"])) > mean(scores(row["natural-cv"]))]
    told = re.search(r"TRPO has the higher mean in (\w+) rows", page(PAGE))
    assert told
    assert told[1] == COUNTS[len(higher)]


def against_the_paper(found: Grid, method: str, action: str) -> dict[str, tuple[float, float]]:
    """Task -> mean less the paper's, and p of Welch's test; LQR over the steps where its scores can have been taken."""
    told = {}
    for (task, name), text in SCORES.items():
        if name == "cv":
            task = {"lqr": "lqr-302"}.get(task, task)
            ours = [mean(run.final[action]) for run in found[task][method]]
            theirs, spread = map(float, text.split("±"))
            own = mean_std(ours)
            p = ttest_ind_from_stats(own.mean, own.std, len(ours), theirs, spread, 5, equal_var=False).pvalue
            told[task] = own.mean - theirs, float(p)
    assert len(told) == 16
    return told


def test_against_the_papers_control_variate(found: Grid) -> None:
    """Fourteen higher means of sixteen, ten by a test, nine with the paper's own sampled actions."""
    told = against_the_paper(found, "natural-cv", "mean_action")
    assert {task for task, (gap, _) in told.items() if gap < 0} == {"dm-cartpole-two-poles", "dm-quadruped-escape"}
    unclear = [task for task, (gap, p) in told.items() if gap > 0 and p > 0.05]
    assert set(unclear) == {"dm-pendulum-swingup", "dm-hopper-hop", "dm-hopper-stand", "dm-quadruped-walk"}
    sampled = against_the_paper(found, "natural-cv", "sampled")
    assert COUNTS[sum(gap > 0 and p < 0.05 for gap, p in sampled.values())] == "nine"
    assert sampled["lqr-302"][0] < 0
    assert sum(gap > 0 for gap, _ in against_the_paper(found, "trpo", "mean_action").values()) == 12
    for name in (PAGE, "docs/results.md"):
        assert re.search(
            r"higher on fourteen of (the paper's )?sixteen tasks, and by Welch's test .*above it on ten", page(name)
        )
    lqr = [
        mean([mean(run.final[action]) for run in found["lqr-302"]["natural-cv"]])
        for action in ("mean_action", "sampled")
    ]
    says(PAGE, "LQR-302 hangs on it, with", lqr)
    said = re.search(r"comes from some of the seeds: (\w+), (\w+), (\w+) and (\w+) of five", page(PAGE))
    assert said
    above = {task: float(SCORES[task, "cv"].split("±")[0]) for task in unclear}
    order = ("dm-pendulum-swingup", "dm-hopper-hop", "dm-hopper-stand", "dm-quadruped-walk")
    assert said.groups() == tuple(COUNTS[sum(x > above[t] for x in scores(found[t]["natural-cv"]))] for t in order)


def test_runs_that_end_below_their_start(found: Grid) -> None:
    """Sampled actions beside sampled ones, and the one seed that is below by mean actions."""
    ours = [run for row in found.values() for run in row["natural-cv"]]
    assert all(mean(run.final["sampled"]) > mean(run.untrained) for run in ours)
    (below,) = [run for run in found["dm-hopper-hop"]["natural-cv"] if run.config.seed == 4]
    task = make_task(below.config)
    policy = make_policy(below.config, task)
    theta = policy.init(generator(below.config.seed, Purpose.INIT))
    fresh = Episodes.unperturbed(0, 20, Stream.FRESH, mean_action=True)
    with Cpu(workers=1).make(task, Problem(policy, Unperturbed(), 0), members=20) as engine:
        untrained = float(engine.rollout(theta, fresh, None).returns.mean())
    says(PAGE, "by mean actions of both: dm-hopper-hop, seed", [4, mean(below.final["mean_action"]), untrained])
    says(PAGE, "One seed of", [len(ours)])


def test_the_last_digit_decides_on_swimmer(found: Grid) -> None:
    ours, theirs = scores(found["swimmer"]["natural-cv"]), scores(found["swimmer"]["ars"])
    says(PAGE, "P(natural CV above ARS) is 1.00 there because", [min(ours)])
    says(PAGE, "is 1.00 there because 356.4 is above", [max(theirs)])


@pytest.mark.slow
def test_marks_that_depend_on_the_episodes(found: Grid) -> None:
    """The episodes of all runs on a task drawn again together: whose verdict or bold mark changes in 15% of draws."""
    rng, changed, draws = np.random.default_rng(0), Counter[tuple[str, str]](), 400
    for task, row in found.items():
        returns = {name: np.array([run.final["mean_action"] for run in runs]) for name, runs in row.items()}
        count = returns["natural-cv"].shape[1]
        as_printed = marks({name: values.mean(axis=1) for name, values in returns.items()})
        for _ in range(draws):
            drawn = rng.integers(count, size=count)
            again = marks({name: values[:, drawn].mean(axis=1) for name, values in returns.items()})
            changed.update((task, name) for name in row if again[name] != as_printed[name])
    often = {"es": {"dm-hopper-stand", "dm-quadruped-escape"}, "ars": {"hopper", "dm-quadruped-escape"}}
    often |= {"ppo": {"bipedalwalker", "halfcheetah", "inverted-double-pendulum", "dm-quadruped-walk"}, "trpo": {"ant"}}
    assert {key for key, times in changed.items() if times >= 0.13 * draws} == {
        (task, name) for name, tasks in often.items() for task in tasks
    }
    own = {task: times / draws for (task, name), times in changed.items() if name == "natural-cv"}
    assert own.pop("humanoid") == pytest.approx(0.1, abs=0.05)
    assert max(own.values()) < 0.04


def marks(row: dict[str, np.ndarray]) -> dict[str, tuple[bool, str]]:
    """Method -> whether it is bold, and the control variate's verdict against it."""
    best = max(row, key=lambda name: row[name].mean())
    return {
        name: (
            bool(min(row[best]) <= max(values)) and verdict(row[best], values)[1] != "above",
            verdict(row["natural-cv"], values)[1] if name != "natural-cv" else "",
        )
        for name, values in row.items()
    }


def test_how_much_each_method_was_tuned() -> None:
    """Runs and steps of all records under results/tuning, as its README and docs/benchmark.md count them: by what they
    were tried for, which is what these records call a method."""
    runs, steps = Counter[str](), Counter[str]()
    for file in sorted((RESULTS / "tuning").rglob(archive.PACKED)):
        for facts in archive.read(file.parent).values():
            runs[facts["config"]["method"]] += 1
            steps[facts["config"]["method"]] += facts["config"]["steps"]
    names = ("cv", "ppo", "es", "ars", "trpo")
    counted = [n for name in names for n in (runs[name], steps[name] / 1e6)]
    says("results/tuning/README.md", "In all:", counted)
    says(PAGE, "the records of tuning hold", counted)
    fewer = [steps["cv"] / steps[name] for name in ("ppo", "ars")]
    says(PAGE, "with 41: ES, ARS and PPO got", fewer)
    says("docs/results.md", "In steps, these three got", fewer)
    says("results/tuning/README.md", "ES, ARS and PPO got", fewer)


def test_seeds_that_are_left_behind(found: Grid) -> None:
    tasks = ("dm-cartpole-balance", "dm-cartpole-swingup", "swimmer", "inverted-pendulum")
    says("docs/natural.md", "where `natural-cv` has none (", [min(scores(found[t]["trpo"])) for t in tasks])
    says("docs/natural.md", "where TRPO has none (", [min(scores(found["gym:LunarLander-v3"]["natural-cv"]))])
