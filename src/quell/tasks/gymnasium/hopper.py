"""Hopper: a planar one-legged robot, hop forward without falling; Gymnasium's Hopper."""

from __future__ import annotations

from typing import Any

from quell.tasks.base import State, within
from quell.tasks.gymnasium.base import GymnasiumTask


class Hopper(GymnasiumTask):
    name = "hopper"
    summary = "planar one-legged hopper, hop forward (Gymnasium)"
    obs_size, action_size = 11, 3
    can_terminate = True
    asset = "hopper.xml"
    frame_skip = 4
    reset_noise = 5e-3

    def observe(self, xp: Any, state: State) -> Any:
        return xp.concatenate([state["qpos"][:, 1:], within(xp, state["qvel"], -10, 10)], axis=1)

    def reward(self, xp: Any, before: State, action: Any, after: State, ended: Any) -> Any:
        speed = (after["qpos"][:, 0] - before["qpos"][:, 0]) / 0.008
        return speed + self.bonus(xp, ended) - 1e-3 * xp.square(action).sum(axis=1)

    def terminated(self, xp: Any, state: State) -> Any:
        height, rest = state["qpos"][:, 1], xp.concatenate([state["qpos"][:, 2:], state["qvel"]], axis=1)
        sizes = xp.abs(rest)
        return ~((sizes.max(axis=1) < 100) & (height > 0.7) & (height < xp.inf) & (sizes[:, 0] < 0.2))


TASKS = [Hopper]
