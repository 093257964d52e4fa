"""A planar robot on one leg or two, hop or walk forward without falling; Gymnasium's Hopper and Walker2d.

v5 of Walker2d gives both feet the same friction; v4's right foot has less than half of the left one's.
"""

from typing import Any

import numpy as np

from quell.tasks.base import State, within
from quell.tasks.gymnasium.base import GymnasiumTask, by_version

LEAST = np.array([[0.7, -0.2] + [-100.0] * 9])  # height, angle, and all else: beyond, a hopper has fallen
MOST = np.array([[np.inf, 0.2] + [100.0] * 9])


class Hopper(GymnasiumTask):
    name = "hopper"
    summary = "planar one-legged hopper, hop forward (Gymnasium)"
    obs_size, action_size = 11, 3
    can_terminate, first_length = True, 20
    asset, frame_skip = "hopper.xml", 4
    reset_noise = 5e-3

    def observe(self, xp: Any, state: State) -> Any:
        return xp.concatenate([state["qpos"][:, 1:], within(xp, state["qvel"], -10.0, 10.0)], axis=1)

    def reward(self, xp: Any, before: State, action: Any, after: State, ended: Any) -> Any:
        speed = (after["qpos"][:, 0] - before["qpos"][:, 0]) / (0.008 * self.pace)
        return speed + self.bonus(xp, ended) - 1e-3 * xp.square(action).sum(axis=1)

    def terminated(self, xp: Any, state: State) -> Any:
        place = xp.concatenate([state["qpos"][:, 1:], state["qvel"]], axis=1)
        return ~((place > LEAST) & (place < MOST)).all(axis=1)


class Walker2d(Hopper):
    """Observed and rewarded as the hopper is."""

    name = "walker2d"
    summary = "planar biped, walk forward (Gymnasium)"
    obs_size, action_size = 17, 6
    asset = by_version(v5="walker2d_v5.xml", v4="walker2d.xml")

    def terminated(self, xp: Any, state: State) -> Any:
        height, angle = state["qpos"][:, 1], state["qpos"][:, 2]
        return ~((height > 0.8) & (height < 2.0) & (angle > -1.0) & (angle < 1.0))


TASKS = [Hopper, Walker2d]
