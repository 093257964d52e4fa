"""The benchmark of learning curves: its runs, its table and its figure."""

from __future__ import annotations

from pathlib import Path

import learning
import numpy as np
import pytest

from quell.runs.record import read
from quell.stats import verdict

RESULTS = Path(__file__).parents[2] / "results"


@pytest.mark.parametrize(
    "folder", ["learning", "step-size", "step-size/walker2d", "initial-policy", "front-door", "lqr"]
)
def test_the_committed_tables_are_what_the_records_give(folder: str) -> None:
    files = [path for path in (RESULTS / folder).glob("*.json") if path.name != "untrained.json"]
    assert learning.table(learning.read_groups(files)) == (RESULTS / folder / "table.md").read_text()


def test_the_demo_holds_on_disjoint_sets_of_seeds() -> None:
    """What results/front-door/README.md says of `make run`'s second half: every seed above every seed, in each set."""
    scores: dict[str, dict[int, float]] = {"cv": {}, "es": {}}
    for path in (RESULTS / "front-door").glob("*.json"):
        record = read(path)
        scores[record.config.method][record.config.seed] = float(np.mean(record.final["mean_action"]))
    sets = [range(first, first + 5) for first in range(0, len(scores["cv"]), 5)]
    printed = (RESULTS / "front-door" / "README.md").read_text()
    for seeds in sets:
        own, plain = ([scores[method][seed] for seed in seeds] for method in ("cv", "es"))
        assert min(own) > max(plain)
        assert verdict(own, plain)[1] == "above"
        cells = [f"{value:.0f}" for value in (np.mean(own), min(own), np.mean(plain), max(plain))]
        assert " | ".join([f"| {seeds[0]} to {seeds[-1]}", *cells]) in printed
    assert len(sets) >= 4


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
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "lqr-302-paper-es-wide-800-0.json",
        "lqr-302-tuned-es-wide-800-0.json",
        "table.md",
        "curves.png",
        "timings.jsonl",
    }
