"""dm-cheetah-run: a planar cheetah rewarded for its forward speed up to 10 m/s; the Control Suite's task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from quell.tasks._control_suite import ControlSuiteTask, rise, step_in_sync
from quell.tasks.base import State

SETTLING_STEPS = 200


@dataclass(frozen=True, kw_only=True)
class CheetahRun(ControlSuiteTask):
    name: ClassVar[str] = "dm-cheetah-run"
    summary: ClassVar[str] = "planar cheetah, run at 10 m/s (Control Suite)"
    obs_size: ClassVar[int] = 17
    action_size: ClassVar[int] = 6
    domain: ClassVar[str] = "cheetah"
    frame_skip: ClassVar[int] = 1
    fields: ClassVar[tuple[str, ...]] = ("qpos", "qvel", "sensordata")

    def reset(self, model: Any, data: Any, rng: np.random.Generator) -> None:
        """Random joint angles, then two seconds of passive falling."""
        # The suite's first settling step still uses what was computed for the *default* pose; so do we.
        self.forward(model, data)
        limited = model.jnt_limited == 1
        low, high = model.jnt_range[limited].T
        data.qpos[limited] = rng.uniform(low, high)
        step_in_sync(model, data, SETTLING_STEPS)
        data.time = 0

    def advance(self, model: Any, data: Any) -> None:
        step_in_sync(model, data, self.frame_skip)

    def observe(self, xp: Any, state: State) -> Any:
        return xp.concatenate([state["qpos"][:, 1:], state["qvel"]], axis=1)

    def reward(self, xp: Any, before: State, action: Any, after: State, ended: Any) -> Any:
        forward_speed = after["sensordata"][:, 0]  # of the whole body's centre of mass
        return rise(xp, forward_speed, target=10, margin=10)


TASKS = [CheetahRun]
