"""Swimmer: a three-link swimmer in a viscous fluid; Gymnasium's Swimmer-v5 (v4 has the same physics and reward)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from quell.tasks.base import MujocoTask, State, gymnasium_asset


@dataclass(frozen=True, kw_only=True)
class Swimmer(MujocoTask):
    name: ClassVar[str] = "swimmer"
    summary: ClassVar[str] = "three-link swimmer, swim forward (Gymnasium v5)"
    obs_size: ClassVar[int] = 8
    action_size: ClassVar[int] = 2
    frame_skip: ClassVar[int] = 4

    def model(self) -> Any:
        from quell.tasks.mujoco import load_model

        return load_model(gymnasium_asset("swimmer.xml"))

    def reset(self, model: Any, data: Any, rng: np.random.Generator) -> None:
        data.qpos += rng.uniform(-0.1, 0.1, model.nq)
        data.qvel += rng.uniform(-0.1, 0.1, model.nv)

    def observe(self, xp: Any, state: State) -> Any:
        return xp.concatenate([state["qpos"][:, 2:], state["qvel"]], axis=1)

    def reward(self, xp: Any, before: State, action: Any, after: State) -> Any:
        speed = (after["qpos"][:, 0] - before["qpos"][:, 0]) / 0.04
        return speed - 1e-4 * xp.square(action).sum(axis=1)


TASKS = [Swimmer]
