"""A search by the stated protocol, and methods side by side."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from pretended import pretend

from quell.campaign.benchmark import grid, mean_ranks, table
from quell.campaign.plan import by_task
from quell.campaign.tune import FIRST_SEED, Search, search
from quell.cli import main
from quell.commands.benchmark import EPISODES, SEEDS, TASKS, Arguments, _of_task, render
from quell.config import changed
from quell.runs import archive
from quell.runs.folder import SAVING
from quell.runs.record import Record, read_group
from quell.stats import POWER, probability_of_improvement
from quell.training import settings_file
from quell.training.methods import make_config

RESULTS = Path(__file__).parents[2] / "results"


def test_a_search_keeps_to_its_protocol(tmp_path: Path) -> None:
    """Every trial once, the best quarter with three more seeds, and the best of those is what it says."""
    wanted = Search(("hopper", "swimmer"), "natural-cv", 8, 1000, tmp_path / "out", tmp_path / "runs")
    worth = {trial: float(trial) for trial in range(8)}  # the last trial is best
    ran: list[tuple[int, int]] = []

    def run(jobs: object) -> None:
        for job in jobs:  # type: ignore[attr-defined]
            trial = int(job.label.removeprefix("trial"))
            ran.append((trial, job.config.seed))
            pretend(job, worth[trial] + 0.001 * job.config.seed)

    found = search(wanted, run)
    assert [seed for _, seed in ran[:16]] == [FIRST_SEED] * 16
    assert {trial for trial, _ in ran[16:]} == {6, 7}
    assert {seed for _, seed in ran[16:]} == {101, 102, 103}
    assert found["best"] == wanted.settings()[7]
    assert [row["trial"] for row in found["trials"]] == [7, 6, 5, 4, 3, 2, 1, 0]
    before = len(ran)
    search(wanted, run)
    assert len(ran) == before  # finished runs are not repeated
    kept = json.loads((tmp_path / "out/natural-cv/searches.json").read_text())["hopper+swimmer"]["trials"]
    assert kept[0]["seeds"] == 4
    assert "trial07" in (job := wanted.job(7, "hopper", FIRST_SEED)).title
    written = settings_file.read(wanted.preset)
    assert written.pop("method") == "natural-cv"
    asked = {"seed": FIRST_SEED, "steps": 1000, "eval_every": 0}
    assert make_config("hopper", "natural-cv", "tuned", {**written, **asked}) == job.config, "as train --config has it"


def test_halving_spends_the_budget_on_the_best(tmp_path: Path) -> None:
    """All for a ninth, the best third of them for a third, the best third of these for all of it and more seeds."""
    wanted = Search(("hopper",), "es", 18, 9000, tmp_path / "out", tmp_path / "runs", halving=True)
    ran: list[tuple[int, int, int]] = []

    def run(jobs: object) -> None:
        for job in jobs:  # type: ignore[attr-defined]
            trial = int(job.label.removeprefix("trial")[:2])
            ran.append((trial, job.config.steps, job.config.seed))
            pretend(job, trial + 0.001 * job.config.steps)

    found = search(wanted, run)
    by_budget = {steps: {trial for trial, budget, _ in ran if budget == steps} for steps in (1000, 3000, 9000)}
    assert by_budget == {1000: set(range(18)), 3000: set(range(12, 18)), 9000: {16, 17}}
    assert sorted(seed for trial, budget, seed in ran if (trial, budget) == (17, 9000)) == [100, 101, 102, 103]
    assert [row["trial"] for row in found["trials"]] == [*range(17, -1, -1)], (
        "who went further first, then who was better"
    )
    assert [row.get("steps") for row in found["trials"]] == [None] * 2 + [3000] * 4 + [1000] * 12
    before = len(ran)
    assert search(wanted, run) == found
    assert len(ran) == before


def test_tasks_count_the_same_whatever_their_scale(tmp_path: Path) -> None:
    """A trial that is best on two tasks of three wins, by however little."""
    wanted = Search(("hopper", "swimmer", "lqr-302"), "natural-cv", 2, 1000, tmp_path / "out", tmp_path / "runs")
    for trial, values in ((0, (1.0, 1.0, 0.0)), (1, (0.9, 0.9, 1e6))):
        for task, value in zip(wanted.tasks, values, strict=True):
            pretend(wanted.job(trial, task, FIRST_SEED), value)
    assert wanted.ranked([0, 1], [FIRST_SEED])[0] == 0


@pytest.mark.usefixtures("jobs_in_process")
def test_a_real_search_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quell.campaign.tune.MORE_SEEDS", 1)
    command = ["tune", "lqr-302", "--method", "es", "--trials", "1", "--steps", "1000", "--episodes", "1"]
    command += ["--pruner", "none"]
    assert main([*command, "--out", str(tmp_path / "o"), "--runs", str(tmp_path / "r"), "--jobs", "2"]) == 0
    said = capsys.readouterr().out
    assert "best: what is in use" in said
    words = said.splitlines()[-1].removeprefix("train with it: quell ").split()
    assert main([*words, "--show"]) == 0


@pytest.mark.parametrize("bad", [["tune", "hopper", "--trials", "0"], ["tune", "hopper", "--method", "pg"]])
def test_a_search_that_makes_no_sense_is_refused(bad: list[str]) -> None:
    assert main(bad) == 2


@pytest.mark.parametrize("bad", [["hopper=9"], ["0"], ["20", "hopper=many"], []])
def test_episodes_that_make_no_sense_are_refused(bad: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["benchmark", "--tasks", "lqr-302", "--methods", "es", "--episodes", *bad]) == 2
    assert "--episodes" in capsys.readouterr().err


def _record(task: str, method: str, seed: int, score: float, **more: str) -> Record:
    config = make_config(task, method, "tuned", {"seed": seed, "steps": 1000, **more})
    return Record(config, {}, {"sampled": [score], "mean_action": [score]}, [0.0], {"return": [score]})


def test_a_table_marks_the_best_and_what_seeds_do_not_tell_from_it() -> None:
    scores = {"natural-cv": (10, 11, 12, 13), "es": (9, 11, 12, 14), "ars": (1, 2, 3, 4), "ppo": (30,)}
    found = grid([_record("hopper", m, seed, x) for m, xs in scores.items() for seed, x in enumerate(xs)])
    lines = table(found, ("natural-cv", "es", "ars"), seconds={("hopper", "es"): 5.0}, published={}).splitlines()
    assert lines[2] == "| hopper | 1e3 | **11.5 ± 1.3 (4)** | **11.5 ± 2.1 (4)** | 2.5 ± 1.3 (4) |"
    assert lines[3] == "| mean rank |  | 1.5 | 1.5 | 3.0 |"
    assert lines[5] == "| P(natural CV above ...) | ES | ARS |"
    assert lines[7].startswith("| hopper | 0.50 [")
    assert lines[7].endswith("] | 1.00 [0.56, 1.00], above |")
    assert lines[10] == f"A number alone: the two cannot be distinguished. {POWER}"
    assert lines[14] == "| hopper |  | 5 |  |"


def test_combinations_without_a_name_are_not_mixed() -> None:
    """Neither with one another nor with the method that they were asked for under."""
    runs = [_record("hopper", "es", seed, 1.0) for seed in range(2)]
    runs += [_record("hopper", "es", 0, 2.0, estimator=name) for name in ("actor-critic", "ppo")]
    found = {name: len(several) for name, several in grid(runs)["hopper"].items()}
    assert found == {"custom (actor-critic, adam)": 1, "custom (ppo, adam)": 1, "es": 2}


def test_a_table_ends_in_a_row_over_all_tasks() -> None:
    """LQR apart, and tasks that both methods have been run on; how many is told."""
    runs = [
        _record(t, m, s, s + 10.0 * (m == "natural-cv"))
        for t in ("hopper", "ant")
        for m in ("natural-cv", "es")
        for s in range(4)
    ]
    runs += [_record("lqr", method, 0, 0.0) for method in ("natural-cv", "es")]
    runs += [_record("ant", "ars", seed, 5.0) for seed in range(4)]
    lines = table(grid(runs), ("natural-cv", "es", "ars"), seconds={}, published={}).splitlines()
    (last,) = [line for line in lines if line.startswith("| all tasks but lqr | ")]
    both, one = last.strip("| ").split(" | ")[1:]
    assert both == f"{probability_of_improvement(*({t: range(i, i + 4) for t in 'ab'} for i in (10, 0))):.2f} (2)"
    assert one.endswith(" (1)")


def test_ranks_are_over_tasks_that_all_have() -> None:
    rows = [("hopper", "natural-cv", 1.0), ("hopper", "es", 2.0), ("swimmer", "natural-cv", 9.0)]
    found = grid([_record(task, method, 0, score) for task, method, score in rows])
    assert mean_ranks(found, ("natural-cv", "es", "ars")) == {"natural-cv": 2.0, "es": 1.0}


CHANGED_SINCE = [("gym:CartPole-v1", "ppo")]
"""Rows made before their preset's last change, which results/benchmark/README.md and the page name."""


@pytest.fixture(scope="module")
def records() -> list[Record]:
    return read_group(RESULTS / "benchmark")


class TestPublished:
    """What results/benchmark says is what its records say."""

    printed = (RESULTS / "benchmark" / "table.md").read_text()

    def test_every_policy_was_judged_by_as_many_episodes_as_the_command_takes(self, records: list[Record]) -> None:
        wanted = by_task("episodes", EPISODES)
        for record in records:
            assert len(record.final["mean_action"]) == wanted.get(record.config.task, wanted[""]), record.config

    def test_the_table_is_made_of_the_records(self, tmp_path: Path) -> None:
        for name in ("records.jsonl.gz", "timings.jsonl"):
            shutil.copy(RESULTS / "benchmark" / name, tmp_path)
        assert render(tmp_path, Arguments().methods) == self.printed
        assert {path.name for path in tmp_path.glob("*.png")} == {"curves.png", "seconds.png"}

    def test_every_row_is_whole(self, records: list[Record]) -> None:
        """All methods on all tasks, each with the seeds that the command takes."""
        seeds, found = by_task("seeds", SEEDS), grid(records)
        assert found.keys() == set(TASKS)
        for task, row in found.items():
            wanted = list(range(seeds.get(task, seeds[""])))
            methods = _of_task(task, Arguments().methods)
            assert {name: [run.config.seed for run in row[name]] for name in methods} == dict.fromkeys(methods, wanted)

    def test_every_run_has_the_presets_settings(self, records: list[Record]) -> None:
        """Settings that were changed since would make the table somebody else's."""
        for record in records:
            if (record.config.task, record.config.method) in CHANGED_SINCE:
                continue
            asked = {"seed": record.config.seed, "steps": record.config.steps, "eval_every": 0}
            today = make_config(record.config.task, record.config.method, "tuned", asked)
            differing = [name for name in changed(record.config, today) if name not in SAVING]
            assert differing == [], (record.config.task, record.config.method)

    def test_the_line_search_acts_rarely(self) -> None:
        """One run with it and one without on every task."""
        found = json.loads((RESULTS / "tuning" / "compared.json").read_text())["line-search"]["tasks"]
        assert found.keys() == set(TASKS)
        assert [task for task, run in found.items() if not run["same"]] == ["lqr", "dm-pendulum-swingup"]

    def test_no_seed_was_tuned_on(self, records: list[Record]) -> None:
        assert max(record.config.seed for record in records) < FIRST_SEED


def test_rendering_nothing_is_refused(tmp_path: Path) -> None:
    from quell.errors import UsageError

    with pytest.raises(UsageError, match="no records"):
        render(tmp_path, ("natural-cv", "es"))


def test_bias_does_not_show_in_the_step_metric() -> None:
    """docs/natural.md says that every interval contains 0."""
    measured = [facts for name, facts in archive.read(RESULTS / "variance").items() if name.startswith("natural/")]
    assert len(measured) == 13
    for facts in measured:
        found = {row["name"]: row["metrics"]["step"]["bias"] for row in facts["rows"]}
        assert all(found[name]["low"] <= 0 <= found[name]["high"] for name in ("actor-critic", "natural-cv"))
