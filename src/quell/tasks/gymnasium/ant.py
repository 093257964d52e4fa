"""Ant: a four-legged robot, walk forward without leaving a band of heights; Gymnasium's Ant.

v5 observes the contact forces and charges for them; v4 does neither.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from quell.tasks.base import State, within
from quell.tasks.gymnasium.base import GymnasiumTask

TORSO = 1


@dataclass(frozen=True, kw_only=True)
class Ant(GymnasiumTask):
    name: ClassVar[str] = "ant"
    summary: ClassVar[str] = "four-legged ant, walk forward (Gymnasium)"
    action_size: ClassVar[int] = 8
    can_terminate: ClassVar[bool] = True
    family: ClassVar[str] = "Ant"
    asset: ClassVar[str] = "ant.xml"
    frame_skip: ClassVar[int] = 5
    # Like Gymnasium, the reward reads the torso's position as the integrator last evaluated it, not qpos.
    fields: ClassVar[tuple[str, ...]] = ("qpos", "qvel", "xpos", "cfrc_ext")
    reset_noise: ClassVar[float] = 0.1
    normal_velocities: ClassVar[bool] = True

    @property
    def obs_size(self) -> int:
        return 105 if self.version == "v5" else 27

    @property
    def contact_forces(self) -> bool:
        return self.version == "v5"

    def observe(self, xp: Any, state: State) -> Any:
        parts = [state["qpos"][:, 2:], state["qvel"]]
        if self.version == "v5":
            parts.append(_contact_forces(xp, state)[:, 6:])  # the world body is left out
        return xp.concatenate(parts, axis=1)

    def reward(self, xp: Any, before: State, action: Any, after: State, ended: Any) -> Any:
        speed = (after["xpos"][:, TORSO, 0] - before["xpos"][:, TORSO, 0]) / 0.05
        gain = speed + self.bonus(xp, ended)
        cost = 0.5 * xp.square(action).sum(axis=1)
        if self.version == "v5":
            cost = cost + 5e-4 * xp.square(_contact_forces(xp, after)).sum(axis=1)
        return gain - cost

    def terminated(self, xp: Any, state: State) -> Any:
        qpos, qvel = state["qpos"], state["qvel"]
        finite = xp.isfinite(qpos).all(axis=1) & xp.isfinite(qvel).all(axis=1)
        return ~(finite & (qpos[:, 2] >= 0.2) & (qpos[:, 2] <= 1.0))


def _contact_forces(xp: Any, state: State) -> Any:
    """Clipped external force and torque on every body, flat: [m, 6 * bodies]."""
    forces = state["cfrc_ext"]
    return within(xp, forces, -1.0, 1.0).reshape(forces.shape[0], -1)


TASKS = [Ant]
