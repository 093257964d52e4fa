"""Ant: walk forward within a band of heights; Gymnasium's Ant. Only v5 observes contact forces, and charges."""

from collections.abc import Mapping
from typing import Any

from quell.tasks.base import State, within
from quell.tasks.gymnasium.base import GymnasiumTask, by_version

TORSO = 1


class Ant(GymnasiumTask):
    name = "ant"
    summary = "four-legged ant, walk forward (Gymnasium)"
    obs_size, action_size = by_version(v5=105, v4=27), 8
    can_terminate = True
    tuned: Mapping[str, Any] = {"policy.actions": "clip"}  # the cost of an action has no bound, its effect has
    asset = "ant.xml"
    frame_skip = 5
    # Like Gymnasium, the reward reads the torso's position as the integrator last evaluated it, not qpos.
    fields = ("qpos", "qvel", "xpos", "cfrc_ext")
    contact_forces = by_version(v5=True, v4=False)
    reset_noise = 0.1
    normal_velocities = True

    def observe(self, xp: Any, state: State) -> Any:
        parts = [state["qpos"][:, 2:], state["qvel"]]
        if self.version == "v5":
            parts.append(_contact_forces(xp, state)[:, 6:])  # the world body is left out
        return xp.concatenate(parts, axis=1)

    def reward(self, xp: Any, before: State, action: Any, after: State, ended: Any) -> Any:
        speed = (after["xpos"][:, TORSO, 0] - before["xpos"][:, TORSO, 0]) / 0.05
        cost = 0.5 * xp.square(action).sum(axis=1)
        if self.version == "v5":
            cost = cost + 5e-4 * xp.square(_contact_forces(xp, after)).sum(axis=1)
        return speed + self.bonus(xp, ended) - cost

    def terminated(self, xp: Any, state: State) -> Any:
        qpos, qvel = state["qpos"], state["qvel"]
        finite = xp.isfinite(qpos).all(axis=1) & xp.isfinite(qvel).all(axis=1)
        return ~(finite & (qpos[:, 2] >= 0.2) & (qpos[:, 2] <= 1.0))


def _contact_forces(xp: Any, state: State) -> Any:
    """Clipped external force and torque on every body, flat: [m, 6 * bodies]."""
    forces = state["cfrc_ext"]
    return within(xp, forces, -1.0, 1.0).reshape(forces.shape[0], -1)


TASKS = [Ant]
