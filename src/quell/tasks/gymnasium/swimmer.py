"""Swimmer: a three-link swimmer in a viscous fluid; Gymnasium's Swimmer (v4 and v5 are the same)."""

from collections.abc import Mapping
from typing import Any

from quell.tasks.base import State
from quell.tasks.gymnasium.base import GymnasiumTask


class Swimmer(GymnasiumTask):
    name = "swimmer"
    summary = "three-link swimmer, swim forward (Gymnasium)"
    obs_size, action_size = 8, 2
    asset = "swimmer.xml"
    frame_skip = 4
    reset_noise = 0.1
    tuned: Mapping[str, Any] = {"policy.activation": "tanh", "policy.init_std": 0.37, "lr": 0.01}

    def observe(self, xp: Any, state: State) -> Any:
        return xp.concatenate([state["qpos"][:, 2:], state["qvel"]], axis=1)

    def reward(self, xp: Any, before: State, action: Any, after: State, ended: Any) -> Any:
        speed = (after["qpos"][:, 0] - before["qpos"][:, 0]) / 0.04
        return speed - 1e-4 * xp.square(action).sum(axis=1)


TASKS = [Swimmer]
