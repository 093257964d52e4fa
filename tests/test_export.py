"""Exported policies act as the policy does, in processes and libraries that know nothing of quell."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import quell
from quell.cli import main

pytestmark = pytest.mark.usefixtures("in_process")
SHORT: dict[str, Any] = {"steps": 100, "pairs": 2, "eval_episodes": 1, "progress": False, "workers": 1, "method": "es"}
CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "gaussian": (None, {}),
    "normalised": (None, {"normalise_obs": True, "policy.activation": "tanh"}),
    "linear": (None, {"policy.hidden": ()}),
    "deterministic": (None, {"policy": "deterministic"}),
    "clipped": (spaces.Box(np.array([-0.02, 0], np.float32), np.array([0.3, 1], np.float32)), {"actions": "clip"}),
    "scaled": (spaces.Box(np.array([-2, 0], np.float32), np.array([3, 1], np.float32)), {"actions": "scale"}),
    "square": (spaces.Box(-0.1, 0.1, (2, 2), np.float64), {}),
    "whole": (spaces.Box(0, 3, (2,), np.int64), {}),
    "choice": (spaces.Discrete(3, start=5), {"normalise_obs": True}),
    "choices": (spaces.MultiDiscrete([[3, 2], [2, 4]], start=[[0, 5], [-1, 0]]), {}),
    "bits": (spaces.MultiBinary(3), {"normalise_obs": True}),
}


class Still(gymnasium.Env[Any, Any]):
    observation_space = spaces.Box(-9, 9, (3,))

    def __init__(self, actions: Any) -> None:
        self.action_space = actions

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self.np_random.uniform(-9, 9, 3).astype(np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self.np_random.uniform(-9, 9, 3).astype(np.float32), float(np.sum(action)), False, False, {}


@pytest.mark.parametrize("case", CASES)
def test_exported_policies_act_as_the_policy_does(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    space, settings = CASES[case]
    task: Any = "lqr-302" if space is None else lambda: Still(space)
    result = quell.train(task, out=tmp_path, horizon=10, output_scale=2.0, **{**SHORT, **settings})
    from quell.export import to_numpy, to_onnx

    files = to_numpy(result.policy, tmp_path) + to_onnx(result.policy, tmp_path)
    assert [file.name for file in files] == ["policy.npz", "act.py", "policy.onnx"]
    obs = np.random.default_rng(0).uniform(-3, 3, (50, 3)).astype(np.float32)
    expected = result.policy(obs)
    names: dict[str, Any] = {"__file__": str(tmp_path / "act.py")}
    exec((tmp_path / "act.py").read_text(), names)
    for found in (names["act"](obs), np.stack([names["act"](one) for one in obs]), _onnx(files[2], obs)):
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    if space is not None:
        assert all(space.contains(action) for action in _onnx(files[2], obs))
        assert len(np.unique(expected, axis=0)) > 1, "a policy that does one thing tests nothing"


def _onnx(path: Path, obs: Any) -> Any:
    from onnx.reference import ReferenceEvaluator

    return ReferenceEvaluator(str(path)).run(None, {"obs": obs})[0]


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """act.py runs in a process where quell cannot be imported; without the extra it says how to get it."""
    result = quell.train("lqr-302", out=tmp_path, horizon=10, **SHORT)
    assert main(["export", str(result.path), "--checkpoint", "best", "--out", str(tmp_path / "a")]) == 0
    assert "lqr-302  es  best policy, of iteration 3" in capsys.readouterr().out
    code = "import sys; sys.modules['quell'] = None; import act; print(act.act([0.1, 0.2, 0.3]).tolist())"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path / "a", capture_output=True, text=True, check=True)
    np.testing.assert_allclose(json.loads(done.stdout), result.policy([0.1, 0.2, 0.3]), rtol=1e-5)
    monkeypatch.setitem(quell.errors.EXTRAS, "onnx", "no_such_module_at_all")
    assert main(["export", str(result.path), "--out", str(tmp_path / "b")]) == 0
    assert "pip install 'quell[onnx]'" in capsys.readouterr().out
    assert sorted(path.name for path in (tmp_path / "b").iterdir()) == ["act.py", "policy.npz"]
