"""The paper's tables: planned, run, survived, and printed as the numbers say."""

from __future__ import annotations

import json
import math
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from paper_runs import made_up, small_group, write_group

from quell.cli import main
from quell.config import to_dict
from quell.methods import make_config
from quell.paper.estimate import clock, known_speeds, makespan, seconds_of
from quell.paper.formats import html, latex, markdown
from quell.paper.plan import ENTRIES, Budget, Job, plan
from quell.paper.published import ABLATION_TASKS, LABELS, SCORES, mean_std, score
from quell.paper.render import render_group, runs_of
from quell.paper.scores import aggregate, compare, grid, improvement, scaled
from quell.paper.summary import read, thin, write
from quell.paper.tables import build, number, steps
from quell.runs import Run
from quell.statistics import MeanStd, bold

TINY = ["--budget", "0.0002", "--seeds", "1", "--episodes", "1", "--jobs", "2"]


def files(folder: Path) -> dict[str, bytes]:
    """Everything that must not depend on when and how often a command ran."""
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return {name: data for name, data in found.items() if not name.endswith("timings.jsonl")}


# What the paper printed


def test_published_scores() -> None:
    assert len(LABELS) == 16
    assert (score("swimmer", "cv"), score("lqr", "qmc"), score("lqr", "ppo")) == ("237±33", "-5634±1059", None)
    assert score("dm-hopper-hop", "ppo+s+a+m") == "46.4"
    assert mean_std("roboschool-pong", "es") == MeanStd(-5.0, 0.8)
    assert len(SCORES) == 16 * 6 + 13 * 3 + 6 * 6
    row = {method: mean_std("dm-cheetah-run", method) for method in ENTRIES["table-es"].methods}
    assert bold({name: value for name, value in row.items() if value}) == {"es", "cv"}


def test_every_entry_names_tasks_and_methods_that_exist() -> None:
    for entry in ENTRIES.values():
        for task in entry.tasks:
            for method in entry.methods:
                make_config(task, method, "paper").validate()
    assert ENTRIES["table-ppo"].tasks == ABLATION_TASKS


# Planning


def jobs_of(entry: str, tmp_path: Path, budget: Budget, seeds: int = 5, tasks: tuple[str, ...] = ()) -> list[Job]:
    return plan(
        ENTRIES[entry],
        tasks=tasks,
        methods=(),
        seeds=seeds,
        budget=budget,
        preset="paper",
        out=tmp_path,
        runs=tmp_path / "runs",
        episodes=20,
    )


def test_a_plan_covers_the_table(tmp_path: Path) -> None:
    jobs = jobs_of("table-es", tmp_path, Budget())
    assert len(jobs) == 16 * 6 * 5
    assert {job.config.steps for job in jobs if job.config.task == "lqr"} == {4_000_000}
    assert {job.config.steps for job in jobs if job.config.task != "lqr"} == {20_000_000}
    assert len({job.summary for job in jobs}) == len(jobs)
    assert {job.config.seed for job in jobs[: 16 * 6]} == {0}, "one seed of everything comes first"
    assert Job.decode(jobs[0].encode()) == jobs[0]
    assert len(jobs_of("table-ppo", tmp_path, Budget(), seeds=3)) == 6 * 8 * 3
    assert all(seconds_of(job, {}) > 0 for job in jobs)


def test_budgets() -> None:
    assert Budget.parse(0.05, ()).of("swimmer") == 1_000_000
    assert Budget.parse(0.05, ()).of("lqr") == 200_000
    assert Budget.parse(0.05, ()).name == "0.05"
    mixed = Budget.parse(1.0, ("1e6", "dm-quadruped-escape=1e5"))
    assert (mixed.of("lqr"), mixed.of("dm-quadruped-escape"), mixed.name) == (1_000_000, 100_000, "1000000")


def test_times() -> None:
    assert makespan([3, 1, 1, 1], 2) == 3
    assert makespan([5, 4, 3], 2) == 7
    assert clock(3723) == "1:02:03"
    assert clock(200_000) == "2 d 7 h"


def test_speeds_are_learned_from_earlier_runs(tmp_path: Path) -> None:
    (tmp_path / "paper-1").mkdir()
    rows = [{"task": "lqr", "method": "es", "steps": s, "seconds": 2.0} for s in (100, 200, 900)]
    (tmp_path / "paper-1/timings.jsonl").write_text("\n".join([*map(json.dumps, rows), '{"task": "l']))
    assert known_speeds(tmp_path) == {("lqr", "es"): 100.0}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tabel-es"], "did you mean 'table-es'?"),
        (["table-es", "--tasks", "swimer"], "did you mean 'swimmer'?"),
        (["table-es", "--methods", "ppo"], "no method 'ppo' here"),
        (["table-es", "--budget", "0"], "share of the paper's steps"),
        (["table-es", "--budget", "2"], "share of the paper's steps"),
        (["table-es", "--steps", "many"], "--steps takes a whole number"),
        (["table-es", "--steps", "lqr=5"], "needs a number for all tasks"),
        (["table-es", "--steps", "100", "--budget", "0.5"], "not both"),
        (["table-es", "--seeds", "0"], "--seeds must be at least 1"),
        (["table-es", "--jobs", "0"], "--jobs must be at least 1"),
        (["render", "--out", "nowhere"], "holds no summaries"),
    ],
    ids=" ".join,
)
def test_bad_input(
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["paper", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_plan_is_only_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["paper", "table-ppo", "--plan", "--seeds", "3"]) == 0
    assert "144 runs, 0 of them done" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


# Numbers


def test_scores_by_hand() -> None:
    runs = [made_up("swimmer", "es", 0, 100, 20), made_up("swimmer", "es", 1, 140, 40)]
    runs += [made_up("swimmer", "cv", 0, 210, 20), made_up("swimmer", "cv", 1, 230, 40)]
    row = grid(runs)["swimmer"]
    # r_random 30, r_es 120, so the span is 90 and CV's seeds lie at 2 and 200/90
    found = improvement(row, "cv")
    assert found is not None
    assert found.mean == pytest.approx((180 / 90 + 200 / 90) / 2)
    assert found.std == pytest.approx(20 / 90 / np.sqrt(2))
    assert scaled(row, [30, 220, 125]) == pytest.approx([0, 1, 0.5])  # the farthest mean is CV's 220
    sums = aggregate({"swimmer": row}, "cv")
    assert sums is not None
    assert (sums.wins, sums.ties, sums.losses) == (1, 0, 0)
    assert sums.improvement.estimate == 1.0
    assert sums.iqm.estimate == pytest.approx(1.0)
    # curves of CV by trapezoid: 20 + 190 * mean(.25 .. 1) and 40 + 190 * the same, less r_random, over 190
    assert sums.area == pytest.approx(np.mean([20 + 190 * 0.625 - 30, 40 + 190 * 0.625 - 30]) / 190)


def test_no_improvement_is_claimed_where_es_did_not_learn() -> None:
    row = grid([made_up("swimmer", "es", 0, -5, 0), made_up("swimmer", "cv", 0, 10, 0)])["swimmer"]
    assert improvement(row, "cv") is None


def test_compare() -> None:
    assert [compare(MeanStd(10, 1), MeanStd(*b)) for b in ((7, 1), (8, 1), (13, 1))] == [1, 0, -1]
    assert compare(MeanStd(10, math.nan), MeanStd(0, 1)) == 0  # one seed


def test_thin_curves_keep_the_mean() -> None:
    rows = [
        {"iteration": i + 1, "steps": 10 * (i + 1), "return/mean": float(i), "variance/es": 2.0, "variance/method": 1.0}
        for i in range(6)
    ]
    rows[3]["eval/return"] = 7.0
    curve = thin(rows, points=3)
    assert curve["steps"] == [20, 40, 60]
    assert curve["return"] == [0.5, 2.5, 4.5]
    assert curve["ratio"] == [0.5, 0.5, 0.5]
    assert curve["evaluation"] == [None, 7.0, None]
    assert thin([])["steps"] == []


def test_numbers_as_printed() -> None:
    assert [number(x) for x in (141.4, -5.04, 19.96, -3.7e37)] == ["141", "-5.0", "20.0", "-3.7e37"]
    assert [steps(n) for n in (20_000_000, 1_000_000, 123_456)] == ["2e7", "1e6", "123,456"]


# Tables and figures


def test_tables_show_both_numbers(tmp_path: Path) -> None:
    runs = [read(path) for path in (small_group(tmp_path) / "summaries").iterdir()]
    entry = ENTRIES["table-es"]
    table = build(entry, runs_of(entry, runs))
    text = markdown(table, "comment")
    assert "| Swimmer | 4e4 | 2 | 105 ± 7.1<br><sub>141 ± 20</sub>" in text
    assert "**205 ± 7.1**<br><sub>237 ± 33</sub>" in text
    assert "1 / 0 / 1" in text, "CV wins on swimmer and loses on halfcheetah"
    assert r"$\mathbf{205 \pm 7.1}$" in latex(table, "comment")
    assert "<strong>205 ± 7.1</strong><small>237 ± 33</small>" in html(table)


def test_names_are_escaped() -> None:
    runs = [made_up("swimmer", "es", 0, 1.0)]
    table = build(ENTRIES["table-es"], grid(runs))
    odd = type(table)("<i>&", table.methods, [type(table.rows[0])("a_b<&", 1, table.rows[0].cells)], [], [])
    assert "a_b&lt;&amp;" in html(odd)
    assert "&lt;i&gt;&amp;" in html(odd)
    assert r"a\_b<\&" in latex(odd, "")


def test_rendering_is_the_same_to_the_last_byte(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = small_group(tmp_path / "a"), small_group(tmp_path / "b")
    render_group(first)
    assert main(["paper", "render", "--out", str(tmp_path / "b")]) == 0
    assert files(first) == files(second)
    names = {"table-es.md", "table-es.tex", "table-es.html", "fig-curves.png", "fig-curves.svg", "fig-improvement.svg"}
    assert names < files(first).keys()
    assert "table-pg.md" not in files(first), "PG and CV alone are no table of policy gradients"


def test_what_is_committed_is_what_the_summaries_give(tmp_path: Path) -> None:
    root = Path(__file__).parent.parent
    listed = subprocess.run(["git", "-C", str(root), "ls-files", "results/paper"], capture_output=True, text=True)
    for name in listed.stdout.split():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / name, tmp_path / name)
    if not listed.stdout:
        pytest.skip("not a checkout with results")
    before = files(tmp_path / "results/paper")
    assert main(["paper", "render", "--out", str(tmp_path / "results/paper")]) == 0
    after = files(tmp_path / "results/paper")
    assert before.keys() == after.keys()
    for name in before:
        if not name.endswith((".png", ".svg")):  # drawn by whatever matplotlib is here
            assert before[name] == after[name], name


def test_a_file_that_is_no_summary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    group = write_group(tmp_path, [made_up("swimmer", "es", 0, 1.0)])
    (group / "summaries/x.json").write_text('{"config": {}}')
    assert main(["paper", "render", "--out", str(tmp_path)]) == 2
    assert "is not the summary of a run" in capsys.readouterr().err


def test_a_summary_of_another_budget_is_not_taken_for_this_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(made_up("swimmer", "es", 0, 1.0), tmp_path / "paper-0.0002/summaries/swimmer-es-0.json")
    command = ["paper", "table-es", *TINY, "--tasks", "swimmer", "--methods", "es", "--out", str(tmp_path)]
    assert main(command) == 2
    assert "was made with another steps" in capsys.readouterr().err


def test_theorem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quell.paper.theorem.REPEATS", 20)
    assert main(["paper", "theorem", "--out", str(tmp_path)]) == 0
    assert "| 100 | 5 | 1 | 201 |" in (tmp_path / "theorem.md").read_text()


# Running


def command(tmp_path: Path, *more: str) -> list[str]:
    return ["paper", "table-es", *TINY, "--out", str(tmp_path / "out"), "--runs", str(tmp_path / "runs"), *more]


def test_a_failing_run_is_reported_and_stops_no_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = make_config("lqr-302", "es", "paper", {"steps": 800, "lr": 0.5})
    Run.create(other, tmp_path / "runs/paper-0.0002", "seed0").close()
    arguments = command(tmp_path, "--tasks", "lqr-302", "--methods", "es", "ortho")
    assert main(arguments) == 1
    told = capsys.readouterr()
    assert "FAILED  lqr-302 es seed 0:" in told.err
    assert "holds a run with another lr" in told.err
    summaries = tmp_path / "out/paper-0.0002/summaries"
    assert {path.name for path in summaries.iterdir()} == {"lqr-302-ortho-0.json"}
    assert (tmp_path / "out/paper-0.0002/table-es.md").exists()
    run = read(summaries / "lqr-302-ortho-0.json")
    assert run.config.preset == "paper"
    assert len(run.final["sampled"]) == len(run.untrained) == 1
    before = files(tmp_path / "out")
    assert main(command(tmp_path, "--tasks", "lqr-302", "--methods", "ortho")) == 0
    assert "1 runs, 1 of them done" in capsys.readouterr().out
    assert files(tmp_path / "out") == before


@pytest.mark.slow
def test_killed_at_random_moments_the_files_are_the_same(tmp_path: Path) -> None:
    more = ["--tasks", "lqr-302", "swimmer", "--methods", "es", "cv", "--steps", "30000"]

    def arguments(where: str) -> list[str]:
        tiny = [*TINY[2:], "--out", str(tmp_path / where), "--runs", str(tmp_path / f"{where}-runs")]
        return [sys.executable, "-m", "quell", "paper", "table-es", *tiny, *more]

    assert subprocess.run(arguments("whole"), capture_output=True).returncode == 0
    dice = random.Random(0)
    for attempt in range(8):
        running = subprocess.Popen(arguments("broken"), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        time.sleep(dice.uniform(0.5, 7))
        running.send_signal(signal.SIGKILL if attempt % 2 else signal.SIGTERM)
        assert running.wait(timeout=60) in (-signal.SIGKILL, -signal.SIGTERM, 130, 0)
    assert subprocess.run(arguments("broken"), capture_output=True).returncode == 0
    assert files(tmp_path / "whole") == files(tmp_path / "broken")


@pytest.mark.slow
def test_the_whole_table_at_a_thousandth_of_the_budget(tmp_path: Path) -> None:
    small = ["--budget", "0.001", "--seeds", "2", "--episodes", "1"]
    where = ["--out", str(tmp_path / "out"), "--runs", str(tmp_path / "runs")]
    words = [sys.executable, "-m", "quell", "paper", "table-es", *small, *where]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "out/paper-0.001/summaries").iterdir())) == 16 * 6 * 2


def test_summaries_survive_a_round_trip(tmp_path: Path) -> None:
    run = made_up("swimmer", "cv", 3, 12.5)
    write(run, tmp_path / "a.json")
    assert to_dict(read(tmp_path / "a.json").config) == to_dict(run.config)
    assert read(tmp_path / "a.json") == run
