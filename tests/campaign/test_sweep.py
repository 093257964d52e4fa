"""Many settings and seeds: what is run, what is not run again, and the table."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from quell.campaign.sweep import Sweep, parse_grid, trials
from quell.cli import main
from quell.config import Config
from quell.errors import UsageError
from quell.runs.record import read_group
from quell.stats import t_interval
from quell.terminal.numbers import score
from quell.training.methods import make_config

FAST = ["--horizon", "20", "--pairs", "1", "--steps", "80", "--eval-episodes", "1", "--eval-every", "0"]
FAST += ["--method", "es", "--preset", "paper"]


@pytest.fixture
def config() -> Config:
    return make_config("lqr-302", "es", "paper")


def test_a_grid_as_it_is_typed(config: Config) -> None:
    grid = parse_grid(["lr=0.01,0.03", "policy.hidden=[8],[16,16],[]", "shared-reset=true,false"], config)
    assert grid == {"step.lr": [0.01, 0.03], "policy.hidden": [[8], [16, 16], []], "shared_reset": [True, False]}
    every = trials(grid)
    assert len(every) == len({json.dumps(one) for one in every}) == 12
    some = trials(grid, 5)
    assert some == trials(grid, 5)
    assert len({json.dumps(one) for one in some}) == 5
    assert all(one in every for one in some)
    assert trials(grid, 100) == every
    assert trials({}) == [{}]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["lr"], "a grid is given as setting=value,value, not 'lr'"),
        (["lr="], "a grid is given as"),
        (["learning=1"], "reads no setting 'learning'"),
        (["gamma=0.9,0.99"], "method 'es' reads no setting 'gamma'; it reads: .*directions.sigma"),
        (["sigmaa=1"], "did you mean"),
        ([f"lr={','.join(map(str, range(1, 102)))}", f"sigma={','.join(map(str, range(1, 102)))}"], "more than 10,000"),
    ],
)
def test_grids_that_are_none(words: list[str], message: str, config: Config) -> None:
    with pytest.raises(UsageError, match=message):
        parse_grid(words, config)


def test_a_value_that_makes_no_sense_is_refused_before_the_first_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sweep", "lqr-302", *FAST, "--grid", "lr=0.01,-1", "--out", str(tmp_path / "x")]) == 2
    assert "`--step.lr -1` must be at least 0" in capsys.readouterr().err
    assert main(["sweep", "lqr-302", *FAST, "--out", str(tmp_path / "x")]) == 2
    assert "what should vary?" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


@pytest.mark.usefixtures("jobs_in_process")
def test_a_sweep_runs_and_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One value, two seeds; a larger grid runs what is new; the table is that of the records."""
    command = ["sweep", "lqr-302", *FAST, "--seeds", "2", "--episodes", "2", "--out", str(tmp_path), "--name", "a"]
    assert main([*command, "--grid", "lr=0.01"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    first = {path: path.stat().st_mtime_ns for path in (tmp_path / "a/runs").rglob("metrics.jsonl")}
    assert len(first) == len(read_group(tmp_path / "a")) == 2
    assert main([*command, "--grid", "lr=0.01,0.3"]) == 0
    assert all(path.stat().st_mtime_ns == time for path, time in first.items()), "nothing is run twice"
    found = read_group(tmp_path / "a")
    assert len(found) == 4
    head, *rows = capsys.readouterr().out.splitlines()[:3]
    assert head.split() == ["step.lr", "return", "95%", "interval", "lowest", "highest", "seeds"]
    means: dict[float, float] = {}
    for lr in (0.01, 0.3):
        records = [record for record in found if record.config.step.lr == lr]  # type: ignore[attr-defined]
        assert sorted(record.config.seed for record in records) == [0, 1]
        means[lr] = float(np.mean([np.mean(record.final["mean_action"]) for record in records]))
        (row,) = [row for row in rows if row.split()[0] == str(lr)]
        assert score(means[lr]) == row.split()[1]
        assert row.split()[-1] == "2"
    assert rows[0].strip().startswith(str(max(means, key=lambda lr: means[lr]))), "best first"
    assert main([*command, "--grid", "lr=0.01", "--sigma", "0.5"]) == 2
    assert "made with other settings (directions.sigma)" in capsys.readouterr().err


@pytest.mark.parametrize("grid", ["delay=1,50", "frame_skip=2"])
def test_late_rewards_and_episodes_that_a_preset_cuts(
    grid: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The reward would be paid at the cut, so the user has to say what is meant; nothing has been run."""
    assert main(["sweep", "halfcheetah", "--grid", grid, "--out", str(tmp_path), "--name", "a"]) == 2
    assert "add `--train-horizon 0`" in capsys.readouterr().err
    assert not list(tmp_path.rglob("config.json"))


@pytest.mark.usefixtures("jobs_in_process")
def test_seeds_of_one_setting(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "lqr-302", *FAST, "--seeds", "2", "--out", str(tmp_path)]) == 0
    head, row, _ = capsys.readouterr().out.splitlines()
    assert head.split()[0] == "return"
    records = read_group(tmp_path / "seeds/lqr-302-es")
    interval = t_interval([np.mean(record.final["mean_action"]) for record in records])
    assert row.split()[0] == score(interval.value)
    assert f"{score(interval.low)} to {score(interval.high)}" in row
    assert main(["train", "lqr-302", *FAST, "--seeds", "0", "--out", str(tmp_path)]) == 2
    assert main(["train", "lqr-302", *FAST, "--seeds", "2", "--log", "wandb", "--out", str(tmp_path)]) == 2
    assert "leave out --log" in capsys.readouterr().err


@pytest.mark.usefixtures("jobs_in_process")
def test_seeds_are_counted_from_the_one_that_is_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "lqr-302", *FAST, "--seed", "5", "--seeds", "2", "--out", str(tmp_path)]) == 0
    assert sorted(record.config.seed for record in read_group(tmp_path / "seeds/lqr-302-es")) == [5, 6]
    assert main(["train", "lqr-302", *FAST, "--seeds", "1", "--out", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[-2].split()[-1] == "1", "the table has the seeds asked for"
    grid = ["--grid", "lr=0.1,0.2", "--seed", "3", "--seeds", "1", "--out", str(tmp_path), "--name", "a"]
    assert main(["sweep", "lqr-302", *FAST, *grid]) == 0
    assert {record.config.seed for record in read_group(tmp_path / "a")} == {3}


def test_seeds_on_an_environment_of_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a process of its own, which has to find it again."""
    (tmp_path / "pendula.py").write_text("import gymnasium\ndef make():\n    return gymnasium.make('Pendulum-v1')\n")
    monkeypatch.chdir(tmp_path)
    assert main(["train", "--trust-import", "pendula:make", *FAST, "--seeds", "1", "--out", str(tmp_path)]) == 0
    assert len(read_group(tmp_path / "seeds/pendula-make-es")) == 1


def test_a_table_with_holes(tmp_path: Path, config: Config) -> None:
    wanted = Sweep(config, [{"step.lr": 0.1}], seeds=2, episodes=1, out=tmp_path)
    head, rows = wanted.rows()
    assert rows == [["0.1", "none ended", "", "", "", "0"]]
    assert len(head) == 6
