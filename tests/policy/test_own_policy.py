"""Networks that are not the usual one: linear by name, somebody's own, and pictures, which are refused."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import gymnasium
import jax
import numpy as np
import pytest

import quell
from quell.cli import main
from quell.errors import UsageError
from quell.policy.act import actor
from quell.policy.likelihood import log_prob, outputs

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

from own_policy import Corrected, CorrectedPolicy  # type: ignore[import-not-found]

pytestmark = pytest.mark.usefixtures("in_process")
SHORT: dict[str, Any] = {"horizon": 20, "pairs": 2, "steps": 240, "eval_episodes": 1, "progress": False, "workers": 1}


@pytest.mark.parametrize("policy", ["gaussian", "deterministic"])
def test_linear_by_name(policy: str, tmp_path: Path) -> None:
    result = quell.train("lqr-302", method="es", policy=policy, hidden="linear", out=tmp_path, **SHORT)
    assert result.policy.policy.hidden == ()
    assert result.policy.policy.layers == [(3, 3)]
    zero, one, two = (result.policy.draw(np.full((1, 3), x)) for x in (0.0, 1.0, 2.0))
    np.testing.assert_allclose(two - one, one - zero, rtol=1e-4)
    assert quell.load(result.path).theta.tobytes() == result.theta.tobytes()


def test_linear_by_name_on_the_command_line(tmp_path: Path) -> None:
    words = ["--horizon", "20", "--steps", "100", "--out", str(tmp_path), "--name", "x"]
    assert main(["train", "gym:CartPole-v1", "--method", "es", "--hidden", "linear", *words]) == 0
    assert quell.load(tmp_path / "gym-CartPole-v1/es/x").policy.policy.layers == [(4, 2)]


@pytest.mark.parametrize("method", ["es", "pg", "natural-cv"])
def test_a_network_of_ones_own_trains_and_goes_on(method: str, tmp_path: Path) -> None:
    chosen = {"estimator": "control-variate", "step": "adam"} if method == "natural-cv" else {}
    settings = {**SHORT, **chosen, "policy": CorrectedPolicy(init_std=0.5), "batch_steps": 0}
    whole = quell.train("lqr-302", method=method, out=tmp_path, **settings)
    half = quell.train(
        "lqr-302", method=method, out=tmp_path, **{**settings, "steps": 160, "workers": 2}
    )  # whole batches
    start = whole.policy.policy.init(np.random.default_rng(0))
    assert start.shape == (3 * 8 + 8 * 3 + 3 * 3 + 3,)
    with pytest.raises(UsageError, match=r"'corrected' is not quell's own: pass it as policy="):
        quell.load(half.path)
    rest = quell.resume(half.path, steps=240, policy=settings["policy"], progress=False)
    assert rest.theta.tobytes() == whole.theta.tobytes()
    again = quell.load(rest.path, policy=settings["policy"])
    assert (again.policy(np.ones(3)) == rest.policy(np.ones(3))).all()


def test_a_network_of_ones_own_acts_and_is_differentiated_as_it_says() -> None:
    policy = Corrected(3, 2, init_std=0.5)
    rng = np.random.default_rng(0)
    thetas, obs = (
        rng.standard_normal((4, policy.dim)).astype(np.float32),
        rng.standard_normal((4, 3)).astype(np.float32),
    )
    acted = actor(policy, thetas, mean_action=True)(obs, np.zeros((1, 1), np.float32))
    for theta, row, action in zip(thetas, obs, acted, strict=True):
        parts = policy.unflatten(theta)
        expected = row @ parts["gain"] + np.tanh(row @ parts["inner"]) @ parts["outer"]
        np.testing.assert_allclose(action, expected, rtol=1e-4)
        np.testing.assert_allclose(outputs(policy, theta, row[None])[0], expected, rtol=1e-4)  # type: ignore[arg-type]
    theta, step = thetas[0].astype(np.float64), 1e-3
    seen, done = jax.numpy.asarray(obs[:1]), jax.numpy.asarray(acted[1:2])
    slope = jax.grad(lambda th: log_prob(policy, th, seen, done)[0])(thetas[0])
    for i in range(0, policy.dim, 7):
        moved = [thetas[0] + step * sign * np.eye(policy.dim, dtype=np.float32)[i] for sign in (1, -1)]
        up, down = (float(log_prob(policy, th, seen, done)[0]) for th in moved)  # type: ignore[arg-type]
        assert (up - down) / (2 * step) == pytest.approx(float(slope[i]), rel=0.05, abs=0.05)
    assert theta.shape == slope.shape


def test_limits_of_a_custom_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from quell.export import to_numpy

    monkeypatch.setattr(quell.fit, "MOST_WHOLE", 50)
    with pytest.raises(UsageError, match="takes at most 50 parameters"):
        quell.train("swimmer", policy=CorrectedPolicy(), out=tmp_path, **SHORT)
    assert not list(tmp_path.glob("*/*/*"))
    result = quell.train("lqr-302", method="es", policy=CorrectedPolicy(), out=tmp_path, **SHORT)
    with pytest.raises(UsageError, match="only quell's own networks can be exported"):
        to_numpy(result.policy, tmp_path)


class Camera(gymnasium.Env[Any, Any]):
    action_space = gymnasium.spaces.Discrete(4)

    def __init__(self, size: int) -> None:
        self.observation_space = gymnasium.spaces.Box(0, 255, (size, size, 3), np.uint8)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self.observation_space.sample(), 1.0, False, False, {}


def test_pictures_are_refused_with_the_size_they_would_need(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"images of 210 x 210 x 3 = 132,300 numbers.*4.9 GiB. Make them smaller"):
        quell.train(lambda: Camera(210), horizon=1000, out=tmp_path, progress=False)
    small = quell.train(lambda: Camera(3), method="es", out=tmp_path, **SHORT)
    assert small.policy.policy.obs_size == 27
