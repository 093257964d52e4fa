"""A swimmer of three links, a planar cheetah: move forward; Gymnasium's Swimmer and HalfCheetah, alike in v4 and v5."""

from typing import Any

from quell.tasks.base import State
from quell.tasks.gymnasium.base import GymnasiumTask


class Swimmer(GymnasiumTask):
    name = "swimmer"
    summary = "three-link swimmer, swim forward (Gymnasium)"
    obs_size, action_size = 8, 2
    asset, frame_skip = "swimmer.xml", 4
    reset_noise = 0.1
    unseen, seconds, cost = 2, 0.04, 1e-4  # coordinates that tell where it is; of a step; of an action's square

    def observe(self, xp: Any, state: State) -> Any:
        return xp.concatenate([state["qpos"][:, self.unseen :], state["qvel"]], axis=1)

    def reward(self, xp: Any, before: State, action: Any, after: State, ended: Any) -> Any:
        speed = (after["qpos"][:, 0] - before["qpos"][:, 0]) / (self.seconds * self.pace)
        return speed - self.cost * xp.square(action).sum(axis=1)


class HalfCheetah(Swimmer):
    """Observed and rewarded as the swimmer is."""

    name = "halfcheetah"
    summary = "planar cheetah, run forward (Gymnasium)"
    obs_size, action_size = 17, 6
    asset, frame_skip = "half_cheetah.xml", 5
    normal_velocities = True
    unseen, seconds, cost = 1, 0.05, 0.1


TASKS = [Swimmer, HalfCheetah]
