"""What results/tuning/README.md and docs/benchmark.md say of the peers' searches on single tasks."""

from __future__ import annotations

from dataclasses import astuple
from typing import Any

import numpy as np
import pytest
from printed import check, page, record, records, rows, says

from quell.runs.record import Record
from quell.stats import mean_std
from quell.training.methods import make_config

SEEDS = range(100, 104)
TAKEN = {
    "es": {
        **{"ant": 2, "dm-cartpole-balance": 2, "inverted-double-pendulum": 4},
        **{"dm-quadruped-walk": 9, "dm-pendulum-swingup": 9},
    },
    "ars": {
        **{"ant": 7, "gym:LunarLander-v3": 5, "dm-quadruped-walk": 11},
        **{"dm-cartpole-two-poles": 5, "dm-pendulum-swingup": 6},
    },
    "ppo": {"ant": 1, "dm-cartpole-two-poles": 4},
}
"""Method -> task -> the trial that became its preset."""


def score(name: str) -> float:
    """Mean over the seeds of what a setting's final policies earn."""
    return float(np.mean([np.mean(record(f"tuning/{name}-{seed}").final["mean_action"]) for seed in SEEDS]))


def trial(method: str, task: str, number: int) -> float:
    return score(f"{method}/{task.replace(':', '-')}-trial{number:02d}")


@pytest.mark.parametrize("method", TAKEN)
def test_found_settings_are_better_and_in_use(method: str) -> None:
    said = page("results/tuning/README.md").partition("A ninth series")[2].partition(f"* {method}: ")[2]
    for task, number in TAKEN[method].items():
        best, before = trial(method, task, number), trial(method, task, 0)
        assert best > before
        assert f"{task} {best:.0f} ({before:.0f}" in said, (task, best, before)
        one = record(f"tuning/{method}/{task.replace(':', '-')}-trial{number:02d}-100").config
        today = make_config(task, method, "tuned", {"seed": 100, "steps": 250_000, "eval_every": 0})
        assert one == today, task


@pytest.mark.parametrize(
    ("method", "task", "number", "over_1e6"),
    [
        ("es", "dm-cartpole-two-poles", 1, ("trial01", "trial00")),
        ("ars", "dm-cartpole-two-poles", 5, ("trial05", "trial00")),
        ("ppo", "dm-cartpole-two-poles", 4, ("trial04", "trial00")),
        ("ppo", "dm-cartpole-balance", 11, ("trial11", "trial00")),
        ("ppo", "gym-LunarLander-v3", 7, ("trial07", "trial00")),
        ("ppo", "dm-quadruped-walk", 1, ("h250-quick", "h250-g97")),
    ],
)
def test_runs_of_1e6_steps_decided(method: str, task: str, number: int, over_1e6: tuple[str, str]) -> None:
    found, before = (score(f"settings/{task}-{method}-{label}") for label in over_1e6)
    assert (found > before) == (TAKEN[method].get(task) == number)
    if task != "dm-quadruped-walk":  # whose seeds are given one by one
        text = page("results/tuning/README.md").partition("A ninth series")[2]
        assert f"{found:.0f} and {before:.0f}" in text or f"({found:.0f}; {before:.0f})" in text, (found, before)


def mean_actions(record: Record) -> float:
    return float(np.mean(record.final["mean_action"]))


def test_ppo_on_cartpole_is_told_as_it_was_measured() -> None:
    """The preset is the setting with the best mean over ten seeds of the search; fresh seeds judge it."""
    searched: dict[str, list[Record]] = {}
    for one in records("tuning/ppo-cartpole/*"):
        searched.setdefault(one.label, []).append(one)
    printed = {tuple(cells[:5]): cells[5:] for cells in rows("results/tuning/README.md", "| steps a batch | lr")}
    assert len(printed) == len(searched) == 11
    for runs in searched.values():
        runs.sort(key=lambda run: run.config.seed)
        config = runs[0].config
        own: Any = config.estimator
        cells = (config.batch_steps, f"{own.lr:g}", own.epochs, own.minibatch, f"{own.gamma:g}, {own.trace:g}")
        found = [mean_actions(run) for run in runs]
        check(" ".join(printed[tuple(map(str, cells))]), [float(np.mean(found)), *found])
    whole = [runs for runs in searched.values() if len(runs) == 10]
    taken = max(whole, key=lambda runs: np.mean([mean_actions(run) for run in runs]))
    asked = {"seed": taken[0].config.seed, "steps": 100_000, "eval_every": 0}
    assert taken[0].config == make_config("gym:CartPole-v1", "ppo", "tuned", asked)
    assert {run.config.seed for runs in searched.values() for run in runs} == set(range(100, 110))


def test_ppo_on_cartpole_on_fresh_seeds() -> None:
    printed = list(rows("results/cartpole-ppo/README.md", "| preset | mean actions"))
    for (_, means, seeds, sampled), label in zip(printed, ("batch_steps=2000*", "batch_steps=256*"), strict=True):
        runs = sorted(records(f"cartpole-ppo/*{label}"), key=lambda run: run.config.seed)
        assert [run.config.seed for run in runs] == list(range(200, 210))
        found = [mean_actions(run) for run in runs]
        check(seeds, found)
        check(means, astuple(mean_std(found)))
        check(sampled, astuple(mean_std([run.return_sampled for run in runs])))


def test_gains_that_the_page_names() -> None:
    for words, task in (
        ("On the seeds of the search ES went from", "ant"),
        ("to 1010 on ant, from", "dm-cartpole-balance"),
        ("on dm-cartpole-balance and from", "inverted-double-pendulum"),
    ):
        says("docs/benchmark.md", words, [trial("es", task, 0), trial("es", task, TAKEN["es"][task])])
    says("docs/benchmark.md", "on inverted-double-pendulum, PPO from", [trial("ppo", "ant", 0), trial("ppo", "ant", 1)])
