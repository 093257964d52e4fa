"""The tasks' originals behind one small interface, so that every parity test is one loop."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np
import pytest

from quell import tasks
from quell.tasks import MujocoTask

ORIGINALS = {name: tasks.get(name).original or "" for name in tasks.names()}
GYMNASIUM = [name for name, original in ORIGINALS.items() if original.startswith("gymnasium:")]
CONTROL_SUITE = [name for name, original in ORIGINALS.items() if original.startswith("dm_control:")]


@dataclass(frozen=True)
class Case:
    """A task of ours and, where the task has versions, which one."""

    name: str
    version: str | None = None

    def __str__(self) -> str:
        return self.name if self.version is None else f"{self.name}-{self.version}"

    def task(self) -> MujocoTask:
        found = tasks.get(self.name, **({} if self.version is None else {"version": self.version}))
        assert isinstance(found, MujocoTask)
        return found

    def original(self) -> GymnasiumOriginal | ControlSuiteOriginal:
        library, _, name = (self.task().original or "").partition(":")
        if library == "gymnasium":
            return GymnasiumOriginal(name)
        return ControlSuiteOriginal(*name.split("/"))


CASES = [Case(name, version) for name in GYMNASIUM for version in ("v5", "v4")]
CASES += [Case(name) for name in CONTROL_SUITE]
every_case = pytest.mark.parametrize("case", CASES, ids=str)


class GymnasiumOriginal:
    def __init__(self, identifier: str) -> None:
        import gymnasium

        previous = mujoco.get_mju_user_warning()
        mujoco.set_mju_user_warning(lambda message: None)  # else it logs to a file in the working directory
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*out of date.*", category=DeprecationWarning)
            self.env = gymnasium.make(identifier).unwrapped
        mujoco.set_mju_user_warning(previous)
        self.model, self.data = self.env.model, self.env.data
        self.step_seconds, self.horizon = self.env.dt, gymnasium.spec(identifier).max_episode_steps

    def reset(self, rng: np.random.Generator) -> Any:
        """Reset with the numbers of this very generator."""
        self.env.np_random = rng
        return self.env.reset()[0]

    def own_reset(self, seed: int) -> None:
        """Reset from a seed, the way a user of the original would."""
        self.env.reset(seed=seed)

    def step(self, action: Any) -> tuple[Any, float, bool]:
        observation, reward, terminated, _, _ = self.env.step(action)
        return observation, float(reward), bool(terminated)


class ControlSuiteOriginal:
    def __init__(self, domain: str, task: str) -> None:
        os.environ.setdefault("MUJOCO_GL", "disabled")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of its own imports
            suite = pytest.importorskip("dm_control.suite")
        self.env = suite.load(domain, task)
        physics = self.env.physics
        # The escape task uploads its terrain to a renderer, and opens one for that. We look at numbers only.
        type(physics).contexts = property(lambda self: None)
        self.model, self.data = physics.model.ptr, physics.data.ptr
        self.step_seconds, self.horizon = self.env.control_timestep(), self.env._step_limit

    def reset(self, rng: np.random.Generator) -> Any:
        self.env.task._random = _RandomState(rng)
        return _flat(self.env.reset().observation)

    def own_reset(self, seed: int) -> None:
        self.env.task._random = np.random.RandomState(seed)
        self.env.reset()

    def step(self, action: Any) -> tuple[Any, float, bool]:
        result = self.env.step(action)
        return _flat(result.observation), float(result.reward), False

    def reward_now(self, action: Any) -> float:
        self.env.physics.set_control(action)
        return float(self.env.task.get_reward(self.env.physics))


class _RandomState:
    """A Generator with the names that the Control Suite calls."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.uniform = rng.uniform
        self._rng = rng

    def randn(self, *shape: int) -> Any:
        return self._rng.standard_normal(shape or None)


def _flat(observation: Any) -> Any:
    return np.concatenate([np.ravel(value) for value in observation.values()])
