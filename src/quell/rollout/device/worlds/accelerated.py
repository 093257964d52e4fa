"""Environments of Brax and MuJoCo Playground: JAX already."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from quell.rollout.device.worlds import World
from quell.tasks.foreign.accelerated import AcceleratedTask, seen


class AcceleratedWorld(World):
    """Any number of episodes of an environment that maps over keys and states."""

    def __init__(self, task: AcceleratedTask) -> None:
        self.env, self.obs_size, self.action_size = task.env, task.obs_size, task.action_size
        self.horizon, self.can_terminate, self.bounds = task.horizon, True, task.bounds

    def reset(self, keys: Any) -> tuple[Any, Any]:
        # Their authors split keys of the older kind.
        state = jax.vmap(self.env.reset)(jax.vmap(jax.random.key_data)(keys))
        return state, self._observed(state)

    def step(self, state: Any, actions: Any, last: Any = False) -> tuple[Any, Any, Any, Any]:
        after = jax.vmap(self.env.step)(state, jnp.clip(actions, -1.0, 1.0))
        after = jax.tree.map(lambda new, old: jnp.asarray(new, old.dtype), after, state)
        return after, self._observed(after), after.reward, after.done > 0

    def _observed(self, state: Any) -> Any:
        return seen(state.obs).reshape(-1, self.obs_size).astype(np.float32)
