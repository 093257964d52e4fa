"""Walker2d: a planar biped, walk forward without falling; Gymnasium's Walker2d-v5."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from quell.tasks.base import MujocoTask, State, gymnasium_asset


@dataclass(frozen=True, kw_only=True)
class Walker2d(MujocoTask):
    name: ClassVar[str] = "walker2d"
    summary: ClassVar[str] = "planar biped, walk forward (Gymnasium v5)"
    obs_size: ClassVar[int] = 17
    action_size: ClassVar[int] = 6
    frame_skip: ClassVar[int] = 4
    can_terminate: ClassVar[bool] = True

    def model(self) -> Any:
        from quell.tasks.mujoco import load_model

        return load_model(gymnasium_asset("walker2d_v5.xml"))

    def reset(self, model: Any, data: Any, rng: np.random.Generator) -> None:
        data.qpos += rng.uniform(-5e-3, 5e-3, model.nq)
        data.qvel += rng.uniform(-5e-3, 5e-3, model.nv)

    def observe(self, xp: Any, state: State) -> Any:
        return xp.concatenate([state["qpos"][:, 1:], xp.clip(state["qvel"], -10, 10)], axis=1)

    def reward(self, xp: Any, before: State, action: Any, after: State) -> Any:
        speed = (after["qpos"][:, 0] - before["qpos"][:, 0]) / 0.008
        healthy = ~self.terminated(xp, after)
        return speed + healthy - 1e-3 * xp.square(action).sum(axis=1)

    def terminated(self, xp: Any, state: State) -> Any:
        height, angle = state["qpos"][:, 1], state["qpos"][:, 2]
        return ~((height > 0.8) & (height < 2.0) & (angle > -1.0) & (angle < 1.0))


TASKS = [Walker2d]
