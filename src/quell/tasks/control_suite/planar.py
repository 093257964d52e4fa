"""Planar robots on one leg or two: dm-hopper-stand, dm-hopper-hop and dm-cheetah-run; the Control Suite's tasks."""

from typing import Any

import numpy as np

from quell.tasks.base import Draws, State
from quell.tasks.control_suite.base import ControlSuiteTask, dome, rise

TORSO, FOOT = 1, 5  # bodies of the hopper


class Planar(ControlSuiteTask):
    """Its joints start anywhere; where it is along the ground is not observed."""

    in_sync = True
    fields: tuple[str, ...] = ("qpos", "qvel", "sensordata")
    root: int  # first coordinates, which start as the model has them

    def draw(self, model: Any, rng: np.random.Generator) -> Draws:
        """Limited joints uniform in their range, others on the circle."""
        limited, ranges = model.jnt_limited[self.root :, None], model.jnt_range[self.root :]
        return (rng.uniform(*np.where(limited, ranges, (-np.pi, np.pi)).T),)

    def initial(self, xp: Any, model: Any, draws: Draws) -> tuple[Any, Any]:
        return xp.concatenate([model.qpos0[: self.root], draws[0]]), xp.zeros(model.nv)

    def observe(self, xp: Any, state: State) -> Any:
        return xp.concatenate([state["qpos"][:, 1:], state["qvel"]], axis=1)


class DmHopper(Planar):
    obs_size, action_size = 15, 4
    domain, frame_skip = "hopper", 4
    fields = ("qpos", "qvel", "sensordata", "xipos")
    root = 2

    def observe(self, xp: Any, state: State) -> Any:
        touch = xp.log1p(state["sensordata"][:, 3:5])
        return xp.concatenate([super().observe(xp, state), touch], axis=1)

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


class CheetahRun(Planar):
    name = "dm-cheetah-run"
    summary = "planar cheetah, run at 10 m/s (Control Suite)"
    obs_size, action_size = 17, 6
    domain, frame_skip = "cheetah", 1
    settling_steps = 200  # two seconds of passive falling
    root = 3

    def reward(self, xp: Any, before: State, action: Any, after: State, ended: Any) -> Any:
        forward_speed = after["sensordata"][:, 0]  # of the whole body's centre of mass
        return rise(xp, forward_speed, target=10, margin=10)


TASKS = [HopperStand, HopperHop, CheetahRun]
