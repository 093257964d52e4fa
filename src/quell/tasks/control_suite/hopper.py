"""dm-hopper-stand, dm-hopper-hop: a planar one-legged robot; the Control Suite's hopper domain."""

from typing import Any

import numpy as np

from quell.tasks.base import Draws, State
from quell.tasks.control_suite.base import ControlSuiteTask, dome, rise

TORSO, FOOT = 1, 5  # bodies


class DmHopper(ControlSuiteTask):
    obs_size, action_size = 15, 4
    domain = "hopper"
    frame_skip = 4
    in_sync = True
    fields = ("qpos", "qvel", "sensordata", "xipos")

    def draw(self, model: Any, rng: np.random.Generator) -> Draws:
        """Limited joints uniform in their range, the torso's angle uniform on the circle."""
        low, high = model.jnt_range[2:].T.copy()
        low[0], high[0] = -np.pi, np.pi
        return (rng.uniform(low, high),)

    def initial(self, xp: Any, model: Any, draws: Draws) -> tuple[Any, Any]:
        return xp.concatenate([model.qpos0[:2], draws[0]]), xp.zeros(model.nv)

    def observe(self, xp: Any, state: State) -> Any:
        touch = xp.log1p(state["sensordata"][:, 3:5])
        return xp.concatenate([state["qpos"][:, 1:], state["qvel"], touch], axis=1)

    def standing(self, xp: Any, state: State) -> Any:
        """1 when the torso is high enough above the foot."""
        height = state["xipos"][:, TORSO, 2] - state["xipos"][:, FOOT, 2]
        return xp.where((height >= 0.6) & (height <= 2), 1.0, 0.0)


class HopperStand(DmHopper):
    name = "dm-hopper-stand"
    summary = "planar one-legged hopper, get up and stand (Control Suite)"

    def reward(self, xp: Any, before: State, action: Any, after: State, ended: Any) -> Any:
        small_control = (dome(xp, action).mean(axis=1) + 4) / 5
        return self.standing(xp, after) * small_control


class HopperHop(DmHopper):
    name = "dm-hopper-hop"
    summary = "planar one-legged hopper, get up and hop at 2 m/s (Control Suite)"

    def reward(self, xp: Any, before: State, action: Any, after: State, ended: Any) -> Any:
        forward_speed = after["sensordata"][:, 0]
        return self.standing(xp, after) * rise(xp, forward_speed, target=2, margin=1, at_margin=0.5)


TASKS = [HopperStand, HopperHop]
