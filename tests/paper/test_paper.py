"""The paper's tables: planned, run, survived, and printed as the numbers say."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
from made_up import made_up, made_up_column, small_group, write_group

from quell.campaign.plan import Budget
from quell.cli import main
from quell.commands.arguments import parse
from quell.commands.paper import Arguments, planned
from quell.config import flatten
from quell.paper import selection
from quell.paper.columns import SELECTION, column_of, label_of, settings_of
from quell.paper.cost import core_hours
from quell.paper.formats import html, latex, markdown
from quell.paper.published import ABLATION_TASKS, ENTRIES, LABELS, SCORES, group_name, is_group
from quell.paper.render import render_group, runs_of
from quell.paper.scores import aggregate, astray, compare, grid, improvements, paired, paired_sum, scaled
from quell.paper.tables import build
from quell.runs import archive
from quell.runs.record import Record, read_group
from quell.stats import MeanStd, bold
from quell.training.methods import make_config

TINY = ["--budget", "0.0002", "--seeds", "1", "--episodes", "1", "--jobs", "2"]


def files(folder: Path) -> dict[str, bytes]:
    """Everything that must not depend on when and how often a command ran."""
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return {name: data for name, data in found.items() if not name.endswith("timings.jsonl")}


# What the paper printed


def test_published_scores() -> None:
    assert len(LABELS) == 16
    found = [SCORES.get(at) for at in (("swimmer", "cv"), ("lqr", "qmc"), ("lqr", "ppo"))]
    assert found == ["237±33", "-5634±1059", None]
    assert SCORES["dm-hopper-hop", "ppo-paper+s+a+m"] == "46.4"
    assert len(SCORES) == 16 * 6 + 13 * 3 + 6 * 6
    printed = {method: SCORES["dm-cheetah-run", method] for method in ENTRIES["table-es"].methods}
    assert bold({name: MeanStd(*map(float, text.split("±"))) for name, text in printed.items()}) == {"es", "cv"}


def test_every_entry_names_tasks_and_methods_that_exist() -> None:
    for entry in ENTRIES.values():
        for task in entry.tasks:
            for column in entry.methods:
                method, settings = settings_of(column)
                config = make_config(task, method, "paper", settings).validate()
                run = replace(made_up("swimmer", "es", 0, 1.0), config=config, label=label_of(column, config))
                assert column_of(run) == column
    assert ENTRIES["table-ppo"].tasks == ABLATION_TASKS


# Planning


def test_plans_cover_the_tables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for words, runs in ((["table-es"], 16 * 6 * 5), (["table-pg", "--seeds", "2"], 16 * 5 * 2), (["fig-curves"], 400)):
        assert main(["paper", *words, "--plan"]) == 0
        head, *rows, last = [line.split() for line in capsys.readouterr().out.splitlines()]
        assert head == ["task", "steps", "runs"]
        assert {row[0]: row[1] for row in rows} == {
            task: "4,000,000" if task == "lqr" else "20,000,000" for task in LABELS
        }
        assert last[:2] == [str(runs), "runs,"]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tabel-es"], "did you mean 'table-es'?"),
        (["table-es", "--tasks", "swimer"], "did you mean 'swimmer'?"),
        (["table-es", "--methods", "ppo"], "no method 'ppo' here"),
        (["table-es", "--budget", "0"], "share of the whole steps"),
        (["table-es", "--budget", "2"], "share of the whole steps"),
        (["table-es", "--steps", "many"], "--steps takes a whole number"),
        (["table-es", "--steps", "lqr=5"], "needs a number for all tasks"),
        (["table-es", "--steps", "100", "--budget", "0.5"], "not both"),
        (["table-es", "--steps", "100", "swimer=5"], "no task 'swimer' here (did you mean 'swimmer'?)"),
        (["table-es", "--seeds", "0"], "--seeds 0 must be at least 1"),
        (["table-es", "--jobs", "0"], "--jobs 0 must be at least 1"),
        (["render", "--out", "nowhere"], "holds no records"),
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


def test_a_plan_needs_no_extras_and_a_run_names_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lacking = {"dm_control", "pybullet_envs_gymnasium", "envpool"}
    monkeypatch.setattr("quell.errors.find_spec", lambda name: None if name in lacking else True)
    for entry in ("table-es", "table-pg", "table-ppo"):
        assert main(["paper", entry, "--plan"]) == 0
        assert "which need pip install 'quell[" in capsys.readouterr().err
    small = ["paper", "table-es", "--steps", "100", "--seeds", "1", "--methods", "es"]
    assert main([*small, "--tasks", "lqr", "dm-cheetah-run", "roboschool-halfcheetah"]) == 2
    said = capsys.readouterr().err
    assert "dm-cheetah-run, roboschool-halfcheetah, which need pip install 'quell[dm,robo]'" in said
    assert "--skip-missing" in said
    assert not list(tmp_path.iterdir())
    assert main([*small, "--plan", "--skip-missing"]) == 0
    shown = capsys.readouterr()
    assert "5 runs, 0 of them done" in shown.out
    assert "left out: roboschool-halfcheetah, bipedalwalker, dm-cheetah-run" in shown.err


def test_other_settings_have_a_folder_of_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["paper", "table-es", *TINY, "--tasks", "lqr-302", "--methods", "es"]
    large = ["--settings", "policy.output_scale", "1", "policy.init_std", "1"]
    assert main([*words, *large]) == 2
    assert "--settings and --label go together" in capsys.readouterr().err
    jobs = planned(parse(Arguments, [*words[1:], *large, "--label", "large-start"], prog="quell paper"))
    assert {job.record.parts[-3] for job in jobs} == {"paper-large-start-0.0002"}
    assert {flatten(job.config)["policy.init_std"] for job in jobs} == {1.0}


# Numbers


def test_scores_by_hand() -> None:
    runs = [made_up("swimmer", "es", 0, 100, 20), made_up("swimmer", "es", 1, 140, 40)]
    runs += [made_up("swimmer", "cv", 0, 210, 20), made_up("swimmer", "cv", 1, 230, 40)]
    row = grid(runs)["swimmer"]
    # r_random 30, r_es 120, so the span is 90 and CV's seeds lie at 2 and 200/90
    found = (improvements(row) or {})["cv"]
    assert found.mean == pytest.approx((180 / 90 + 200 / 90) / 2)
    assert found.std == pytest.approx(20 / 90 / np.sqrt(2))
    assert scaled(row, [30, 220, 125]) == pytest.approx([0, 1, 0.5])  # the farthest mean is CV's 220
    sums = aggregate({"swimmer": row}, "cv")
    assert sums is not None
    assert (sums.wins, sums.ties, sums.losses) == (1, 0, 0)
    assert sums.improvement.value == 1.0
    assert sums.iqm.value == pytest.approx(1.0)
    # curves of CV by trapezoid: 20 + 190 * mean(.25 .. 1) and 40 + 190 * the same, less r_random, over 190
    assert sums.area == pytest.approx(np.mean([20 + 190 * 0.625 - 30, 40 + 190 * 0.625 - 30]) / 190)


def test_scores_are_compared_as_they_are() -> None:
    """ES at -12,000 loses to CV at -10,000; in units of their start at -1e37 the two are one number."""
    runs = [made_up("lqr", method, seed, score - seed, -1e37) for seed in (0, 1) for method, score in LQR.items()]
    row = grid(runs)["lqr"]
    assert len(set(scaled(row, [LQR["es"], LQR["cv"]]))) == 1
    total = aggregate({"lqr": row}, "cv")
    assert total is not None
    assert total.improvement.value == 1
    assert (total.wins, total.ties, total.losses) == (1, 0, 0)


LQR = {"es": -12_000.0, "cv": -10_000.0}


def test_no_improvement_is_claimed_where_es_did_not_learn() -> None:
    row = grid([made_up("swimmer", "es", 0, -5, 0), made_up("swimmer", "cv", 0, 10, 0)])["swimmer"]
    assert improvements(row) is None


def test_compare() -> None:
    assert [compare(MeanStd(10, 1), MeanStd(*b)) for b in ((7, 1), (8, 1), (13, 1))] == [1, 0, -1]
    assert compare(MeanStd(10, math.nan), MeanStd(0, 1)) == 0  # one seed


# Seed by seed


def test_a_pair_by_hand() -> None:
    """Differences 6, 8, 10, -4: mean 5, std sqrt(116/3), so t(3) gives 5 ± 3.182 sqrt(116/3)/2."""
    es, cv = [10.0, 20, 30, 40], [16.0, 28, 40, 36]
    row = grid([made_up("swimmer", m, s, x) for m, own in (("es", es), ("cv", cv)) for s, x in enumerate(own)])[
        "swimmer"
    ]
    found = paired(row, "cv")
    assert found is not None
    assert found.difference is not None
    assert found.counted() == (3, 0, 1)
    assert found.difference.value == pytest.approx(5)
    assert found.difference.high - 5 == pytest.approx(3.18245 * np.sqrt(116 / 3) / 2, rel=1e-5)
    total = paired_sum({"swimmer": row}, "cv")
    assert total is not None
    assert total.gain is not None
    assert (total.chance.value, total.verdicts) == (0.75, (0, 1, 0))
    assert total.gain.value == pytest.approx(5 / 25), "ES gained 25"


def test_seeds_that_only_one_of_two_has_are_in_no_pair() -> None:
    runs = [made_up("swimmer", "es", seed, 10.0 * seed) for seed in range(5)]
    row = grid([*runs, made_up("swimmer", "cv", 3, 33.0), made_up("swimmer", "cv", 7, 99.0)])["swimmer"]
    found = paired(row, "cv")
    assert found is not None
    assert found.gaps == [3.0]
    assert found.difference is None, "one pair has no interval"
    assert paired(row, "pg") is None


def test_what_diverged_is_never_bold_and_in_no_mean() -> None:
    """CV's mean ± std reaches over that of ES, since one of its runs lies at -1e37."""
    ends = {"es": [-100.0, -110.0, -120.0], "cv": [-90.0, -95.0, -1e37]}
    runs = [made_up("lqr", m, s, x, -1e38) for m, own in ends.items() for s, x in enumerate(own)]
    runs += [made_up("swimmer", m, s, x + s) for m, x in (("es", 100.0), ("cv", 110.0)) for s in range(3)]
    table = build(ENTRIES["table-es"], grid(runs))
    lqr, mean, swimmer = table.rows
    assert [cell.bold for cell in lqr.cells] == [True, False]
    assert lqr.cells[1].text == "-3.3e36 (1 of 3 diverged)"
    assert "(1 of 3 diverged)" in latex(table, "")
    assert [cell.bold for cell in swimmer.cells] == [False, True]
    assert (lqr.label, mean.label) == ("LQR, sampled", "LQR, mean")
    (total,) = table.sums
    assert total.gain is not None
    assert (total.of, total.gain.value) == (1, pytest.approx(10 / 101))
    assert total.verdicts == (1, 0, 1)
    against = aggregate(grid(runs), "cv")
    assert against is not None
    assert (against.wins, against.ties, against.losses) == (1, 0, 1)


def test_a_bad_run_is_not_called_diverged() -> None:
    """-132, as the paper prints for PG on Swimmer beside 141, is bad; ten times as far out, it diverged."""
    for end, count in ((-132.0, 0), (-1500.0, 1)):
        row = grid([made_up("swimmer", "es", 0, 141.0), made_up("swimmer", "pg", 0, end)])["swimmer"]
        assert astray(row) == {"es": 0, "pg": count}


def test_mean_actions_have_a_line_of_their_own_on_lqr() -> None:
    run = replace(made_up("lqr-302", "es", 0, -50.0), final={"sampled": [-323.0], "mean_action": [-251.0]})
    table = build(ENTRIES["table-es"], grid([run]))
    assert [(line.label, line.cells[0].text) for line in table.rows] == [
        ("lqr-302, sampled", "-323"),
        ("lqr-302, mean", "-251"),
    ]


# The experiment on selection


def nine_sets(lift: float) -> list[Record]:
    """ES at 0, 10 and 20 in every set, in the fifth 90 above; CV the same and `lift` more, in the fifth alone 3."""
    runs = []
    for number, column in enumerate(SELECTION):
        for place in range(3):
            seed, score = 3 * number + place, 10.0 * place + (90 if number == 4 else 0)
            runs.append(made_up("swimmer", "es", seed, score))
            runs.append(made_up_column("swimmer", column, seed, score + (3 if number == 4 else lift)))
    return runs


def test_selection_by_hand() -> None:
    """Each set has a standard deviation of 10, so the best of nine equals is 1.485 * 10 / sqrt(3) above the mean."""
    (line,) = selection.lines(nine_sets(6.0))
    assert (line.seeds, line.es.mean, line.es.best) == (3, pytest.approx(20), pytest.approx(100))
    assert line.es.expected == pytest.approx(20 + 1.48501 * 10 / np.sqrt(3), abs=1e-3)
    assert (line.cv.mean, line.cv.best) == (pytest.approx(20 + (8 * 6 + 3) / 9), pytest.approx(103))
    assert line.difference.value == pytest.approx((8 * 6 + 3) / 9)
    assert line.paper is not None
    gain, share = line.paper
    assert (gain, share) == (96, pytest.approx(1.48501 * 33 / np.sqrt(5) / 96, abs=1e-4)), "237±33 against 141"
    assert [row[1] for row in selection.by_setting([line])] == ["+6.00 [+6.00, +6.00]"] * 4 + [
        "+3.00 [+3.00, +3.00]",
        *["+6.00 [+6.00, +6.00]"] * 4,
    ]


def test_an_experiment_that_is_not_finished_has_no_line_yet() -> None:
    assert selection.lines(run for run in nine_sets(1.0) if run.config.seed < 24) == []
    few = selection.lines(run for run in nine_sets(1.0) if run.config.seed != 26 or run.config.method == "es")
    assert [line.seeds for line in few] == [2]
    first = [run for run in nine_sets(6.0) if run.config.seed % 3 == 0]
    (line,) = selection.lines(first)
    assert (line.seeds, line.es.mean) == (1, pytest.approx(10)), "eight at 0, one at 90"
    assert line.es.expected == pytest.approx(10 + 1.48501 * 30, abs=1e-3), "which have a standard deviation of 30"
    assert selection.by_setting([line])[0][1] == "+6"


def test_selection_has_a_folder_and_a_table_of_its_own(tmp_path: Path) -> None:
    words = ["selection", "--seeds", "2", "--steps", "1000", "--tasks", "swimmer", "--out", str(tmp_path)]
    jobs = planned(parse(Arguments, words, prog="quell paper"))
    assert len(jobs) == 2 * 9 * 2
    assert len({job.record for job in jobs}) == len({job.folder for job in jobs}) == len({j.title for j in jobs}) == 36
    assert {job.record.parts[-3] for job in jobs} == {"paper-selection-1000"}
    for number, column in enumerate(SELECTION):
        own = [job for job in jobs if job.label and column == f"cv-{job.label}"]
        assert {job.config.seed for job in own} == {number, number + 9}
        eta, gamma = column.removeprefix("cv-eta").split("-gamma")
        found = flatten(own[0].config)
        assert found["estimator.coefficients.rate"] == float(eta)
        moved = {name.rpartition(".")[2]: x for name, x in found.items() if ".discount." in name}
        assert moved == ({"gammas": (0.99,)} if gamma == "0" else {"rate": float(gamma), "start": 0.99})
    group = tmp_path / "paper-selection-40000"
    for number, run in enumerate(nine_sets(2.0)):
        run.write(group / f"records/{number}.json")
    assert {path.name for path in render_group(group)} == {"selection.md", "selection.tex"}
    assert "| Swimmer | 4e4 | 3 | 20 | 100 |" in (group / "selection.md").read_text()


# Two machines


def test_records_of_two_machines_are_merged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [made_up("swimmer", method, seed, 100.0 + seed) for seed in (0, 1, 2) for method in ("es", "cv")]
    here, there, all_of_them = (tmp_path / name for name in ("here", "there", "all"))
    for place, own in ((here, runs[:4]), (there, runs[2:]), (all_of_them, runs)):
        group = write_group(place, own)
        archive.pack(group)
        lines = [f'{{"task": "swimmer", "seed": {run.config.seed}, "seconds": 1800}}\n' for run in own]
        (group / "timings.jsonl").write_text("".join(lines))
    assert main(["paper", "merge", str(there), "--out", str(here)]) == 0
    assert "2 runs more" in capsys.readouterr().out
    render_group(all_of_them / "paper-0.002")
    assert files(here) == files(all_of_them)
    assert core_hours(here / "paper-0.002") == 1.5, "lines that both have count once"
    write_group(there, [made_up("swimmer", "cv", 2, 7.0)])
    before = files(here)
    assert main(["paper", "merge", str(there), "--out", str(here)]) == 2
    assert "both have 'swimmer-cv-2', with another result" in capsys.readouterr().err
    assert files(here) == before
    assert main(["paper", "merge", str(tmp_path / "nowhere")]) == 2


def test_a_plan_says_what_it_would_cost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Timed: swimmer es at 1 s for 1,000 steps, cv at 3 s. Not timed: lqr."""
    rows = [
        {"task": "swimmer", "method": m, "seed": 0, "steps": 1000, "core_seconds": t} for m, t in (("es", 1), ("cv", 3))
    ]
    group = write_group(tmp_path, [])
    group.mkdir()
    (group / "timings.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ["paper", "table-es", "--plan", "--steps", "3.6e6", "--seeds", "1", "--out", str(tmp_path)]
    assert main([*words, "--tasks", "swimmer", "--methods", "es", "cv"]) == 0
    assert "about 4 core-hours" in capsys.readouterr().out
    assert main([*words, "--tasks", "swimmer", "lqr", "--methods", "ortho"]) == 0
    assert "about 3 core-hours" in (said := capsys.readouterr().out), "at the slowest method's pace"
    assert "and lqr, of which none was timed" in said


# Tables and figures


def test_tables_show_both_numbers(tmp_path: Path) -> None:
    runs = read_group(small_group(tmp_path))
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
    odd = type(table)("<i>&", table.methods, [type(table.rows[0])("a_b<&", 1, table.rows[0].cells)], [], [], {}, [])
    assert "a_b&lt;&amp;" in html(odd)
    assert "&lt;i&gt;&amp;" in html(odd)
    assert r"a\_b<\&" in latex(odd, "")


def test_rendering_is_the_same_to_the_last_byte(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = small_group(tmp_path / "a"), small_group(tmp_path / "b")
    render_group(first)
    assert main(["paper", "render", "--out", str(tmp_path / "b")]) == 0
    assert files(first) == files(second)
    names = {"table-es.md", "table-es.tex", "fig-curves.png", "fig-curves.svg", "fig-improvement.svg"}
    assert names < files(first).keys()
    assert "table-pg.md" not in files(first), "PG and CV alone are no table of policy gradients"


def test_committed_tables_and_figures_equal_those_made_of_the_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Path(__file__).parents[2]
    drawn = f"matplotlib=={version('matplotlib')}" in (root / "constraints.txt").read_text()
    if not drawn:  # another version's pictures have other bytes
        for drawing in ("curve_panels", "improvement_bars"):
            monkeypatch.setattr(f"quell.paper.render.{drawing}", lambda *given, **_: None)
    listed = subprocess.run(["git", "-C", str(root), "ls-files", "results/paper"], capture_output=True, text=True)
    for name in listed.stdout.split():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / name, tmp_path / name)
    if not listed.stdout:
        pytest.skip("not a checkout with results")
    before = files(tmp_path / "results/paper")
    assert main(["paper", "render", "--out", str(tmp_path / "results/paper")]) == 0
    after = files(tmp_path / "results/paper")
    made = {name for name in after if name.partition("/")[2].startswith(("table", "fig", "selection"))}
    assert {name for name in before if name.count("/") == 1} <= made | {n for n in before if n.endswith(archive.PACKED)}
    for name in before:
        assert before[name] == after[name], name
    assert [name for name in made - before.keys() if name.endswith(".md")] == []


def test_a_file_that_is_no_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    group = write_group(tmp_path, [made_up("swimmer", "es", 0, 1.0)])
    (group / "records/x.json").write_text('{"config": {}}')
    assert main(["paper", "render", "--out", str(tmp_path)]) == 2
    assert "is not the record of a run" in capsys.readouterr().err


def test_a_record_of_another_budget_is_not_taken_for_this_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made_up("swimmer", "es", 0, 1.0).write(tmp_path / "paper-0.0002/records/swimmer-es-0.json")
    command = ["paper", "table-es", *TINY, "--tasks", "swimmer", "--methods", "es", "--out", str(tmp_path)]
    assert main(command) == 2
    assert "was made with other settings (steps)" in capsys.readouterr().err


def test_theorem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quell.paper.theorem.REPEATS", 20)
    assert main(["paper", "theorem", "--page", str(tmp_path)]) == 0
    assert "| 100 | 5 | 1 | 201 |" in (tmp_path / "theorem.md").read_text()


@pytest.mark.slow
def test_the_whole_table_at_a_thousandth_of_the_budget(tmp_path: Path) -> None:
    small = ["--budget", "0.001", "--seeds", "2", "--episodes", "1"]
    where = ["--out", str(tmp_path / "out"), "--runs", str(tmp_path / "runs")]
    words = [sys.executable, "-m", "quell", "paper", "table-es", *small, *where]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(archive.read(tmp_path / "out/paper-0.001")) == 16 * 6 * 2


def test_a_results_folder_of_the_papers_is_known_by_its_name() -> None:
    """So that the tables beside the paper's numbers are made for those alone."""
    for preset, label, words in (
        ("paper", "", []),
        ("tuned", "", ["1e6"]),
        ("paper", "large-start", ["1000", "lqr=2"]),
    ):
        name = group_name(preset, label, Budget.parse(0.002 if not words else 1.0, words).name)
        assert is_group(name), name
    assert not any(map(is_group, ("benchmark", "swimmer-cv", "runs", "hopper-es", "ablation")))
