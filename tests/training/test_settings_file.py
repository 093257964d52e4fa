"""Settings from files: TOML that somebody wrote, and the config.json of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import quell
from quell.cli import main
from quell.config import Config, flatten, to_dict
from quell.errors import UsageError
from quell.presets import METHODS
from quell.runs.files import SCHEMA
from quell.training import settings_file
from quell.training.methods import make_config

TOML = """
task = "lqr-302"
method = "es"
steps = 4e1
sigma = 0.05
pairs = 1
horizon = 10
hidden = [8, 4]
eval_episodes = 1
[step]
name = "sgd"
lr = 0.004
[task_settings]
noise = 0.5
"""
SHORT: dict[str, Any] = {"progress": False, "workers": 1}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "own.toml").write_text(TOML)
    return tmp_path / "own.toml"


def made(path: Path) -> Config:
    """The config that `train --config` makes of a file alone."""
    found = settings_file.read(path)
    task, method, preset = (found.pop(name, None) for name in settings_file.ALSO)
    return make_config(task, method, preset or "tuned", found).validate()


@pytest.mark.parametrize("method", METHODS)
def test_a_runs_config_comes_back_as_it_was(method: str, tmp_path: Path) -> None:
    """config.json -> config, and the same settings written as TOML -> config, whatever the method."""
    for task in ("hopper", "lqr-302"):
        more = {"seed": 7, "steps": 12345, "normalise_obs": "+s" in method, "target": 3.5}
        config = make_config(task, method, "tuned", {**more, "task_settings": {}}).validate()
        path = tmp_path / "config.json"
        path.write_text(json.dumps({"schema": SCHEMA, **to_dict(config)}))
        assert made(path) == config
        settings_file.write(tmp_path / "same.toml", settings_file.read(path), "of a run\nof ours")
        assert made(tmp_path / "same.toml") == config


@pytest.mark.usefixtures("in_process")
def test_flags_have_precedence_over_files(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = ["--out", str(tmp_path / "runs"), "--workers", "1"]
    assert main(["train", "--config", str(file), "--lr", "0.5", "--name", "x", *out]) == 0
    path = tmp_path / "runs/lqr-302/custom/x"
    config = quell.load(path).config
    assert (config.task, config.steps, config.seed) == ("lqr-302", 40, 0)
    found = flatten(config)
    expected = {"step": "sgd", "step.lr": 0.5, "directions.sigma": 0.05, "task_settings": {"noise": 0.5}}
    assert found | expected == found
    capsys.readouterr()
    assert main(["train", "--config", str(path / "config.json"), "--name", "y", *out]) == 0
    assert quell.load(tmp_path / "runs/lqr-302/custom/y").theta.tobytes() == quell.load(path).theta.tobytes()
    capsys.readouterr()
    assert main(["train", "--config", str(file), "--step", "adam", "--show"]) == 0
    rows = {line.split()[0]: line.split()[1:] for line in capsys.readouterr().out.splitlines()}
    assert (rows["step"], rows["step.lr"][0]) == (["adam", "command", "line"], "0.003"), "sgd's rate is not Adam's"
    assert rows["directions.sigma"] == ["0.05", str(file)]


@pytest.mark.usefixtures("in_process")
def test_files_in_python(file: Path, tmp_path: Path) -> None:
    first = quell.train(config=file, out=tmp_path / "a", lr=0.5, **SHORT)
    assert first.config.step.lr == 0.5  # type: ignore[attr-defined]
    for again in (first.path, first.path / "config.json", str(first.path)):
        same = quell.train(config=again, out=tmp_path / "b", **SHORT)
        assert same.config == first.config
        assert same.theta.tobytes() == first.theta.tobytes()
    assert quell.train("lqr-302", config=file, step="adam", out=tmp_path / "c", **SHORT).config.method == "es"
    with pytest.raises(UsageError, match="says which strategies to use: leave out `method='es'`"):
        quell.train(config=first.path, method="es", out=tmp_path, **SHORT)
    with pytest.raises(UsageError, match="which task"):
        quell.train(out=tmp_path, **SHORT)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("steps = ", "own.toml` cannot be read"),
        ("stepz = 3", "reads no setting '--stepz'"),
        ("task = 3", "task is 3, where text is expected"),
        ("[step]\nname = 'nothing'", "unknown step 'nothing'"),
        ("[estimator]\nname = 'mine'", "unknown estimator 'mine'"),
        ("task = 'gym:Hopper-v5'\n[task_settings]\nxml_file = '/etc/passwd'", "names a file for the task to open"),
        ("seed = -1", "must be at least 0"),
    ],
)
def test_files_that_make_no_sense(text: str, said: str, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(text)
    assert main(["train", *(["lqr-302"] if "task" not in text else []), "--config", str(file)]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_a_settings_file_that_is_none_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "list.json").write_text("[1]")
    for wrong in (tmp_path, tmp_path / "none.toml", tmp_path / "list.json", "/dev/zero", ""):
        assert main(["train", "lqr-302", "--config", str(wrong)]) == 2
        assert capsys.readouterr().err.count("\n") == 1
