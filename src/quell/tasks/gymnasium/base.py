"""What Gymnasium's MuJoCo tasks share: the model file, reset noise around the model's pose, and a version."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from quell.tasks.base import Draws, MujocoTask, folder_of


@dataclass(frozen=True, kw_only=True)
class GymnasiumTask(MujocoTask):
    """A task of Gymnasium's MuJoCo family; its class is called as Gymnasium calls it, without the version.

    `version` picks which of Gymnasium's definitions to follow. v5 is the default because it is the one Gymnasium
    maintains, and because v4 still pays for being upright on the very step that falls and, in Walker2d, gives the two
    feet different friction. v4 keeps the semantics of older published scores.
    """

    version: Literal["v5", "v4"] = "v5"

    asset: ClassVar[str]  # name of the model file
    reset_noise: ClassVar[float]  # half-width of the uniform noise added to the initial positions
    normal_velocities = False
    """Whether initial velocities are normal with std `reset_noise`, or uniform like the positions."""

    def model(self) -> Any:
        from quell.tasks.mujoco import load_model

        return load_model(str(folder_of("gymnasium") / "envs/mujoco/assets" / self.asset))

    @property
    def original(self) -> str:
        return f"gymnasium:{type(self).__name__}-{self.version}"

    def draw(self, model: Any, rng: np.random.Generator) -> Draws:
        noise = self.reset_noise
        positions = rng.uniform(-noise, noise, model.nq)
        if self.normal_velocities:
            return positions, noise * rng.standard_normal(model.nv)
        return positions, rng.uniform(-noise, noise, model.nv)

    def initial(self, xp: Any, model: Any, draws: Draws) -> tuple[Any, Any]:
        return model.qpos0 + draws[0], draws[1]

    def bonus(self, xp: Any, fallen: Any) -> Any:
        """1 while upright; v4 pays it on the step that falls as well."""
        return xp.ones_like(fallen, dtype=float) if self.version == "v4" else 1.0 - fallen


def by_version(v5: Any, v4: Any) -> Any:
    """A fact that differs between Gymnasium's versions."""
    return property(lambda task: v5 if task.version == "v5" else v4)
