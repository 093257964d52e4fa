"""Many seeds and settings from Python: side by side, or here where nothing else can find what is the caller's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import quell
from quell.cli import main
from quell.errors import QuellError, UsageError
from quell.policy import GaussianPolicy
from quell.training.iteration import Trainer

FAST: dict[str, Any] = {"horizon": 20, "pairs": 1, "steps": 80, "eval_episodes": 1, "eval_every": 0}
FAST |= {"method": "es", "preset": "paper", "progress": False}


class MyPolicy(GaussianPolicy):
    """The same under another name, as a user's own."""

    name = "mine"


@pytest.mark.usefixtures("jobs_in_process")
def test_seeds_in_python_are_those_of_the_command(tmp_path: Path) -> None:
    results = quell.train("lqr-302", seed=4, seeds=3, out=tmp_path, **FAST)
    assert [result.config.seed for result in results] == [4, 5, 6]
    alone = quell.train("lqr-302", seed=5, out=tmp_path / "b", **FAST)
    assert results[1].theta.tobytes() == alone.theta.tobytes()
    flags = ["--horizon", "20", "--pairs", "1", "--steps", "80", "--eval-episodes", "1", "--eval-every", "0"]
    flags += ["--method", "es", "--preset", "paper", "--out", str(tmp_path), "--seed", "4", "--seeds", "3"]
    times = [result.path.joinpath("metrics.jsonl").stat().st_mtime_ns for result in results]
    assert main(["train", "lqr-302", *flags]) == 0
    assert times == [result.path.joinpath("metrics.jsonl").stat().st_mtime_ns for result in results], "the same runs"
    assert len(quell.train("lqr-302", seed=4, seeds=3, out=tmp_path, **FAST)) == 3


@pytest.mark.usefixtures("jobs_in_process")
def test_a_grid_in_python(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    grid: dict[str, Any] = {"lr": [0.01, np.float64(0.3)], "policy.hidden": [[8], []]}
    swept = quell.sweep("lqr-302", grid, seeds=2, episodes=2, out=tmp_path, name="a", **FAST)
    assert len(swept.trials) == 4
    assert swept.trials[0].settings == swept.best
    assert [trial.mean for trial in swept.trials] == sorted((trial.mean for trial in swept.trials), reverse=True)
    for result in swept.results(swept.best):
        assert result.config.step.lr == swept.best["step.lr"]  # type: ignore[attr-defined]
        assert list(vars(result.config.policy)["hidden"]) == list(swept.best["policy.hidden"])
    assert repr(swept).splitlines()[0].split()[:2] == ["step.lr", "policy.hidden"]
    assert capsys.readouterr() == ("", ""), "progress=False says nothing"
    assert len(quell.sweep("lqr-302", grid, random=2, seeds=1, out=tmp_path, name="b", **FAST).trials) == 2


class Slope(gymnasium.Env[Any, Any]):
    observation_space: Any = gymnasium.spaces.Box(-1, 1, (2,))
    action_space: Any = gymnasium.spaces.Box(-1, 1, (1,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        return np.zeros(2, np.float32), float(action[0]), False, False, {}


@pytest.mark.usefixtures("in_process")
def test_what_is_ones_own_runs_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lambda's environment, and a policy that no other process knows; one after the other, and stopped on the way."""
    calls, iterate = [], Trainer.iterate

    def interrupted(trainer: Trainer, state: Any) -> Any:
        calls.append(trainer.config.seed)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return iterate(trainer, state)

    given: dict[str, Any] = {"seeds": 2, "out": tmp_path, **FAST, "policy": MyPolicy(hidden=(4,))}
    monkeypatch.setattr(Trainer, "iterate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        quell.train(lambda: Slope(), **given)
    results = quell.train(lambda: Slope(), **given)
    assert calls == [0, 0, 1, 1, 1, 1] or calls == [0, 0, 1, 1, 1]
    assert [result.config.seed for result in results] == [0, 1]
    alone = quell.train(lambda: Slope(), **{**given, "seeds": None, "seed": 1, "out": tmp_path / "b"})
    assert alone.theta.tobytes() == results[1].theta.tobytes()


class Fails(Slope):
    def step(self, action: Any) -> Any:
        raise ZeroDivisionError("mine")


@pytest.mark.usefixtures("in_process")
def test_runs_that_fail_are_told(tmp_path: Path) -> None:
    with pytest.raises(QuellError, match=r"2 of 2 runs failed; the same call tries them again. The first: .*Zero"):
        quell.train(Fails, seeds=2, out=tmp_path, **FAST)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda out: quell.train("lqr-302", seeds=0, out=out), "`seeds=0` must be at least 1"),
        (lambda out: quell.train("lqr-302", seeds=2, log="wandb", out=out), "without callbacks and trackers"),
        (lambda out: quell.sweep("lqr-302", out=out), "what should vary"),
        (lambda out: quell.sweep("lqr-302", {"seed": [1]}, out=out), "seeds are not part of the grid"),
        (
            lambda out: quell.sweep("lqr-302", {"lr": "0.1"}, out=out),
            "has a list of values for every setting, not lr='0.1'",
        ),
        (lambda out: quell.sweep("lqr-302", {"lrr": [1]}, out=out), "reads no setting 'lrr'"),
        (lambda out: quell.sweep("lqr-302", {"lr": [0.1, -1]}, out=out), "must be at least 0"),
    ],
)
def test_sweeps_that_make_no_sense(call: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=said):
        call(tmp_path / "x")
    assert not (tmp_path / "x").exists()
