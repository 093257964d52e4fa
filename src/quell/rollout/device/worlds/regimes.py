"""Tasks under other conditions, on an accelerator: any world with later rewards, and hidden or noisy observations.

What `quell.tasks.regimes` says of them holds here too. The noise has its address in the episode's own key: another one
at every step, and the same for both members of a pair that share their reset.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from quell.keys import Purpose, Traced, at
from quell.rollout.device.worlds import World
from quell.tasks.regimes import Regime


class _Episodes(NamedTuple):
    """The inner world's, and what it takes to pay and to observe them."""

    inner: Any
    owed: Any  # [m] rewards that were earned and not paid yet
    time: Any  # [m] steps
    keys: Any  # [m] of the episodes


class RegimeWorld(World):
    """Any number of episodes of another world."""

    def __init__(self, task: Regime, inner: World) -> None:
        self.task, self.inner = task, inner
        self.obs_size, self.action_size, self.horizon = task.obs_size, inner.action_size, inner.horizon
        self.can_terminate, self.bounds = inner.can_terminate, inner.bounds

    def reset(self, keys: Any) -> tuple[Any, Any]:
        state, obs = self.inner.reset(keys)
        nothing = jnp.zeros(len(obs))
        start = _Episodes(state, nothing, nothing.astype(np.int32), keys)
        return start, self._observed(start, obs)

    def step(self, state: Any, actions: Any, last: Any = False) -> tuple[Any, Any, Any, Any]:
        inner, obs, rewards, ended = self.inner.step(state.inner, actions, last)
        time, owed = state.time + 1, state.owed + rewards
        due = ended | last
        if self.task.delay:
            due |= time % self.task.delay == 0
        after = _Episodes(inner, jnp.where(due, 0.0, owed), time, state.keys)
        return after, self._observed(after, obs), jnp.where(due, owed, 0.0), ended

    def trouble(self, state: Any) -> dict[str, Any]:
        return self.inner.trouble(state.inner)

    def _observed(self, state: _Episodes, obs: Any) -> Any:
        if self.task.hide:
            obs = obs[:, self.task.seen]
        return obs + self.task.obs_noise * self._noise(state) if self.task.obs_noise else obs

    def _noise(self, state: _Episodes) -> Any:
        def one(key: Any, time: Any) -> Any:
            return Traced(at(key, Purpose.OBSERVATION, time)).standard_normal(self.obs_size)

        return jax.vmap(one)(state.keys, state.time)
