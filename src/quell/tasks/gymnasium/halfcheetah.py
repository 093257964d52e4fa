"""HalfCheetah: a planar cheetah, run forward; Gymnasium's HalfCheetah (v4 and v5 are the same)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from quell.tasks.base import State
from quell.tasks.gymnasium.base import GymnasiumTask


@dataclass(frozen=True, kw_only=True)
class HalfCheetah(GymnasiumTask):
    name: ClassVar[str] = "halfcheetah"
    summary: ClassVar[str] = "planar cheetah, run forward (Gymnasium)"
    obs_size: ClassVar[int] = 17
    action_size: ClassVar[int] = 6
    family: ClassVar[str] = "HalfCheetah"
    asset: ClassVar[str] = "half_cheetah.xml"
    frame_skip: ClassVar[int] = 5
    reset_noise: ClassVar[float] = 0.1
    normal_velocities: ClassVar[bool] = True
    tuned: ClassVar[Mapping[str, Any]] = {
        "policy.activation": "tanh",
        "policy.init_std": 0.14,
        "normalise_obs": True,
        "lr": 0.01,
    }

    def observe(self, xp: Any, state: State) -> Any:
        return xp.concatenate([state["qpos"][:, 1:], state["qvel"]], axis=1)

    def reward(self, xp: Any, before: State, action: Any, after: State, ended: Any) -> Any:
        speed = (after["qpos"][:, 0] - before["qpos"][:, 0]) / 0.05
        return speed - 0.1 * xp.square(action).sum(axis=1)


TASKS = [HalfCheetah]
