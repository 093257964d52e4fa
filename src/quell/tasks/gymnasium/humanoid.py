"""Humanoid: walk forward without falling; Gymnasium's Humanoid.

v5 charges for contact forces and leaves out of the observation what is always zero (the world body, actuator
forces on the free joint); v4 observes all of it and charges nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from quell.tasks.base import State
from quell.tasks.gymnasium.base import GymnasiumTask

FIELDS = ("qpos", "qvel", "cinert", "cvel", "qfrc_actuator", "cfrc_ext", "subtree_com")


@dataclass(frozen=True, kw_only=True)
class Humanoid(GymnasiumTask):
    name: ClassVar[str] = "humanoid"
    summary: ClassVar[str] = "humanoid, walk forward (Gymnasium)"
    action_size: ClassVar[int] = 17
    can_terminate: ClassVar[bool] = True
    family: ClassVar[str] = "Humanoid"
    asset: ClassVar[str] = "humanoid.xml"
    frame_skip: ClassVar[int] = 5
    fields: ClassVar[tuple[str, ...]] = FIELDS
    contact_forces: ClassVar[bool] = True
    reset_noise: ClassVar[float] = 0.01

    @property
    def obs_size(self) -> int:
        return 348 if self.version == "v5" else 376

    def observe(self, xp: Any, state: State) -> Any:
        body, joint = (1, 6) if self.version == "v5" else (0, 0)
        rows = state["qpos"].shape[0]
        return xp.concatenate(
            [
                state["qpos"][:, 2:],
                state["qvel"],
                state["cinert"][:, body:].reshape(rows, -1),
                state["cvel"][:, body:].reshape(rows, -1),
                state["qfrc_actuator"][:, joint:],
                state["cfrc_ext"][:, body:].reshape(rows, -1),
            ],
            axis=1,
        )

    def reward(self, xp: Any, before: State, action: Any, after: State, ended: Any) -> Any:
        # The world's subtree is the whole robot: its centre of mass.
        speed = (after["subtree_com"][:, 0, 0] - before["subtree_com"][:, 0, 0]) / 0.015
        gain = 1.25 * speed + 5.0 * self.bonus(xp, ended)
        cost = 0.1 * xp.square(action).sum(axis=1)
        if self.version == "v5":
            forces = after["cfrc_ext"]
            contact = 5e-7 * xp.square(forces.reshape(forces.shape[0], -1)).sum(axis=1)
            cost = cost + xp.minimum(contact, 10.0)
        return gain - cost

    def terminated(self, xp: Any, state: State) -> Any:
        height = state["qpos"][:, 2]
        return ~((height > 1.0) & (height < 2.0))


TASKS = [Humanoid]
