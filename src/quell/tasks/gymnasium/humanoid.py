"""Walk forward in space without falling, on four legs or on two; Gymnasium's Ant and Humanoid.

v5 charges for contact forces; v4 charges nothing. The ant observes them in v5 only. The humanoid observes them in both,
but v5 leaves out what is always zero (the world body, actuator forces on the free joint).
"""

from typing import Any

from quell.tasks.base import State, within
from quell.tasks.gymnasium.base import GymnasiumTask, by_version

TORSO = 1


class Ant(GymnasiumTask):
    name = "ant"
    summary = "four-legged ant, walk forward (Gymnasium)"
    obs_size, action_size = by_version(v5=105, v4=27), 8
    can_terminate = True
    asset, frame_skip = "ant.xml", 5
    # Like Gymnasium, the reward reads the torso's position as the integrator last evaluated it, not qpos.
    fields = ("qpos", "qvel", "xpos", "cfrc_ext")
    contact_forces = by_version(v5=True, v4=False)
    reset_noise, normal_velocities = 0.1, True

    def observe(self, xp: Any, state: State) -> Any:
        parts = [state["qpos"][:, 2:], state["qvel"]]
        if self.version == "v5":
            parts.append(_clipped_forces(xp, state)[:, 6:])  # the world body is left out
        return xp.concatenate(parts, axis=1)

    def reward(self, xp: Any, before: State, action: Any, after: State, ended: Any) -> Any:
        speed = (after["xpos"][:, TORSO, 0] - before["xpos"][:, TORSO, 0]) / (0.05 * self.pace)
        cost = 0.5 * xp.square(action).sum(axis=1)
        if self.version == "v5":
            cost = cost + 5e-4 * xp.square(_clipped_forces(xp, after)).sum(axis=1)
        return speed + self.bonus(xp, ended) - cost

    def terminated(self, xp: Any, state: State) -> Any:
        qpos, qvel = state["qpos"], state["qvel"]
        finite = xp.isfinite(qpos).all(axis=1) & xp.isfinite(qvel).all(axis=1)
        return ~(finite & (qpos[:, 2] >= 0.2) & (qpos[:, 2] <= 1.0))


def _clipped_forces(xp: Any, state: State) -> Any:
    """External force and torque on every body, flat: [m, 6 * bodies]."""
    forces = state["cfrc_ext"]
    return within(xp, forces, -1.0, 1.0).reshape(forces.shape[0], -1)


class Humanoid(GymnasiumTask):
    name = "humanoid"
    summary = "humanoid, walk forward (Gymnasium)"
    obs_size, action_size = by_version(v5=348, v4=376), 17
    can_terminate, first_length = True, 20
    asset, frame_skip = "humanoid.xml", 5
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
        speed = (after["subtree_com"][:, 0, 0] - before["subtree_com"][:, 0, 0]) / (0.015 * self.pace)
        cost = 0.1 * xp.square(action).sum(axis=1)
        if self.version == "v5":
            forces = after["cfrc_ext"].reshape(len(cost), -1)
            cost = cost + xp.minimum(5e-7 * xp.square(forces).sum(axis=1), 10.0)
        return 1.25 * speed + 5.0 * self.bonus(xp, ended) - cost

    def terminated(self, xp: Any, state: State) -> Any:
        height = state["qpos"][:, 2]
        return ~((height > 1.0) & (height < 2.0))


TASKS = [Ant, Humanoid]
