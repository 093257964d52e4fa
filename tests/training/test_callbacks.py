"""Looking on while a run goes on: what callbacks are told, how they stop it, the best policy, and the target."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import quell
from quell.cli import main
from quell.errors import QuellError, UsageError
from quell.runs import checkpoint, files
from quell.training.iteration import Trainer
from quell.training.state import TrainState

pytestmark = pytest.mark.usefixtures("in_process")
SHORT: dict[str, Any] = {
    "method": "es",
    "horizon": 20,
    "pairs": 2,
    "steps": 20 * 4 * 8,
    "eval_every": 2,
    "eval_episodes": 1,
    "checkpoint_every": 3,
    "normalise_obs": True,
    "progress": False,
    "workers": 1,
}


@pytest.fixture
def scores(monkeypatch: pytest.MonkeyPatch) -> dict[int, float]:
    """Iteration -> what its evaluation says with mean actions."""
    said: dict[int, float] = {}
    evaluate, judged = Trainer.evaluate, TrainState.judged

    def as_said(trainer: Trainer, state: TrainState) -> tuple[TrainState, dict[str, float]]:
        state, row = evaluate(trainer, state)
        return state, {**row, "eval/mean_action": said[state.iteration]}

    monkeypatch.setattr(Trainer, "evaluate", as_said)
    monkeypatch.setattr(TrainState, "judged", lambda state, score: judged(state, said[state.iteration]))
    return said


class Witness(quell.Callback):
    def __init__(self, stop_at: int = 0) -> None:
        self.stop_at, self.iterations, self.evaluations, self.open = stop_at, [], [], False  # type: ignore[var-annotated]

    def __enter__(self) -> Witness:
        self.open = True
        return self

    def __exit__(self, *_: object) -> None:
        self.open = False

    def on_iteration(self, row: dict[str, Any]) -> None:
        assert self.open
        self.iterations.append(row)
        self.stop_requested = row["iteration"] == self.stop_at

    def on_evaluation(self, row: dict[str, Any]) -> None:
        self.evaluations.append(row["iteration"])


def test_a_callback_sees_every_row(tmp_path: Path) -> None:
    witness = Witness()
    result = quell.train("lqr-302", out=tmp_path, callbacks=[witness], **SHORT)
    assert witness.iterations == result.history
    assert witness.evaluations == [2, 4, 6, 8]
    assert not witness.open


def test_a_callback_stops_the_run_which_goes_on_as_if_it_had_not(tmp_path: Path) -> None:
    whole = quell.train("lqr-302", out=tmp_path, **SHORT)
    stopped = quell.train("lqr-302", out=tmp_path, callbacks=[Witness(stop_at=5)], **SHORT)
    assert (stopped.iteration, stopped.finished, stopped.signal) == (5, False, 0)
    witness = Witness()
    rest = quell.resume(stopped.path, progress=False, callbacks=[witness])
    assert [row["iteration"] for row in witness.iterations] == [6, 7, 8]
    assert rest.finished
    assert rest.theta.tobytes() == whole.theta.tobytes()


def test_an_error_in_a_callback_is_the_users_and_the_run_goes_on_later(tmp_path: Path) -> None:
    class Breaks(Witness):
        def on_evaluation(self, row: dict[str, Any]) -> None:
            raise ZeroDivisionError("mine")

    breaks = Breaks()
    with pytest.raises(ZeroDivisionError, match="mine") as told:
        quell.train("lqr-302", out=tmp_path, name="x", callbacks=[breaks], **SHORT)
    assert not breaks.open
    assert told.value.__notes__ == [f"saved after iteration 2: quell resume {tmp_path / 'lqr-302/es/x'}"]
    assert checkpoint.iterations(tmp_path / "lqr-302/es/x/checkpoints") == [0, 2], "not only every third"
    assert quell.resume(tmp_path / "lqr-302/es/x", progress=False).finished


@pytest.mark.parametrize("where", [(Trainer, "evaluate"), (Trainer, "iterate")], ids=["evaluation", "iteration"])
def test_an_interrupt_without_a_display_saves_what_is_done(
    where: tuple[Any, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Ctrl-C in a script with progress=False: iterations that are done are kept, and the rest is as it would be."""
    whole = quell.train("lqr-302", out=tmp_path, **SHORT)
    call, calls = getattr(*where), []

    def interrupted(trainer: Trainer, state: TrainState) -> Any:
        calls.append(state.iteration)
        if max(calls) >= 5:
            raise KeyboardInterrupt
        return call(trainer, state)

    monkeypatch.setattr(*where, interrupted)
    with pytest.raises(KeyboardInterrupt):
        quell.train("lqr-302", out=tmp_path, name="x", **SHORT)
    monkeypatch.setattr(*where, call)
    path = tmp_path / "lqr-302/es/x"
    assert checkpoint.iterations(path / "checkpoints")[-1] == 5
    rest = quell.resume(path, progress=False)
    assert rest.theta.tobytes() == whole.theta.tobytes()
    assert [row["return/mean"] for row in rest.history] == [row["return/mean"] for row in whole.history]


def test_a_full_disk_does_not_hide_the_users_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Breaks(Witness):
        def on_iteration(self, row: dict[str, Any]) -> None:
            monkeypatch.setattr(files, "write_new", full)
            raise ZeroDivisionError("mine")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(ZeroDivisionError, match="mine") as told:
        quell.train("lqr-302", out=tmp_path, name="x", callbacks=[Breaks()], **SHORT)
    assert "iteration 1 could not be saved: No space left on device; the last" in told.value.__notes__[0]


def test_callbacks_have_to_be_callbacks(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"derived from quell.Callback, not <built-in function print>"):
        quell.train("lqr-302", out=tmp_path, callbacks=[print], **SHORT)  # type: ignore[list-item]
    assert not list(tmp_path.glob("*/*/*"))


def test_the_best_policy_is_kept_beside_the_newest(tmp_path: Path, scores: dict[int, float]) -> None:
    """Its parameters and statistics are those that were evaluated; of equals, the newest; NaN is never the best."""
    scores |= {2: -3.0, 4: -1.0, 6: -1.0, 8: float("nan")}
    witness = Witness()
    at_six = quell.train("lqr-302", out=tmp_path, **{**SHORT, "steps": 20 * 4 * 6})
    result = quell.train("lqr-302", out=tmp_path, callbacks=[witness], **SHORT)
    assert (result.checkpoint, result.iteration, result.best) == ("newest", 8, -1.0)
    best = quell.load(result.path, checkpoint="best")
    assert (best.checkpoint, best.iteration, best.steps, best.best) == ("best", 6, 20 * 4 * 6, -1.0)
    assert [row["iteration"] for row in best.history] == [1, 2, 3, 4, 5, 6]
    assert best.theta.tobytes() == at_six.theta.tobytes() != result.theta.tobytes()
    for obs in np.random.default_rng(0).standard_normal((3, 3)):
        assert (best.policy(obs) == at_six.policy(obs)).all()
        assert (best.policy(obs) != result.policy(obs)).any()
    assert [row.get("eval/best") for row in result.history[1::2]] == [-3.0, -1.0, -1.0, -1.0]
    earlier = quell.load(result.path, checkpoint="best", at=4)
    assert (earlier.iteration, earlier.best) == (2, -3.0), "the checkpoint of iteration 3 knows of one evaluation"
    with pytest.raises(UsageError, match="must be newest or best"):
        quell.load(result.path, checkpoint="worst")  # type: ignore[arg-type]


def test_the_summary_shows_both(tmp_path: Path, scores: dict[int, float], capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--method", "es", "--horizon", "20", "--pairs", "2", "--eval-every", "2", "--out", str(tmp_path)]
    scores |= {2: 5.0, 4: 1.0}
    assert main(["train", "lqr-302", *words, "--steps", "320"]) == 0
    assert "best         5.0 ± " in (said := capsys.readouterr().out)
    assert "(mean action, iteration 2; `--checkpoint best` to use it)" in said
    scores |= {4: 7.0}
    assert main(["train", "lqr-302", *words, "--steps", "3.2e2", "--target", "6"]) == 0
    assert "(mean action, the newest)" in capsys.readouterr().out
    assert main(["train", "lqr-302", *words, "--steps", "3200", "--target", "6"]) == 0
    assert "stopped early: the target of 6 is reached" in capsys.readouterr().out


def test_a_resumed_run_knows_what_was_best(tmp_path: Path, scores: dict[int, float]) -> None:
    scores |= {2: 5.0, 4: 1.0, 6: 2.0, 8: 3.0}
    half = quell.train("lqr-302", out=tmp_path, **{**SHORT, "steps": 20 * 4 * 4})
    rest = quell.resume(half.path, steps=SHORT["steps"], progress=False)
    assert rest.best == 5.0
    assert quell.load(rest.path, checkpoint="best").iteration == 2
    forked = quell.resume(half.path, steps=SHORT["steps"], sigma=0.1, fork=True, progress=False)
    assert (
        quell.load(forked.path, checkpoint="best").theta.tobytes()
        == quell.load(rest.path, checkpoint="best").theta.tobytes()
    )


def test_before_the_first_evaluation_there_is_no_best_policy(tmp_path: Path) -> None:
    stopped = quell.train("lqr-302", out=tmp_path, callbacks=[Witness(stop_at=1)], **SHORT)
    with pytest.raises(UsageError, match="has no best policy: it was not evaluated"):
        quell.load(stopped.path, checkpoint="best")


def test_a_checkpoint_from_before_there_was_a_best_one(tmp_path: Path) -> None:
    result = quell.train("lqr-302", out=tmp_path, **SHORT)
    arrays, facts = checkpoint.load_newest(result.path / "checkpoints")  # type: ignore[misc]
    old = [{k: v for k, v in part.items() if not k.startswith("best.")} for part in (arrays, facts)]
    checkpoint.save(result.path / "checkpoints", 8, old[0], old[1], keep=3)
    assert np.isnan(quell.load(result.path).best)
    assert quell.resume(result.path, steps=20 * 4 * 10, progress=False).iteration == 10


def test_training_stops_at_the_target(tmp_path: Path, scores: dict[int, float]) -> None:
    scores |= {2: 5.0, 4: 10.0, 6: 30.0, 8: 3.0}
    result = quell.train("lqr-302", out=tmp_path, target=10, **SHORT)
    assert (result.iteration, result.finished, result.best) == (4, True, 10.0)
    assert [row.get("eval/reached") for row in result.history] == [None, 0.0, None, 1.0]
    assert quell.resume(result.path, progress=False).iteration == 4, "there is nothing left to do"
    higher = quell.resume(result.path, target=20.0, progress=False)
    assert (higher.iteration, higher.finished) == (6, True)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"target": "high"}, "`target=.high.` must be a number"),
        ({"target": float("nan")}, "`target=nan` must be a finite number"),
        ({"target": 3, "eval_every": 0}, "eval_every must be at least 1"),
    ],
)
def test_targets_that_make_no_sense(settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        quell.train("lqr-302", out=tmp_path, **{**SHORT, **settings})


class Falling(quell.Callback):
    """Halves the rate after some iterations, and keeps what it saw."""

    def __init__(self, *iterations: int, name: str = "lr") -> None:
        self.iterations, self.name = iterations, name
        self.seen: list[tuple[float, bytes]] = []
        self.paths: set[Path] = set()

    def on_iteration(self, row: dict[str, Any]) -> None:
        before = getattr(self.training.step, self.name)
        self.seen.append((before, self.training.policy.theta.tobytes()))
        self.paths.add(self.training.path)
        if row["iteration"] in self.iterations:
            self.training.change(**{self.name: before / 2})


@pytest.mark.parametrize(("method", "name"), [("es", "lr"), ("trpo", "kl")])
def test_a_callback_changes_a_rate_and_a_resumed_run_keeps_it(method: str, name: str, tmp_path: Path) -> None:
    """To the last bit, though the rate is changed before the checkpoint and nobody changes it again afterwards."""
    task = "lqr-302" if method == "es" else "hopper"
    small: dict[str, Any] = {
        **SHORT,
        "method": method,
        "out": tmp_path,
        "batch_steps": 0,
        "checkpoint_every": 1,
        "keep_checkpoints": 99,
    }
    falling = Falling(2, 4, name=name)
    whole = quell.train(task, callbacks=falling, **small)
    first = falling.seen[0][0]
    assert [rate / first for rate, _ in falling.seen] == pytest.approx(
        [1, 1, 0.5, 0.5] + [0.25] * (whole.iteration - 4)
    )
    assert falling.seen[-1][1] == whole.theta.tobytes()
    assert falling.paths == {whole.path}
    plain = quell.train(task, **small)
    assert plain.theta.tobytes() != whole.theta.tobytes()
    assert quell.load(plain.path, at=2).theta.tobytes() == quell.load(whole.path, at=2).theta.tobytes()
    stopped = quell.train(task, callbacks=[Falling(2, 4, name=name), Witness(stop_at=5)], **small)
    assert quell.resume(stopped.path, progress=False, workers=1).theta.tobytes() == whole.theta.tobytes()
    assert whole.config == plain.config, "what a run was begun with stays as it was"


def test_a_fork_that_asks_for_a_rate_gets_it(tmp_path: Path) -> None:
    stopped = quell.train("lqr-302", out=tmp_path, callbacks=[Falling(2), Witness(stop_at=5)], **SHORT)
    for asked, expected in (({"lr": 0.5}, 0.5), ({"max_norm": 1.0}, stopped.config.step.lr / 2)):  # type: ignore[attr-defined]
        watched = Falling()
        quell.resume(stopped.path, fork=True, callbacks=watched, progress=False, workers=1, **asked)  # type: ignore[arg-type]
        assert watched.seen[0][0] == expected


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"lr": -1.0}, r"`step.lr=-1.0` must be at least 0"),
        ({"lr": "fast"}, "must be a number: no other setting can change"),
        ({"sigma": 0.1}, "there is no setting 'step.sigma'"),
        ({"lr": float("nan")}, "must be a finite number"),
    ],
)
def test_a_change_that_makes_no_sense_ends_the_run_saved(settings: Any, said: str, tmp_path: Path) -> None:
    class Wrong(quell.Callback):
        def on_iteration(self, row: dict[str, Any]) -> None:
            self.training.change(**settings)

    with pytest.raises(UsageError, match=said) as told:
        quell.train("lqr-302", out=tmp_path, name="x", callbacks=Wrong(), **SHORT)
    assert "saved after iteration 1" in told.value.__notes__[0]
    assert quell.resume(tmp_path / "lqr-302/es/x", progress=False).finished


@pytest.mark.parametrize("arrays", [{"changed.lr": [-1.0]}, {"changed.nothing": [1.0]}, {"changed.lr": [1.0, 2.0]}])
def test_changes_in_a_folder_from_anywhere_are_looked_at(arrays: dict[str, list[float]], tmp_path: Path) -> None:
    path = quell.train("lqr-302", out=tmp_path, callbacks=Witness(stop_at=5), **SHORT).path
    saved = checkpoint.load_newest(path / "checkpoints")
    assert saved is not None
    changed = {name: np.array(value) for name, value in arrays.items()}
    checkpoint.save(path / "checkpoints", 5, {**saved[0], **changed}, saved[1], keep=3)
    with pytest.raises(QuellError, match=r"changed settings are invalid|changed.lr does not fit"):
        quell.resume(path, progress=False)
