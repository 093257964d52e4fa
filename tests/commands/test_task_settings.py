"""A task's own settings mean the same on the command line, in Python, in config.json and to the environment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import quell
from quell import cli
from quell.config import Config, from_dict, parse_value, to_dict
from quell.tasks.foreign.gym import GymTask
from quell.training.methods import make_task

SHORT = ["--method", "es", "--steps", "20", "--pairs", "1", "--eval-episodes", "1", "--workers", "1"]
TASK = "gym:FrozenLake-v1"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *[("true", True), ("False", False), ("none", None), ("null", None)],
        *[("8", 8), ("-1", -1), ("8.0", 8.0), (".5", 0.5), ("1e-3", 1e-3)],
        *[("v4", "v4"), ("4x4", "4x4"), ('"4"', "4"), ("falsely", "falsely")],
    ],
)
def test_a_value_has_the_type_it_looks_like(text: str, value: Any) -> None:
    found = parse_value(text)
    assert found == value
    assert type(found) is type(value)


def test_directions_may_be_called_none() -> None:
    assert parse_value("none", "directions") == "none"
    assert parse_value("none", "horizon") is None


def environment(config: Config) -> Any:
    """What a worker plays in."""
    task = make_task(config)
    assert isinstance(task, GymTask)
    return task.source.make().unwrapped


def trained(folder: Path) -> tuple[Config, dict[str, Any]]:
    (path,) = folder.rglob("config.json")
    return quell.load(path.parent).config, json.loads(path.read_text())["task_settings"]


@pytest.mark.usefixtures("in_process")
def test_false_switches_an_option_off_and_stays_off_when_resumed(tmp_path: Path) -> None:
    words = ["--task-settings", "is_slippery", "false", "map_name", "8x8", "success_rate", "0.5", *SHORT]
    assert cli.main(["train", TASK, *words, "--out", str(tmp_path)]) == 0
    config, written = trained(tmp_path)
    assert written == {"is_slippery": False, "map_name": "8x8", "success_rate": 0.5}
    assert environment(config).P[0][1] == [(1.0, 8, 0, False)], "it goes where it is told to"

    (run,) = tmp_path.glob("*/*/*")
    assert cli.main(["resume", str(run), "--steps", "40"]) == 0
    assert trained(tmp_path)[1] == written
    assert cli.main(["resume", str(run), "--fork", "--task-settings", "is_slippery", "true"]) == 0
    both = [json.loads(path.read_text())["task_settings"] for path in tmp_path.rglob("config.json")]
    assert written in both
    assert written | {"is_slippery": True} in both, "what is not named stays as it was"


def test_whole_numbers_stay_whole() -> None:
    given = {"frame_skip": np.int64(8), "terminate_when_unhealthy": np.bool_(False), "reset_noise_scale": 0.0}
    config = Config(task="gym:Hopper-v5", task_settings=given).validate()  # type: ignore[arg-type]
    back = from_dict(json.loads(json.dumps(to_dict(config)))).task_settings
    assert back == {"frame_skip": 8, "terminate_when_unhealthy": False, "reset_noise_scale": 0.0}
    assert [type(value) for value in back.values()] == [int, bool, float]
    made = environment(config)
    assert made.frame_skip == 8
    assert made._terminate_when_unhealthy is False


def test_task_settings_have_to_be_plain_values() -> None:
    for wrong in ({"noise": [1]}, {"noise": float("nan")}, {1: 1}):
        with pytest.raises(quell.UsageError, match=r"task_settings.*must be"):
            Config(task="lqr", task_settings=wrong).validate()  # type: ignore[arg-type]
