"""The benchmark of learning curves: its runs, its table and its figure."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import learning
import numpy as np
import pytest
from printed import RESULTS, check, page, record, records, rows

from quell.runs import archive
from quell.runs.record import Record, read_group
from quell.stats import UNRESOLVED, verdict


def score(run: Record) -> float:
    """What its final policy's mean actions earn."""
    return float(np.mean(run.final["mean_action"]))


def test_the_demo_holds_on_disjoint_sets_of_seeds() -> None:
    """What results/front-door/README.md says of `make run`'s second half: every seed above every seed, in each set."""
    scores: dict[str, dict[int, float]] = {"natural-cv": {}, "es": {}}
    for run in read_group(RESULTS / "front-door"):
        scores[run.config.method][run.config.seed] = score(run)
    sets = [range(first, first + 5) for first in range(0, len(scores["natural-cv"]), 5)]
    printed = (RESULTS / "front-door" / "README.md").read_text()
    for seeds in sets:
        own, plain = ([scores[method][seed] for seed in seeds] for method in ("natural-cv", "es"))
        assert min(own) > max(plain)
        assert verdict(own, plain)[1] == "above"
        cells = [f"{value:.0f}" for value in (np.mean(own), min(own), np.mean(plain), max(plain))]
        assert " | ".join([f"| {seeds[0]} to {seeds[-1]}", *cells]) in printed
    assert len(sets) == 10


def test_one_setting_for_two_tasks() -> None:
    """results/one-setting and docs/natural.md against their records and the benchmark's."""
    rounds = json.loads((RESULTS / "tuning" / "compared.json").read_text())["referee"]["rounds"]
    page = (RESULTS / "one-setting" / "README.md").read_text()
    for task in ("hopper", "swimmer"):
        groups = {
            "": records(
                "one-setting/hopper-tuned-cv-before-1000000-?" if task == "hopper" else "benchmark/swimmer-cv-?"
            ),
            **{
                label: records(f"one-setting/{task}-tuned-cv-{label}-1000000-?")
                for label in ("referee", "referee-fixed", "rising")
            },
        }
        for runs in groups.values():
            scores = [score(run) for run in runs]
            assert len(scores) == 5
            assert f"| {np.mean(scores):.0f} ± {np.std(scores, ddof=1):.0f} |" in page
            assert f"| {' '.join(f'{score:.0f}' for score in scores)} |" in page
        digits = 0 if task == "hopper" else 1
        for gamma in (0.995, 1.0):
            gains = [
                gain for name, run in rounds.items() if name.startswith(task) for used, gain in run if used == gamma
            ]
            told = f"{np.mean(gains):.{digits}f} ± {np.std(gains, ddof=1) / np.sqrt(len(gains)):.{digits}f}"
            assert told in page


def test_swimmers_that_keep_their_noise() -> None:
    runs = [*records("tuning/settings/swimmer-cv-fix.6-*"), *records("benchmark/swimmer-cv-?")]
    fast = [run for run in runs if score(run) >= 355]
    assert (len(fast), len(runs)) == (10, 11)
    assert "ten of the eleven seeds in the records end at 355 or more" in page("results/one-setting/README.md")


def test_perturbation_where_rewards_are_rare() -> None:
    """Ten fresh seeds of the pendulum: with perturbation, with next to none, and TRPO."""
    kinds, place = ("cv-now", "cv-tiny", "trpo-now"), "tuning/settings/dm-pendulum-swingup"
    scores = {name: [score(record(f"{place}-{name}-{seed}")) for seed in range(103, 113)] for name in kinds}
    assert [len(found) for found in scores.values()] == [10, 10, 10]
    for one, other in itertools.combinations(scores.values(), 2):
        assert verdict(one, other)[1] == UNRESOLVED
    page = " ".join((RESULTS.parent / "docs" / "natural.md").read_text().split())
    told = [f"{np.mean(found):.0f} ± {np.std(found, ddof=1):.0f}" for found in scores.values()]
    assert "{} with perturbations of 0.02, {} with 0.0005, which is next to none, and {} for TRPO".format(*told) in page
    assert "(medians {:.0f}, {:.0f} and {:.0f})".format(*(np.median(found) for found in scores.values())) in page


@pytest.mark.usefixtures("jobs_in_process")
def test_runs_are_planned_trained_and_not_repeated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = learning.Arguments(
        tasks=("lqr-302",),
        methods=("es",),
        presets=("paper", "tuned"),
        seeds=1,
        steps=800,
        out=tmp_path / "out",
        runs=tmp_path / "runs",
        label="wide",
        settings={"sigma": "0.5", "horizon": "20"},
    )
    for attempt in ("first", "second"):
        with pytest.raises(SystemExit) as stop:
            learning.main(wanted)
        assert not stop.value.code
        told = capsys.readouterr()
        assert "| lqr-302 | tuned | es-wide | 8e+02 | 1 |" in told.out
        assert ("lqr-302 es-wide paper seed 0 done" in told.err) == (attempt == "first")
    assert archive.read(tmp_path / "out").keys() == {"lqr-302-paper-es-wide-800-0", "lqr-302-tuned-es-wide-800-0"}
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"records.jsonl.gz", "timings.jsonl"}
    assert (tmp_path / "runs" / "curves.png").stat().st_size > 0


def test_the_table_of_leads() -> None:
    """The table of leads in results/one-setting/README.md."""
    lines = (RESULTS / "one-setting" / "README.md").read_text().splitlines()
    shown = lines[lines.index("| gamma, trace | hopper | swimmer |") + 2 :][:7]
    for line in shown:
        setting, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        gamma, trace, *cut = setting.split(", ")
        label = f"{'cut300-' if cut else ''}g{gamma[2:]}-t{trace[2:]}-fixed"
        for task, cell in zip(("hopper", "swimmer"), cells, strict=True):
            runs = records(f"one-setting/leads/{task}-tuned-cv-{label}-1000000-*")
            assert cell == ", ".join(f"{score(run):.0f}" for run in runs)
            assert {(r.estimator.columns.gamma, r.estimator.columns.trace) for r in (run.config for run in runs)} == {  # type: ignore[attr-defined]
                (float(gamma), float(trace))
            }


def test_discounts_that_rise() -> None:
    """The table of leads in results/one-setting/README.md, and what docs/natural.md says of those that were chosen."""
    shown = {row[0].strip("`"): row[2:] for row in rows("results/one-setting/README.md", "| label | what is different")}
    for label, cells in shown.items():
        for task, cell in zip(("hopper", "swimmer"), cells, strict=True):
            runs = records(f"one-setting/leads/{task}-tuned-cv-{label}-1000000-*")
            assert cell == ", ".join(f"{score(run):.0f}" for run in runs), label
    assert f"were on their way ({shown['rise1'][1]})" in page("results/one-setting/README.md")


def test_the_table_of_the_perfect_referee() -> None:
    """The page against its file, and that the file says so."""
    facts = json.loads((RESULTS / "tuning" / "compared.json").read_text())["referee"]["perfect"]["rows"]
    shown = list(rows("results/one-setting/README.md", "| task | seed | iteration | return there"))
    assert len(shown) == len(facts) == 20
    for (task, *cells), one in zip(shown, facts, strict=True):
        assert task == one["task"]
        numbers = [one["seed"], one["iteration"], one["return"], *one["near"], *one["far"], *one["difference"]]
        check(" ".join(cells), numbers)
    over = {task: [one for one in facts if one["task"] == task] for task in ("hopper", "swimmer")}
    running = [one for one in over["hopper"] if one["return"] > 1000]
    assert all(one["difference"][0] < 0 for one in running), "far is ahead of near in every hopper that runs"
    assert sum(one["difference"][2] < 0 for one in running) >= 4, "and told so in most"
    told = [one["difference"] for one in over["swimmer"] if one["difference"][1] > 0 or one["difference"][2] < 0]
    assert sum(low > 0 for _, low, _ in told) > len(told) / 2
