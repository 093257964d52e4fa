"""Humanoid: walk forward without falling; Gymnasium's Humanoid.

v5 charges for contact forces and leaves out of the observation what is always zero (the world body, actuator
forces on the free joint); v4 observes all of it and charges nothing.
"""

from collections.abc import Mapping
from typing import Any

from quell.tasks.base import State
from quell.tasks.gymnasium.base import GymnasiumTask, by_version


class Humanoid(GymnasiumTask):
    name = "humanoid"
    summary = "humanoid, walk forward (Gymnasium)"
    obs_size, action_size = by_version(v5=348, v4=376), 17
    can_terminate, first_length = True, 20
    tuned: Mapping[str, Any] = {"policy.actions": "clip"}  # the cost of an action has no bound, its effect has
    asset = "humanoid.xml"
    frame_skip = 5
    fields = ("qpos", "qvel", "cinert", "cvel", "qfrc_actuator", "cfrc_ext", "subtree_com")
    contact_forces = True
    reset_noise = 0.01

    def observe(self, xp: Any, state: State) -> Any:
        body, joint = (1, 6) if self.version == "v5" else (0, 0)
        rows = state["qpos"].shape[0]
        inertia, velocity, force = (state[f][:, body:].reshape(rows, -1) for f in ("cinert", "cvel", "cfrc_ext"))
        joints = [state["qpos"][:, 2:], state["qvel"]]
        return xp.concatenate([*joints, inertia, velocity, state["qfrc_actuator"][:, joint:], force], axis=1)

    def reward(self, xp: Any, before: State, action: Any, after: State, ended: Any) -> Any:
        # The world's subtree is the whole robot: its centre of mass.
        speed = (after["subtree_com"][:, 0, 0] - before["subtree_com"][:, 0, 0]) / 0.015
        cost = 0.1 * xp.square(action).sum(axis=1)
        if self.version == "v5":
            forces = after["cfrc_ext"]
            contact = 5e-7 * xp.square(forces.reshape(forces.shape[0], -1)).sum(axis=1)
            cost = cost + xp.minimum(contact, 10.0)
        return 1.25 * speed + 5.0 * self.bonus(xp, ended) - cost

    def terminated(self, xp: Any, state: State) -> Any:
        height = state["qpos"][:, 2]
        return ~((height > 1.0) & (height < 2.0))


TASKS = [Humanoid]
