"""Tasks that misbehave, importable by worker processes."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from quell.tasks.base import Array, Task


@dataclass(frozen=True, kw_only=True)
class Troubled(Task):
    """Observation and action of size 2; reward -|action - 1|^2, unless `trouble` says otherwise."""

    horizon: int = 10
    trouble: str = ""
    share: float = 1.0
    """Probability that an episode shows the trouble."""

    name = "troubled"
    summary = "test task"
    obs_size = 2
    action_size = 2
    can_terminate = True

    def simulator(self, members: int) -> _Simulator:
        return _Simulator(self)


class _Simulator:
    def __init__(self, task: Troubled) -> None:
        self.task = task

    def reset(self, generators: Sequence[np.random.Generator]) -> Array:
        self.time = 0
        self.hit = np.array([rng.random() < self.task.share for rng in generators])
        self.ends = np.array([rng.integers(2, 10) for rng in generators])
        self.obs = np.stack([rng.standard_normal(2) for rng in generators])
        return self.obs

    def step(self, actions: Array, active: Array) -> tuple[Array, Array, Array]:
        self.time += 1
        reward = -np.square(actions.astype(float) - 1).sum(axis=1)
        ended = np.zeros(len(actions), bool)
        if self.task.trouble == "nan reward":
            reward = np.where(self.hit & (self.time == 5), np.nan, reward)
        elif self.task.trouble == "flat":
            reward = np.full(len(actions), -2.0)
        elif self.task.trouble == "ends":
            ended = self.time >= self.ends
            reward = np.where(self.time > self.ends, 1e9, reward)  # must never be counted
        elif self.task.trouble == "dies" and self.time == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        elif self.task.trouble == "raises" and self.time == 3:
            raise ValueError("the ground opened")
        return self.obs, reward, ended
