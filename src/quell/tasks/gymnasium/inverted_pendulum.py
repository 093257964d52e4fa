"""Keep one pole, or two end to end, upright on a cart; Gymnasium's Inverted(Double)Pendulum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from quell.tasks.base import State, within
from quell.tasks.gymnasium.base import GymnasiumTask


@dataclass(frozen=True, kw_only=True)
class InvertedPendulum(GymnasiumTask):
    name: ClassVar[str] = "inverted-pendulum"
    summary: ClassVar[str] = "keep a pole upright on a cart (Gymnasium)"
    obs_size: ClassVar[int] = 4
    action_size: ClassVar[int] = 1
    can_terminate: ClassVar[bool] = True
    family: ClassVar[str] = "InvertedPendulum"
    asset: ClassVar[str] = "inverted_pendulum.xml"
    frame_skip: ClassVar[int] = 2
    reset_noise: ClassVar[float] = 0.01

    def observe(self, xp: Any, state: State) -> Any:
        return xp.concatenate([state["qpos"], state["qvel"]], axis=1)

    def reward(self, xp: Any, before: State, action: Any, after: State, ended: Any) -> Any:
        return self.bonus(xp, ended)

    def terminated(self, xp: Any, state: State) -> Any:
        finite = xp.isfinite(self.observe(xp, state)).all(axis=1)
        return ~(finite & (xp.abs(state["qpos"][:, 1]) <= 0.2))


@dataclass(frozen=True, kw_only=True)
class InvertedDoublePendulum(GymnasiumTask):
    """v5 observes one constraint force, the only one that can be non-zero; v4 observes all three."""

    name: ClassVar[str] = "inverted-double-pendulum"
    summary: ClassVar[str] = "keep two poles upright on a cart (Gymnasium)"
    action_size: ClassVar[int] = 1
    can_terminate: ClassVar[bool] = True
    family: ClassVar[str] = "InvertedDoublePendulum"
    asset: ClassVar[str] = "inverted_double_pendulum.xml"
    frame_skip: ClassVar[int] = 5
    fields: ClassVar[tuple[str, ...]] = ("qpos", "qvel", "qfrc_constraint", "site_xpos")
    reset_noise: ClassVar[float] = 0.1
    normal_velocities: ClassVar[bool] = True

    @property
    def obs_size(self) -> int:
        return 9 if self.version == "v5" else 11

    def observe(self, xp: Any, state: State) -> Any:
        cart, angles = state["qpos"][:, :1], state["qpos"][:, 1:]
        forces = state["qfrc_constraint"][:, : 1 if self.version == "v5" else 3]
        limited = [within(xp, state["qvel"], -10, 10), within(xp, forces, -10, 10)]
        return xp.concatenate([cart, xp.sin(angles), xp.cos(angles), *limited], axis=1)

    def reward(self, xp: Any, before: State, action: Any, after: State, ended: Any) -> Any:
        tip, speeds = after["site_xpos"][:, 0], after["qvel"]
        distance = 0.01 * xp.square(tip[:, 0]) + xp.square(tip[:, 2] - 2)
        velocity = 1e-3 * xp.square(speeds[:, 1]) + 5e-3 * xp.square(speeds[:, 2])
        return 10 * self.bonus(xp, ended) - distance - velocity

    def terminated(self, xp: Any, state: State) -> Any:
        return state["site_xpos"][:, 0, 2] <= 1


TASKS = [InvertedPendulum, InvertedDoublePendulum]
