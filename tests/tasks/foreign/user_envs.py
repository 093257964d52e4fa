"""Environments as a user might bring them, well behaved and not."""

from __future__ import annotations

import gymnasium
import numpy as np
from gymnasium import spaces


class Toy(gymnasium.Env):
    """Counts steps; what it does at step `trouble_at` depends on `trouble`."""

    action_space = spaces.Box(-0.5, np.array([0.5, np.inf], np.float32), (2,), np.float32)

    def __init__(self, trouble: str = "", trouble_at: int = 3) -> None:
        self.trouble, self.trouble_at = trouble, trouble_at
        self.observation_space = spaces.Dict(
            {
                "zeta": spaces.Discrete(3, start=-1),
                "alpha": spaces.Tuple((spaces.Box(-9, 9, (2, 2)), spaces.MultiDiscrete([2, 3]))),
                "bits": spaces.MultiBinary(2),
            }
        )
        self.actions: list[np.ndarray] = []

    def observation(self):
        return {
            "bits": np.array([1, 0], np.int8),
            "alpha": (np.array([[1, 2], [3, self.start]], np.float32), np.array([1, 2])),
            "zeta": 1,
        }

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time, self.start = 0, self.np_random.uniform()
        if self.trouble == "reset":
            raise RuntimeError("no ground to stand on")
        return self.observation(), {}

    def step(self, action):
        assert action.dtype == np.float32
        self.actions.append(action)
        self.time += 1
        observation, reward, terminated, truncated = self.observation(), float(action.sum()), False, False
        if self.time == self.trouble_at:
            if self.trouble == "raise":
                raise RuntimeError("the leg came off")
            if self.trouble == "nan":
                observation["alpha"][0][0, 1] = np.nan
            if self.trouble == "shape":
                observation["alpha"] = (np.zeros((1, 2), np.float32), observation["alpha"][1])
            if self.trouble == "key":
                del observation["bits"]
            if self.trouble == "one-hot":
                observation["zeta"] = 7
            if self.trouble == "reward":
                reward = None  # type: ignore[assignment]
            if self.trouble == "nan reward":
                reward = float("nan")
            if self.trouble == "old api":
                return observation, reward, terminated, {}
            terminated, truncated = self.trouble == "terminate", self.trouble == "truncate"
        return observation, reward, terminated, truncated, {}


def make_toy(**kwargs):
    return gymnasium.wrappers.TimeLimit(Toy(**kwargs), 50)


def make_endless():
    return Toy()


def make_nothing():
    return "not an environment"


def make_with_actions(kind: str):
    env = Toy()
    env.action_space = {
        "text": spaces.Text(3),
    }[kind]
    return env


class Warns(gymnasium.Env):
    """Says a word of warning when it is made and when it begins, as Gymnasium's own logger does."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self):
        gymnasium.logger.warn("made")

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        gymnasium.logger.warn("begun")
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return np.zeros(2, np.float32), 0.0, False, False, {}
