"""`result.policy(obs)` is what goes into `env.step`, and takes what the environment gives."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import quell
from quell.errors import UsageError

SHORT: dict[str, Any] = {"steps": 200, "pairs": 2, "eval_episodes": 1, "progress": False, "workers": 1}


class Recorded(gymnasium.Env[Any, Any]):
    """Keeps what it was given; its observations say where it is, in parts."""

    def __init__(self, actions: Any) -> None:
        self.action_space = actions
        parts = {"zeta": spaces.Discrete(3, start=-1), "alpha": spaces.Box(-9, 9, (2, 2))}
        self.observation_space = spaces.Dict(parts)
        self.seen: list[Any] = []

    def _observation(self) -> dict[str, Any]:
        return {"alpha": self.np_random.uniform(-9, 9, (2, 2)).astype(np.float32), "zeta": len(self.seen) % 3 - 1}

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.seen = []
        return self._observation(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), action
        self.seen.append(action)
        return self._observation(), float(np.sum(action)), False, False, {}


SPACES = {
    "box": spaces.Box(np.array([-2, 0], np.float32), np.array([3, 1], np.float32)),
    "square": spaces.Box(-0.1, 0.1, (2, 2)),
    "whole": spaces.Box(0, 3, (2,), np.int64),
    "choice": spaces.Discrete(3, start=5),
}


@pytest.mark.parametrize(
    ("space", "bounding"),
    [("box", "as-is"), ("box", "clip"), ("box", "scale"), ("square", "clip"), ("whole", "scale"), ("choice", "")],
)
@pytest.mark.usefixtures("in_process")
def test_the_policy_acts_as_training_did(space: str, bounding: str, tmp_path: Path) -> None:
    """The same episode, played by an engine (sum of its rewards) and by hand."""

    def make() -> Recorded:
        return Recorded(SPACES[space])

    settings = {**SHORT, "method": "es", "horizon": 20, "normalise_obs": True, "output_scale": 5.0}
    if bounding:
        settings["actions"] = bounding
    result = quell.train(make, out=tmp_path, **settings)
    played = quell.evaluate(result, episodes=1, mean_action=True, workers=1)
    seed = int(np.random.Generator(_environment(0)).integers(2**31 - 1))
    env = make()
    obs, total = env.reset(seed=seed)[0], 0.0
    for _ in range(20):
        obs, reward, *_ = env.step(result.policy(obs))
        total += reward
    assert total == pytest.approx(played.returns[0], rel=1e-5)
    assert result.policy(obs, rng=np.random.default_rng(0)) is not None


def _environment(seed: int) -> Any:
    """The bits that the first fresh episode's environment is drawn from."""
    from quell.keys import Stream, generator

    return generator(seed, Stream.FRESH.value[0], 0, 0).bit_generator


@pytest.mark.usefixtures("in_process")
def test_pendulums_torque(tmp_path: Path) -> None:
    """With scaled actions the torque is twice what the network says, and never above 2."""
    env = gymnasium.make("Pendulum-v1")
    result = quell.train(env, method="es", actions="scale", horizon=20, out=tmp_path, **SHORT)
    obs = np.array([0.3, 0.2, 0.1], np.float32)
    drawn = result.policy.draw(obs[None])[0]
    np.testing.assert_allclose(result.policy(obs), 2 * np.clip(drawn, -1, 1), rtol=1e-6)
    assert result.policy(np.stack([obs] * 4)).shape == (4, 1)
    assert env.action_space.contains(result.policy(100 * obs))


@pytest.mark.usefixtures("in_process")
def test_observations_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    result = quell.train("lqr-302", method="es", horizon=20, out=tmp_path, **SHORT)
    with pytest.raises(UsageError, match=r"observations of 3 numbers, not of shape \(4,\)"):
        result.policy(np.zeros(4))
    own = quell.train(lambda: Recorded(SPACES["box"]), method="es", horizon=20, out=tmp_path, **SHORT)
    with pytest.raises(UsageError, match="this is no observation of own:lambda"):
        own.policy(np.zeros(4))
    with pytest.raises(UsageError, match="this is no observation of own:lambda"):
        own.policy({"zeta": 7, "alpha": np.zeros((2, 2))})


class Stops(quell.Callback):
    def on_iteration(self, row: dict[str, Any]) -> None:
        self.stop_requested = True


class TestOwnEnvironments:
    @pytest.mark.parametrize("how", ["environment", "function"])
    def test_a_run_goes_on_with_what_it_is_given_again(self, how: str, tmp_path: Path) -> None:
        def make() -> Recorded:
            return Recorded(SPACES["box"])

        env: Recorded | Callable[[], Recorded] = make() if how == "environment" else make
        settings = {**SHORT, "method": "es"}
        whole = quell.train(env, horizon=20, out=tmp_path, **settings)
        half = quell.train(env, horizon=20, out=tmp_path, callbacks=[Stops()], **settings)
        assert 0 < half.steps < whole.steps
        with pytest.raises(UsageError, match=r"pass it again, as in quell.load\(path, env=make_env\), quell.resume"):
            quell.resume(half.path, steps=200, progress=False)
        rest = quell.resume(half.path, steps=200, env=env, workers=2, progress=False)
        assert rest.theta.tobytes() == whole.theta.tobytes()
        assert quell.load(half.path, env=env).config.horizon == 20
        written = [path.read_bytes() for path in half.path.rglob("*") if path.is_file()]
        assert not any(b"cloudpickle" in data for data in written)

    def test_a_script_trains_on_what_it_defines(self, tmp_path: Path) -> None:
        script = tmp_path / "script.py"
        script.write_text(
            "import gymnasium, numpy as np, quell\n"
            "class Line(gymnasium.Env):\n"
            "    observation_space = gymnasium.spaces.Box(-9, 9, (1,))\n"
            "    action_space = gymnasium.spaces.Box(-1, 1, (1,))\n"
            "    def reset(self, *, seed=None, options=None):\n"
            "        super().reset(seed=seed)\n"
            "        self.x = self.np_random.uniform(-1, 1, 1).astype(np.float32)\n"
            "        return self.x, {}\n"
            "    def step(self, action):\n"
            "        self.x = self.x + action\n"
            "        return self.x, -float(abs(self.x[0])), False, False, {}\n"
            "def run(env):\n"
            f"    return quell.train(env, horizon=10, method='es', pairs=2, steps=80, out={str(tmp_path)!r},\n"
            "                       progress=False, workers=1).theta.tobytes()\n"
            "same = {run(Line), run(Line()), run(lambda: Line())}\n"
            "print(len(same))\n"
        )
        done = subprocess.run([sys.executable, script], capture_output=True, text=True)
        assert done.stdout == "1\n", done.stderr


@pytest.mark.usefixtures("in_process")
class TestNumbers:
    @pytest.mark.parametrize("steps", [1e3, np.int8(100)])
    def test_whole_numbers_of_any_type(self, steps: Any, tmp_path: Path) -> None:
        settings = {
            **SHORT,
            "steps": steps,
            "horizon": np.int32(20),
            "eval_every": 1e2,
            "policy.hidden": [8.0, np.int64(4)],
        }
        settings |= {"sigma": np.float32(0.25), "workers": np.int64(1)}
        result = quell.train("lqr-302", method="es", out=tmp_path, **settings)
        assert type(result.config.steps) is int
        assert result.config.steps == int(steps)
        assert (result.policy.policy.hidden, result.config.directions.sigma) == ((8, 4), 0.25)
        assert quell.evaluate(result, episodes=np.int64(2), seed=1e0).returns.shape == (2,)  # type: ignore[arg-type]
        assert quell.load(result.path, at=1e9).iteration == result.iteration  # type: ignore[arg-type]

    @pytest.mark.parametrize("steps", [1.5, np.float64(1000.25), "many", float("inf")])
    def test_others_are_refused(self, steps: Any, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match=r"`steps=.*` must be a whole number"):
            quell.train("lqr-302", out=tmp_path, **{**SHORT, "steps": steps})
