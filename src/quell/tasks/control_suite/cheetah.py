"""dm-cheetah-run: a planar cheetah rewarded for its forward speed up to 10 m/s; the Control Suite's task."""

from typing import Any

import numpy as np

from quell.tasks.base import Draws, State
from quell.tasks.control_suite.base import ControlSuiteTask, rise

ROOT = 3  # joints that place the torso, without limits


class CheetahRun(ControlSuiteTask):
    name = "dm-cheetah-run"
    summary = "planar cheetah, run at 10 m/s (Control Suite)"
    obs_size, action_size = 17, 6
    domain = "cheetah"
    frame_skip = 1
    in_sync = True
    settling_steps = 200  # two seconds of passive falling
    fields = ("qpos", "qvel", "sensordata")

    def draw(self, model: Any, rng: np.random.Generator) -> Draws:
        return (rng.uniform(*model.jnt_range[ROOT:].T),)

    def initial(self, xp: Any, model: Any, draws: Draws) -> tuple[Any, Any]:
        """Any angles of the joints between their limits."""
        return xp.concatenate([model.qpos0[:ROOT], draws[0]]), xp.zeros(model.nv)

    def observe(self, xp: Any, state: State) -> Any:
        return xp.concatenate([state["qpos"][:, 1:], state["qvel"]], axis=1)

    def reward(self, xp: Any, before: State, action: Any, after: State, ended: Any) -> Any:
        forward_speed = after["sensordata"][:, 0]  # of the whole body's centre of mass
        return rise(xp, forward_speed, target=10, margin=10)


TASKS = [CheetahRun]
