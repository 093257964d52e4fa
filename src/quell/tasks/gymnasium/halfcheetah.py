"""HalfCheetah: a planar cheetah, run forward; Gymnasium's HalfCheetah (v4 and v5 are the same)."""

from collections.abc import Mapping
from typing import Any

from quell.tasks.base import State
from quell.tasks.gymnasium.base import GymnasiumTask


class HalfCheetah(GymnasiumTask):
    name = "halfcheetah"
    summary = "planar cheetah, run forward (Gymnasium)"
    obs_size, action_size = 17, 6
    asset = "half_cheetah.xml"
    frame_skip = 5
    reset_noise = 0.1
    normal_velocities = True
    tuned: Mapping[str, Any] = {"policy.activation": "tanh", "policy.init_std": 0.14, "normalise_obs": True, "lr": 0.01}

    def observe(self, xp: Any, state: State) -> Any:
        return xp.concatenate([state["qpos"][:, 1:], state["qvel"]], axis=1)

    def reward(self, xp: Any, before: State, action: Any, after: State, ended: Any) -> Any:
        speed = (after["qpos"][:, 0] - before["qpos"][:, 0]) / 0.05
        return speed - 0.1 * xp.square(action).sum(axis=1)


TASKS = [HalfCheetah]
