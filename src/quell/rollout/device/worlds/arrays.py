"""Tasks that are all arrays (lqr, roboschool-pong), on an accelerator: the same functions, over jax.numpy."""

from typing import Any

import jax
import jax.numpy as jnp

from quell.keys import Traced
from quell.rollout.device.worlds import World
from quell.tasks.arrays import ArrayTask


class ArrayWorld(World):
    """Any number of episodes of an ArrayTask."""

    def __init__(self, task: ArrayTask) -> None:
        self.task = task
        self.obs_size, self.action_size, self.horizon = task.obs_size, task.action_size, task.horizon
        self.can_terminate, self.bounds = task.can_terminate, task.bounds

    def reset(self, keys: Any) -> tuple[Any, Any]:
        state, obs = self.task.initial(jnp, jax.vmap(lambda key: self.task.draw(Traced(key)))(keys))  # type: ignore[arg-type]
        return jax.tree.map(jnp.asarray, dict(state)), obs

    def step(self, state: Any, actions: Any, last: Any = False) -> tuple[Any, Any, Any, Any]:
        following, obs, rewards = self.task.step(jnp, state, actions)
        following = {name: jnp.asarray(following[name], array.dtype) for name, array in state.items()}
        return following, obs, rewards, jnp.zeros(len(obs), bool)
