"""HalfCheetah: run forward; Gymnasium's HalfCheetah-v5 (v4 has the same physics and reward)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from quell.tasks.base import MujocoTask, State, gymnasium_asset


@dataclass(frozen=True, kw_only=True)
class HalfCheetah(MujocoTask):
    name: ClassVar[str] = "halfcheetah"
    summary: ClassVar[str] = "planar cheetah, run forward (Gymnasium v5)"
    obs_size: ClassVar[int] = 17
    action_size: ClassVar[int] = 6
    frame_skip: ClassVar[int] = 5

    def model(self) -> Any:
        from quell.tasks.mujoco import load_model

        return load_model(gymnasium_asset("half_cheetah.xml"))

    def reset(self, model: Any, data: Any, rng: np.random.Generator) -> None:
        data.qpos += rng.uniform(-0.1, 0.1, model.nq)
        data.qvel += 0.1 * rng.standard_normal(model.nv)

    def observe(self, xp: Any, state: State) -> Any:
        return xp.concatenate([state["qpos"][:, 1:], state["qvel"]], axis=1)

    def reward(self, xp: Any, before: State, action: Any, after: State) -> Any:
        speed = (after["qpos"][:, 0] - before["qpos"][:, 0]) / 0.05
        return speed - 0.1 * xp.square(action).sum(axis=1)


TASKS = [HalfCheetah]
