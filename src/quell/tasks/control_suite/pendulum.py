"""dm-pendulum-swingup: swing a pendulum up with too little torque and hold it; the Control Suite's task."""

from typing import Any

import numpy as np

from quell.tasks.base import Draws, State
from quell.tasks.control_suite.base import ControlSuiteTask

UPRIGHT_COSINE = float(np.cos(np.deg2rad(8)))


class PendulumSwingup(ControlSuiteTask):
    name = "dm-pendulum-swingup"
    summary = "swing a pendulum up and hold it, sparse reward (Control Suite)"
    obs_size, action_size = 3, 1
    domain = "pendulum"
    frame_skip = 1

    def draw(self, model: Any, rng: np.random.Generator) -> Draws:
        return (rng.uniform(-np.pi, np.pi, 1),)

    def initial(self, xp: Any, model: Any, draws: Draws) -> tuple[Any, Any]:
        return draws[0], xp.zeros(1)

    def observe(self, xp: Any, state: State) -> Any:
        angle = state["qpos"]
        return xp.concatenate([xp.cos(angle), xp.sin(angle), state["qvel"]], axis=1)

    def reward(self, xp: Any, before: State, action: Any, after: State, ended: Any) -> Any:
        return xp.where(xp.cos(after["qpos"][:, 0]) >= UPRIGHT_COSINE, 1.0, 0.0)


TASKS = [PendulumSwingup]
