"""Training: same theta for any number of workers, across kills and resumes; trouble counted, never learned from."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from troubled import Troubled

import quell
import quell.runs
from quell.errors import EngineFailure, TroubleError, UsageError
from quell.estimate.control_variate.discount import FixedDiscounts
from quell.keys import Purpose, generator
from quell.presets import METHODS
from quell.runs.metrics import metrics_of
from quell.training.iteration import Trainer
from quell.training.state import TrainState
from quell.update.first_order import Adam
from quell.update.natural import Natural

TINY: dict[str, Any] = {
    "horizon": 40,
    "pairs": 3,
    "batch_steps": 0,
    "steps": 40 * 6 * 4,
    "eval_every": 2,
    "eval_episodes": 2,
    "checkpoint_every": 2,
}


def digest(result: quell.Result) -> str:
    return hashlib.sha256(result.theta.tobytes()).hexdigest()


@pytest.mark.parametrize(
    "method", ["cv", "ortho", *(pytest.param(m, marks=pytest.mark.slow) for m in ("es", "ppo+s+a+m"))]
)
def test_theta_does_not_depend_on_the_number_of_workers(method: str, tmp_path: Path) -> None:
    settings = {**TINY, "normalise_obs": True}
    results = [
        quell.train("walker2d", method=method, out=tmp_path, progress=False, workers=workers, **settings)
        for workers in (1, 2, 3)
    ]
    assert len({digest(result) for result in results}) == 1
    rows = [[{k: v for k, v in row.items() if k not in ("seconds", "speed")} for row in r.history] for r in results]
    assert rows[0] == rows[1] == rows[2]


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize("method", METHODS)
def test_every_method_trains(method: str, tmp_path: Path) -> None:
    """Two iterations: theta moves from where it was, as far as such steps go, every metric is defined, it acts."""
    result = quell.train("lqr-302", method=method, out=tmp_path, progress=False, **{**TINY, "steps": 40 * 6 * 2})
    start = quell.load(result.path, at=0).theta
    assert (start == result.policy.policy.init(generator(0, Purpose.INIT))).all()
    assert result.iteration == 2
    assert result.finished
    moved = np.abs(result.theta - start)
    if isinstance(result.config.step, Adam):
        steps = 2 * result.config.estimator.needs.updates * result.config.step.lr
        assert 0.2 * steps < moved.max() < 1.1 * steps, "every step of Adam's is about the learning rate at first"
    elif isinstance(result.config.step, Natural):
        rows = [row for row in result.history if row.get("update/es", 0) < 1]  # else it is Adam's step alone
        ratios = [row["update/kl"] / result.config.step.kl for row in rows]
        assert min(ratios) > 0.1, ratios
        assert max(ratios) <= 1.5, "a step is shortened until its divergence is at most half as much again"
    assert (moved > 0).mean() > 0.5
    assert all(set(row) <= set(metrics_of(result.config)) for row in result.history)
    assert result.history[0]["update/ratio"] > 0
    assert result.policy(np.zeros(3)).shape == (3,)
    assert result.policy(np.zeros((5, 3)), rng=np.random.default_rng(0)).shape == (5, 3)


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize("directions", ["orthogonal", "gcmc", "qmc"])
def test_cv_works_on_every_kind_of_directions(directions: str, tmp_path: Path) -> None:
    result = quell.train("lqr-302", method="cv", directions=directions, out=tmp_path, progress=False, **TINY)
    assert np.isfinite(result.theta).all()


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize("preset", ["paper", "tuned"])
def test_stopping_and_resuming_changes_nothing(preset: str, tmp_path: Path) -> None:
    """Half the budget, then the rest, equals the whole; optimiser, eta, gamma and observation statistics included."""
    settings = {**TINY, "horizon": 30, "normalise_obs": True, "step.schedule": "constant"}  # others know the budget
    arguments: dict[str, Any] = {"method": "cv", "preset": preset, "out": tmp_path, "progress": False}
    whole = quell.train("swimmer", **arguments, **{**settings, "steps": 30 * 6 * 6})
    half = quell.train("swimmer", **arguments, **{**settings, "steps": 30 * 6 * 3})
    rest = quell.resume(half.path, steps=30 * 6 * 6, progress=False)
    assert rest.iteration == 6
    assert digest(rest) == digest(whole)
    assert [r["gradient/norm"] for r in rest.history] == [r["gradient/norm"] for r in whole.history]


LONG: dict[str, Any] = {
    **{"task": "lqr-302", "method": "cv", "preset": "paper", "horizon": 30, "pairs": 3, "seed": 5, "name": "run"},
    **{"eval_every": 4, "eval_episodes": 1, "checkpoint_every": 3, "progress": False, "workers": 2},
}


@pytest.mark.parametrize(("wanted", "iterations"), [(2, 100), pytest.param(20, 250, marks=pytest.mark.slow)])
def test_kills_change_nothing(wanted: int, iterations: int, tmp_path: Path) -> None:
    """kill -9 at random moments, resume after each; theta and every metric but time as if nothing had happened."""
    settings = {**LONG, "steps": 30 * 6 * iterations}
    calm = quell.train(**settings, out=tmp_path / "calm")
    path = tmp_path / "wild/lqr-302/cv/run"
    rng, kills = random.Random(0), 0
    command = [sys.executable, "-c", f"import quell; quell.train(**{settings}, out={str(tmp_path / 'wild')!r})"]
    while kills < wanted:
        metrics = path / "metrics.jsonl"
        # So many rows more, and a random moment, so that the kill lands among iterations and saves.
        rows = (len(metrics.read_bytes().splitlines()) if metrics.exists() else 0) + rng.randrange(3, 8)
        process = subprocess.Popen(command)
        while process.poll() is None and (not metrics.exists() or len(metrics.read_bytes().splitlines()) < rows):
            time.sleep(0.002)
        time.sleep(rng.uniform(0, 0.02))
        process.kill()
        assert process.wait() == -signal.SIGKILL, "it ended before it could be killed"
        kills += 1
        if not (path / "config.json").exists() or not list((path / "checkpoints").glob("0*")):
            continue  # killed before anything was saved: start again is all there is
        command = [sys.executable, "-c", f"import quell; quell.resume({str(path)!r}, progress=False, workers=1)"]
    result = quell.resume(path, progress=False)
    assert result.finished
    assert digest(result) == digest(calm)
    timeless = [[{**row, "seconds": 0, "speed": 0} for row in r.history] for r in (result, calm)]
    assert timeless[0] == timeless[1]


def test_a_run_whose_engine_never_starts_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise EngineFailure("no processes left")

    monkeypatch.setattr("quell.rollout.cpu.engine.CpuEngine", refuse)
    with pytest.raises(EngineFailure, match="no processes left"):
        quell.train("lqr", out=tmp_path, name="x", progress=False, **TINY)
    assert not (tmp_path / "lqr/cv/x").exists()
    monkeypatch.undo()
    assert quell.train("lqr", out=tmp_path, name="x", progress=False, **TINY).finished


@pytest.mark.usefixtures("in_process")
def test_a_damaged_checkpoint_is_passed_over(tmp_path: Path) -> None:
    settings = {**TINY, "horizon": 30, "steps": 30 * 6 * 6}
    whole = quell.train("lqr-302", out=tmp_path, progress=False, **settings)
    newest = max((whole.path / "checkpoints").iterdir())
    (newest / "arrays.safetensors").write_bytes(b"\0" * 50)
    with pytest.warns(UserWarning, match="checkpoint skipped"):
        again = quell.resume(whole.path, progress=False)
    assert digest(again) == digest(whole)


class TestTrouble:
    """What goes wrong is counted and shown; theta stays finite; repeated trouble stops the run."""

    def train(self, tmp_path: Path, task: Troubled, **settings: object) -> quell.Result:
        base: dict[str, Any] = {
            "pairs": 3,
            "batch_steps": 0,
            "steps": 10 * 6 * 5,
            "eval_episodes": 1,
            "eval_every": 0,
            "checkpoint_every": 1,
        }
        return quell.train(task, out=tmp_path, progress=False, workers=1, **{**base, **settings})  # type: ignore[arg-type]

    @pytest.mark.usefixtures("in_process")
    @pytest.mark.parametrize("method", ["es", "cv", "pg", "ppo"])
    def test_some_nan_rewards(self, tmp_path: Path, method: str) -> None:
        result = self.train(tmp_path, Troubled(trouble="nan reward", share=0.2), method=method)
        assert np.isfinite(result.theta).all()
        assert sum(row["trouble/bad_pairs"] for row in result.history) > 0
        assert result.history[-1]["trouble/total"] > 0
        assert result.history[-1]["update/ratio"] > 0

    @pytest.mark.usefixtures("in_process")
    def test_nothing_but_nan_rewards_stops_the_run(self, tmp_path: Path) -> None:
        task = Troubled(trouble="nan reward")
        with pytest.raises(TroubleError, match="3 iterations in a row"):
            self.train(tmp_path, task, method="cv", max_trouble=3)
        kept = quell.load(next(tmp_path.glob("troubled/cv/*")), env=task)
        assert np.isfinite(kept.theta).all()
        assert (kept.theta == kept.policy.policy.init(generator(0, Purpose.INIT))).all()
        assert kept.iteration == 2

    @pytest.mark.usefixtures("in_process")
    @pytest.mark.parametrize("method", ["es", "cv", "natural-cv"])
    def test_equal_returns_leave_theta_alone_unless_a_critic_is_there(self, tmp_path: Path, method: str) -> None:
        result = self.train(tmp_path, Troubled(trouble="flat"), method=method)
        assert all(row["trouble/flat"] == 1 for row in result.history)
        assert result.history[-1]["trouble/total"] == 0, "which a solved task has too"
        assert all(row.get("variance/ratio") is None for row in result.history), "nothing is known of it"
        assert np.isnan(result.variance_ratio)
        stayed = result.theta == result.policy.policy.init(generator(0, Purpose.INIT))
        assert stayed.all() == (method != "natural-cv")

    @pytest.mark.usefixtures("no_pause")
    def test_a_dead_worker_keeps_the_run(self, tmp_path: Path) -> None:
        with pytest.raises(EngineFailure, match="signal 9"):
            self.train(tmp_path, Troubled(trouble="dies"), method="es")
        path = next(tmp_path.glob("troubled/es/*"))
        assert quell.load(path, env=Troubled()).iteration == 0
        assert quell.resume(path, env=Troubled(), progress=False).finished

    def test_a_worker_killed_in_mid_run_changes_nothing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Another takes its place, and the run goes on to the same theta."""
        iterate = Trainer.iterate

        def killing(trainer: Trainer, state: TrainState) -> tuple[TrainState, dict[str, float]]:
            if state.iteration == 3:
                os.kill(trainer.engine.crew.processes[0], signal.SIGKILL)  # type: ignore[attr-defined]
            return iterate(trainer, state)

        settings: dict[str, Any] = {
            "out": tmp_path,
            "progress": False,
            **TINY,
            "checkpoint_every": 100,
            "steps": 40 * 6 * 6,
        }
        whole = quell.train("lqr-302", name="whole", **settings)
        monkeypatch.setattr(Trainer, "iterate", killing)
        with pytest.warns(UserWarning, match="killed by signal 9"):
            healed = quell.train("lqr-302", name="hit", workers=2, **settings)
        assert healed.finished
        assert digest(healed) == digest(whole)

    @pytest.mark.usefixtures("in_process")
    @pytest.mark.parametrize("method", ["es", "cv"])
    def test_a_wild_policy_on_lqr(self, tmp_path: Path, method: str) -> None:
        """Returns of -1e38 and below: the paper's preset starts there, and a step that would overflow is left out."""
        result = quell.train("lqr", method=method, preset="paper", steps=60_000, out=tmp_path, progress=False, seed=1)
        assert result.history[0]["return/mean"] < -1e30
        assert np.isfinite(result.theta).all()
        if method == "es":
            assert all(row["trouble/skipped"] == 0 for row in result.history)


@pytest.mark.usefixtures("in_process")
class TestRunFolder:
    def test_the_run_folder_and_its_files(self, tmp_path: Path) -> None:
        result = quell.train("lqr-302", out=tmp_path, progress=False, seed=3, **TINY)
        assert result.path.parent == tmp_path / "lqr-302" / "es"
        assert result.path.name.startswith("3-")
        config = json.loads((result.path / "config.json").read_text())
        assert config["task"] == "lqr-302"
        assert config["pairs"] == 3
        assert json.loads((result.path / "versions.json").read_text())["packages"]["quell"]
        assert list((result.path / "tensorboard").iterdir())
        assert [row["iteration"] for row in result.history] == [1, 2, 3, 4]
        assert [row["iteration"] for row in result.history if "eval/return" in row] == [2, 4]

    def test_two_writers(self, tmp_path: Path) -> None:
        result = quell.train("lqr-302", out=tmp_path, progress=False, **TINY)
        with quell.runs.Run.open(result.path) as run:
            run.lock()
            with pytest.raises(UsageError, match=r"process \d+ is writing"):
                quell.resume(result.path, steps=5000, progress=False)

    def test_changed_settings_need_a_fork(self, tmp_path: Path) -> None:
        result = quell.train("lqr-302", method="es", out=tmp_path, progress=False, **TINY)
        with pytest.raises(UsageError, match=r"lr differs .* `fork=True`"):
            quell.resume(result.path, lr=0.5, progress=False)
        with pytest.raises(UsageError, match=r"directions.sigma, estimator.shaping differ "):
            quell.resume(result.path, sigma=0.1, estimator={"shaping": "none"}, progress=False)
        forked = quell.resume(result.path, lr=0.5, steps=TINY["steps"] * 2, fork=True, progress=False)
        assert forked.path != result.path
        assert forked.iteration == 8
        assert quell.load(result.path).iteration == 4

    def test_an_edited_config_is_noticed(self, tmp_path: Path) -> None:
        result = quell.train("lqr-302", out=tmp_path, progress=False, **TINY)
        file = result.path / "config.json"
        file.write_text(file.read_text().replace('"sigma": 0.02', '"sigma": 0.03'))
        with pytest.raises(UsageError, match="sigma differs"):
            quell.resume(result.path, steps=5000, progress=False)

    def test_loading_an_earlier_checkpoint(self, tmp_path: Path) -> None:
        result = quell.train("lqr-302", out=tmp_path, progress=False, **TINY)
        earlier = quell.load(result.path, at=3)
        assert earlier.iteration == 2
        assert len(earlier.history) == 2
        assert digest(earlier) != digest(result)

    def test_evaluation_is_repeatable_and_fresh(self, tmp_path: Path) -> None:
        result = quell.train("lqr-302", out=tmp_path, progress=False, **TINY)
        first = quell.evaluate(result, episodes=4).returns
        assert (quell.evaluate(result, episodes=4).returns == first).all()
        assert (quell.evaluate(result, episodes=4, seed=1).returns != first).all()


def test_a_script_needs_no_main_guard(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import quell\n"
        f"r = quell.train('lqr-302', method='es', horizon=10, pairs=1, steps=20, out={str(tmp_path)!r},\n"
        "                progress=False, workers=2)\n"
        "print(r.iteration)\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True, env={**os.environ})
    assert done.stdout == "1\n"


@pytest.mark.slow
def test_the_control_variate_cuts_halfcheetahs_variance_below_a_fifth(tmp_path: Path) -> None:
    """moments, gamma 1, initial std 1: the first 50 iterations."""
    result = quell.train(
        "halfcheetah",
        method="es",
        estimator="control-variate",
        steps=500_000,
        out=tmp_path,
        progress=False,
        init_std=1.0,
        coefficients="moments",
        discount=FixedDiscounts(gammas=(1.0,)),
        baseline="leave-one-out",
    )
    assert result.iteration == 50
    own, es = (sum(row[f"variance/{name}"] for row in result.history) for name in ("method", "es"))
    assert own / es < 0.2
