"""The paper's tables: planned, run, survived, and printed as the numbers say."""

from __future__ import annotations

import math
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from made_up import made_up, small_group, write_group

from quell.campaign.plan import Budget
from quell.cli import main
from quell.commands.arguments import parse
from quell.commands.paper import Arguments, planned
from quell.config import flatten
from quell.paper.formats import html, latex, markdown
from quell.paper.published import ABLATION_TASKS, ENTRIES, LABELS, SCORES, group_name, is_group
from quell.paper.render import render_group, runs_of
from quell.paper.scores import aggregate, compare, grid, improvements, scaled
from quell.paper.tables import build
from quell.runs import archive
from quell.runs.record import read_group
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
            for method in entry.methods:
                make_config(task, method, "paper").validate()
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
    odd = type(table)("<i>&", table.methods, [type(table.rows[0])("a_b<&", 1, table.rows[0].cells)], [], [])
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


def test_committed_tables_equal_those_made_of_the_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for drawing in ("curve_panels", "improvement_bars"):  # which whatever matplotlib is here does; see above
        monkeypatch.setattr(f"quell.paper.render.{drawing}", lambda *given, **_: [p.touch() for p in given[-2:]])
    root = Path(__file__).parents[2]
    listed = subprocess.run(["git", "-C", str(root), "ls-files", "results/paper"], capture_output=True, text=True)
    for name in listed.stdout.split():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / name, tmp_path / name)
    if not listed.stdout:
        pytest.skip("not a checkout with results")
    before = files(tmp_path / "results/paper")
    assert main(["paper", "render", "--out", str(tmp_path / "results/paper")]) == 0
    after = files(tmp_path / "results/paper")
    assert {name for name in after if not name.endswith(".svg")} == before.keys()
    for name in before:
        assert before[name] == after[name], name


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
    assert "was made with another steps" in capsys.readouterr().err


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
