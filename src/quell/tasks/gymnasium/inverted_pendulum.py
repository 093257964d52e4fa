"""Keep one pole, or two end to end, upright on a cart; Gymnasium's Inverted(Double)Pendulum."""

from typing import Any

from quell.tasks.base import State, within
from quell.tasks.gymnasium.base import GymnasiumTask, by_version


class InvertedPendulum(GymnasiumTask):
    name = "inverted-pendulum"
    summary = "keep a pole upright on a cart (Gymnasium)"
    obs_size, action_size = 4, 1
    can_terminate, first_length = True, 20
    asset, frame_skip = "inverted_pendulum.xml", 2
    reset_noise = 0.01

    def observe(self, xp: Any, state: State) -> Any:
        return xp.concatenate([state["qpos"], state["qvel"]], axis=1)

    def reward(self, xp: Any, before: State, action: Any, after: State, ended: Any) -> Any:
        return self.bonus(xp, ended)

    def terminated(self, xp: Any, state: State) -> Any:
        finite = xp.isfinite(self.observe(xp, state)).all(axis=1)
        return ~(finite & (xp.abs(state["qpos"][:, 1]) <= 0.2))


class InvertedDoublePendulum(GymnasiumTask):
    """v5 observes one constraint force, the only one that can be non-zero; v4 observes all three."""

    name = "inverted-double-pendulum"
    summary = "keep two poles upright on a cart (Gymnasium)"
    obs_size, action_size = by_version(v5=9, v4=11), 1
    can_terminate, first_length = True, 20
    asset, frame_skip = "inverted_double_pendulum.xml", 5
    fields = ("qpos", "qvel", "qfrc_constraint", "site_xpos")
    reset_noise, normal_velocities = 0.1, True

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
