"""Policies that come with quell, and the list of runs."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

import quell
from quell import zoo
from quell.cli import main
from quell.errors import UsageError
from quell.runs import Run
from quell.training.methods import make_config

pytestmark = pytest.mark.usefixtures("in_process")
SMALL = ["--horizon", "20", "--pairs", "1", "--steps", "80", "--eval-episodes", "1", "--workers", "1", "--method", "es"]
MOST_BYTES = 300 << 10


def test_a_policy_is_added_listed_and_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zoo, "HOME", tmp_path / "zoo")
    run = tmp_path / "runs/gym-CartPole-v1/es/a"
    assert main(["train", "gym:CartPole-v1", *SMALL, "--out", str(tmp_path / "runs"), "--name", "a"]) == 0
    assert main(["export", str(tmp_path / "runs"), "--zoo", "gym-CartPole-v1", "--episodes", "5"]) == 0
    capsys.readouterr()
    assert main(["list", "zoo"]) == 0
    assert "zoo:gym-CartPole-v1" in capsys.readouterr().out
    assert main(["eval", "zoo:gym:CartPole-v1", "--episodes", "5", "--json"]) == 0
    returns = json.loads(capsys.readouterr().out)["returns"]
    assert returns == zoo.score("gym-CartPole-v1")["returns"]
    assert main(["eval", "zoo:gym:CartPole-v1", "--episodes", "5"]) == 0
    shown = re.search(r"return  (.*) ± (.*?)  \(", capsys.readouterr().out)
    assert shown
    kept = zoo.score("gym-CartPole-v1")
    assert [float(number) for number in shown.groups()] == pytest.approx([kept["mean"], kept["std"]], abs=0.006)
    copied, whole = quell.load("zoo:gym-CartPole-v1"), quell.load(run)
    assert (copied.theta == whole.theta).all()
    assert copied.policy(whole.policy.obs_stats.total) == whole.policy(whole.policy.obs_stats.total)  # type: ignore[union-attr]
    assert main(["export", str(run), "--zoo", "gym-CartPole-v1"]) == 2
    assert "already" in capsys.readouterr().err
    assert main(["export", str(run), "--zoo", "gym-CartPole-v1", "--replace", "--episodes", "2"]) == 0
    assert len(zoo.score("gym-CartPole-v1")["returns"]) == 2


def test_a_damaged_policy_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = quell.train("lqr-302", method="es", horizon=5, pairs=1, steps=10, eval_episodes=1, workers=1, out=tmp_path)
    monkeypatch.setattr(zoo, "HOME", tmp_path / "zoo")
    folder = zoo.add("lqr-302", result, [1.0, 2.0])
    arrays = next(folder.glob("checkpoints/*/arrays.safetensors"))
    data = bytearray(arrays.read_bytes())
    data[-1] ^= 1
    arrays.write_bytes(data)
    with pytest.raises(UsageError, match=r"no intact checkpoint.*does not match its SHA-256"):
        quell.load("zoo:lqr-302")


@pytest.mark.parametrize("name", zoo.names())
def test_policies_of_the_zoo_are_as_good_as_they_say(name: str) -> None:
    """Every policy can be read, and is as good as it says: a few fresh episodes, within their spread."""
    result, score = quell.load(f"zoo:{name}"), zoo.score(name)
    assert result.config.task.replace(":", "-").replace("/", "-") == name or result.config.task in name
    returns = quell.evaluate(result, episodes=3, seed=7, workers=1).returns
    assert abs(returns.mean() - score["mean"]) <= 4 * score["std"] + 0.05 * abs(score["mean"])


def test_the_zoo_is_small_and_holds_nothing_else() -> None:
    files = [path for path in zoo.HOME.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert sum(path.stat().st_size for path in files) < MOST_BYTES
    assert {path.suffix for path in files} <= {".py", ".json", ".safetensors"}


@pytest.mark.parametrize("spoilt", ["{", "[]", '{"mean": 1}', '{"mean": "a", "std": 1, "steps": 1, "returns": []}'])
def test_a_spoilt_score_is_told_in_a_line_and_hides_no_other(
    spoilt: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    home = shutil.copytree(zoo.HOME, tmp_path / "zoo")
    monkeypatch.setattr(zoo, "HOME", home)
    (home / "hopper" / "score.json").write_text(spoilt)
    assert main(["list", "zoo"]) == 1
    out, err = capsys.readouterr()
    assert "zoo:swimmer" in out
    assert "zoo:hopper" not in out
    (line,) = err.splitlines()
    assert line.startswith("quell: error: ")
    assert "hopper/score.json" in line


def test_runs_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        assert main(["train", "lqr-302", *SMALL, "--name", name]) == 0
    (tmp_path / "runs/lqr-302/es/a/config.json").write_text("{}")
    capsys.readouterr()
    assert main(["list", "runs"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert re.split("  +", head) == ["run", "task", "method", "steps", "return, mean action", "state", "age"]
    assert any(row.startswith("runs/lqr-302/es/b") and "80 of 80" in row and "finished" in row for row in rows)
    assert any("unreadable" in row for row in rows)
    assert main(["list", "runs", "--newest", "1"]) == 0
    assert "and 1 older ones" in capsys.readouterr().out


def test_the_runs_of_seeds_and_sweeps_share_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sweep = Path("runs/sweeps/lqr-302-es")
    for folder in (Path("runs"), Path("runs/seeds/lqr-302-es/runs"), sweep / "runs/lr=0.1", sweep / "runs/lr=0.2"):
        config = make_config("lqr-302", "es", overrides={"steps": 100})
        with Run.create(config, folder, "seed0") as run:
            row = {"iteration": 1, "steps": 50, "eval/mean_action": float(str(folder)[-1].replace("s", "7"))}
            (run.path / "metrics.jsonl").write_text(json.dumps(row))
    (sweep / "runs/lr=0.3/lqr-302/es/seed0").mkdir(parents=True)
    (sweep / "runs/lr=0.3/lqr-302/es/seed0/config.json").write_text("{}")

    def listed(*folder: str) -> dict[str, list[str]]:
        assert main(["list", "runs", *folder]) == 0
        rows = [re.split("  +", line) for line in capsys.readouterr().out.splitlines()[1:]]
        return {name: cells for name, *cells, _age in rows}

    seen = listed()
    assert seen.keys() == {"runs/lqr-302/es/seed0", "runs/seeds/lqr-302-es", str(sweep)}
    assert seen["runs/seeds/lqr-302-es"][2:5] == ["50 of 100", "7", "interrupted"]
    assert seen[str(sweep)][2:4] == ["100 of 200", "1 to 2"]
    assert set(seen[str(sweep)][4].split(", ")) == {"2 interrupted", "1 unreadable"}
    assert listed(".") == seen
    assert listed(str(sweep)).keys() == {str(sweep / f"runs/lr=0.{i}/lqr-302/es/seed0") for i in (1, 2, 3)}
