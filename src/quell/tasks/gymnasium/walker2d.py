"""Walker2d: a planar biped, walk forward without falling; Gymnasium's Walker2d.

v5 gives both feet the same friction; v4's right foot has less than half of the left one's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from quell.tasks.base import State, within
from quell.tasks.gymnasium.base import GymnasiumTask, asset_path


@dataclass(frozen=True, kw_only=True)
class Walker2d(GymnasiumTask):
    name: ClassVar[str] = "walker2d"
    summary: ClassVar[str] = "planar biped, walk forward (Gymnasium)"
    obs_size: ClassVar[int] = 17
    action_size: ClassVar[int] = 6
    can_terminate: ClassVar[bool] = True
    family: ClassVar[str] = "Walker2d"
    asset: ClassVar[str] = "walker2d_v5.xml"
    frame_skip: ClassVar[int] = 4
    reset_noise: ClassVar[float] = 5e-3
    tuned: ClassVar[Mapping[str, Any]] = {"lr": 0.01}  # at 0.03, four runs of ten lost their gait for good

    def model(self) -> Any:
        from quell.tasks.mujoco import load_model

        return load_model(asset_path("walker2d.xml" if self.version == "v4" else self.asset))

    def observe(self, xp: Any, state: State) -> Any:
        return xp.concatenate([state["qpos"][:, 1:], within(xp, state["qvel"], -10, 10)], axis=1)

    def reward(self, xp: Any, before: State, action: Any, after: State, ended: Any) -> Any:
        speed = (after["qpos"][:, 0] - before["qpos"][:, 0]) / 0.008
        upright = self.bonus(xp, ended)
        return speed + upright - 1e-3 * xp.square(action).sum(axis=1)

    def terminated(self, xp: Any, state: State) -> Any:
        height, angle = state["qpos"][:, 1], state["qpos"][:, 2]
        return ~((height > 0.8) & (height < 2.0) & (angle > -1.0) & (angle < 1.0))


TASKS = [Walker2d]
