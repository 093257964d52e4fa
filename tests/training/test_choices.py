"""Actions of several choices: MultiDiscrete and MultiBinary spaces, trained on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import quell
from quell.tasks.foreign.gym import from_env

pytestmark = pytest.mark.usefixtures("in_process")
LENGTH = 10
RIGHT = {"dials": lambda obs: [int(np.argmax(obs)) + 1, int(obs[0] > 0)], "bits": lambda obs: (obs > 0).astype(int)}


class Panel(gymnasium.Env[Any, Any]):
    """Every entry of an action that is as the observation says earns 1."""

    observation_space = spaces.Box(-1, 1, (3,))

    def __init__(self, kind: str = "dials") -> None:
        self.right = RIGHT[kind]
        self.action_space: Any = {
            "dials": spaces.MultiDiscrete([3, 2], start=[1, 0]),
            "bits": spaces.MultiBinary(3),
        }[kind]

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.seen = self.np_random.uniform(-1, 1, 3).astype(np.float32)
        return self.seen, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), action
        earned = float(np.sum(np.equal(action, self.right(self.seen))))
        self.seen = self.np_random.uniform(-1, 1, 3).astype(np.float32)
        return self.seen, earned, False, False, {}


@pytest.mark.parametrize(("method", "kind"), [("natural-cv", "dials"), ("natural-cv", "bits"), ("ppo", "dials")])
def test_several_choices_are_learned(method: str, kind: str, tmp_path: Path) -> None:
    """From what guessing earns to 85% of what there is, acting with the most likely choices."""
    chance, most = {"dials": (1 / 3 + 1 / 2, 2), "bits": (1.5, 3)}[kind]
    small: dict[str, Any] = {"out": tmp_path, "eval_every": 0, "eval_episodes": 20}
    result = quell.train(
        from_env(Panel, kind=kind, horizon=LENGTH), method=method, steps=12_000, progress=False, **small
    )
    first = np.mean([row["return/mean"] for row in result.history[:1]]) / LENGTH
    assert first == pytest.approx(chance, abs=0.3)
    assert result.last("eval/mean_action") / LENGTH > 0.85 * most
    task = result.task
    assert task.choices == ((3, 2) if kind == "dials" else (2, 2, 2))
    action = result.policy(np.array([0.9, -0.9, 0.4] if kind == "dials" else [0.9, -0.9, 0.9]))
    assert action.tolist() == ([1, 1] if kind == "dials" else [1, 0, 1])
    assert task.spaces[1].contains(action)  # type: ignore[attr-defined]
    again = quell.load(result.path, env=from_env(Panel, kind=kind, horizon=LENGTH))
    assert again.theta.tobytes() == result.theta.tobytes()


@pytest.mark.parametrize("method", ["es", "cv", "trpo", "ars", "pg", "fisher"])
def test_every_kind_of_step_takes_several_choices(method: str, tmp_path: Path) -> None:
    small: dict[str, Any] = {"out": tmp_path, "pairs": 2, "steps": 60, "batch_steps": 0}
    small |= {"method": method} if method != "fisher" else {"directions": "fisher"}
    result = quell.train(from_env(Panel, kind="dials", horizon=5), progress=False, eval_episodes=1, **small)
    assert np.isfinite(result.theta).all()
    assert result.history[-1]["trouble/total"] == 0
