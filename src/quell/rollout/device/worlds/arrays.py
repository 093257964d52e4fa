"""Tasks that are all arrays (lqr, roboschool-pong), on an accelerator: the same functions, over jax.numpy."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from quell.rollout.device.worlds import World
from quell.tasks.arrays import ArrayTask


class ArrayWorld(World):
    """Any number of episodes of an ArrayTask."""

    def __init__(self, task: ArrayTask) -> None:
        self.task = task
        self.obs_size, self.action_size, self.horizon = task.obs_size, task.action_size, task.horizon
        self.can_terminate, self.bounds = task.can_terminate, task.bounds

    def reset(self, keys: Any) -> tuple[Any, Any]:
        state, obs = self.task.initial(jnp, jax.vmap(lambda key: self.task.draw(Drawn(key)))(keys))  # type: ignore[arg-type]
        return jax.tree.map(jnp.asarray, dict(state)), obs

    def step(self, state: Any, actions: Any) -> tuple[Any, Any, Any, Any]:
        state, obs, rewards = self.task.step(jnp, state, actions)
        return state, obs, rewards, jnp.zeros(len(obs), bool)

    def trouble(self, state: Any) -> dict[str, Any]:
        return {}


class Drawn:
    """What tasks ask of a numpy.random.Generator, from a JAX key: other numbers of the same distributions."""

    def __init__(self, key: Any) -> None:
        self._key = key

    def _next(self) -> Any:
        self._key, key = jax.random.split(self._key)
        return key

    def standard_normal(self, size: Any = None) -> Any:
        return jax.random.normal(self._next(), _shape(size))

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        low, high = np.asarray(low, np.float32), np.asarray(high, np.float32)
        shape = np.broadcast_shapes(low.shape, high.shape) if size is None else _shape(size)
        return low + (high - low) * jax.random.uniform(self._next(), shape)


def _shape(size: Any) -> tuple[int, ...]:
    return () if size is None else (size,) if np.ndim(size) == 0 else tuple(size)
