"""The front door takes what people hand to it, and answers what it cannot take in one line."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import quell
from quell.errors import EnvironmentFailure, UsageError
from quell.export import to_numpy, to_onnx
from quell.policy import GaussianPolicy
from quell.registry import replace

SMALL: dict[str, Any] = {"steps": 20, "pairs": 1, "horizon": 10, "eval_episodes": 1, "progress": False}


class Slope(gymnasium.Env[Any, Any]):
    """As an environment should be; those below are not."""

    observation_space: Any = gymnasium.spaces.Box(-1, 1, (2,))
    action_space: Any = gymnasium.spaces.Box(-1, 1, (1,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        return np.zeros(2, np.float32), float(action[0]), False, False, {}


class Spaceless(Slope):
    observation_space = None


class OldReset(Slope):
    def reset(self, **_: Any) -> Any:
        return np.zeros(2, np.float32)


class OddReward(Slope):
    shape: tuple[int, ...] = (1,)

    def step(self, action: Any) -> Any:
        return np.zeros(2, np.float32), np.full(self.shape, 0.5), False, False, {}


class TwoRewards(OddReward):
    shape = (2,)


class Counts(quell.Callback):
    def __init__(self) -> None:
        self.rows = 0

    def on_iteration(self, row: dict[str, Any]) -> None:
        self.rows += 1


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> quell.Result:
    return quell.train("lqr-302", method="es", out=tmp_path_factory.mktemp("runs"), workers=1, **SMALL)


@pytest.mark.usefixtures("in_process")
def test_a_policy_is_evaluated_from_wherever_it_is(result: quell.Result) -> None:
    expected = quell.evaluate(result, episodes=2).returns
    for same in (result.policy, result.path, str(result.path), result.path.parents[2]):
        np.testing.assert_array_equal(quell.evaluate(same, episodes=2).returns, expected)
    assert quell.evaluate("zoo:gym:CartPole-v1", episodes=1).steps.tolist() == [500]
    for wrong in (5, None, object()):
        with pytest.raises(UsageError, match=r"`run=.*` must be a path"):
            quell.evaluate(wrong)  # type: ignore[arg-type]


def test_the_newest_run_of_a_folder_is_loaded(result: quell.Result, tmp_path: Path) -> None:
    for name in ("a", "b"):
        shutil.copytree(result.path, tmp_path / name)
    (tmp_path / "a/metrics.jsonl").touch()
    assert quell.load(tmp_path).path == tmp_path / "a"
    with pytest.raises(UsageError, match="is not a run folder, and none is below it"):
        quell.load(tmp_path / "a/checkpoints")
    with pytest.raises(UsageError, match="can be played, not resumed"):
        quell.resume("zoo:swimmer", steps=10**9)


@pytest.mark.usefixtures("in_process")
def test_one_callback_is_as_good_as_a_list(tmp_path: Path) -> None:
    counts = Counts()
    assert len(quell.train("lqr-302", method="es", out=tmp_path, callbacks=counts, **SMALL).history) == counts.rows
    assert quell.train("lqr-302", method="es", out=tmp_path, callbacks=None, log=None, **SMALL).finished


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"callbacks": Counts}, "callbacks are objects of classes derived from quell.Callback"),
        ({"method": object}, r"`method=<class 'object'>` must be a name; an object is given as `estimator"),
        ({"method": quell.ControlVariate()}, "must be a name; an object is given as `estimator"),
        ({"engine": quell.Cpu}, r"`engine=<class .*Cpu'>` must be a name or an object, such as quell\.Cpu"),
        ({"engine": 5}, "`engine=5` must be a name or an object"),
        ({"out": 5}, "`out=5` must be a path"),
        ({"name": 5}, "run name 5 is not allowed"),
    ],
    ids=str,
)
def test_arguments_of_the_wrong_kind_are_refused(given: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=said):
        quell.train("lqr-302", **{"out": tmp_path, **SMALL, **given})
    assert not any(tmp_path.iterdir())


def test_a_policy_answers_what_it_cannot_act_on(result: quell.Result) -> None:
    size = result.task.obs_size
    with pytest.raises(UsageError, match=r"`rng=0` must be a generator, .*numpy\.random\.default_rng\(0\)"):
        result.policy(np.zeros(size), rng=0)  # type: ignore[arg-type]
    for wrong in (np.nan, np.inf):
        with pytest.raises(UsageError, match="is NaN or infinite"):
            result.policy(np.full(size, wrong))
    assert result.policy(np.zeros(size), rng=np.random.default_rng(0)).shape == (result.task.action_size,)


def test_export_takes_a_result_and_a_folders_name(result: quell.Result, tmp_path: Path) -> None:
    for given, name in ((result, "a"), (result.policy, "b"), (result.path, "c")):
        assert to_numpy(given, str(tmp_path / name)) == [tmp_path / name / "policy.npz", tmp_path / name / "act.py"]
    assert len({(tmp_path / name / "act.py").read_bytes() for name in "abc"}) == 1
    pytest.importorskip("onnx")
    assert to_onnx(result, str(tmp_path)) == [tmp_path / "policy.onnx"]


def test_one_layer_needs_no_list() -> None:
    assert replace(GaussianPolicy(), {"hidden": 64}).hidden == (64,)
    assert replace(GaussianPolicy(), {"hidden": "linear"}).hidden == ()


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize(
    ("environment", "error", "said"),
    [
        (Spaceless, UsageError, "Spaceless has no observation_space of Gymnasium's"),
        (
            OldReset,
            EnvironmentFailure,
            r"at reset: ValueError: reset returned one ndarray, \(observation, info\) is expected",
        ),
        (OldReset, EnvironmentFailure, "saved after iteration 0: quell resume .* --trust-import test_api:OldReset"),
        (TwoRewards, EnvironmentFailure, "can only convert an array of size 1"),
    ],
)
def test_environments_that_are_not_as_they_should_be(
    environment: Any, error: type[Exception], said: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=said):
        quell.train(environment, method="es", out=tmp_path, **SMALL)


@pytest.mark.usefixtures("in_process")
def test_a_reward_may_be_an_array_of_one_number(tmp_path: Path) -> None:
    result = quell.train(OddReward, method="es", out=tmp_path, **SMALL)
    assert result.last("eval/return") == 5.0

    said = re.escape("pass it again, as in quell.load(path, env=make_env), quell.resume(path, env=make_env) or --trust")
    own = quell.train(lambda: OddReward(), method="es", out=tmp_path, **SMALL)
    for again in (quell.load, quell.evaluate, quell.resume):
        with pytest.raises(UsageError, match=said):
            again(own.path)  # type: ignore[operator]
