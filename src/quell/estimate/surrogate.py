"""PPO and TRPO: gradients of a surrogate objective at theta, from episodes of an older policy.

    ratio_t = pi_theta(a_t | s_t) / pi_old(a_t | s_t),   A_t = G_t - b_t
    PPO:   mean_t min(ratio_t A_t, clip(ratio_t, 1 - eps, 1 + eps) A_t)
    TRPO:  mean_t (ratio_t A_t - penalty * KL(pi_theta(. | s_t) || pi_old(. | s_t)))

The mean is over all real steps of the batch. The paper prints PPO without the min and gives the losses with opposite
sign. On the first update theta equals old, so clipping and the penalty act only with several updates per batch (+M).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from quell.estimate import Estimate, State
from quell.estimate.policy_gradient import Advantages, Baseline, advantages, padded_length
from quell.policy import Policy
from quell.reduce import Sums, accumulate
from quell.returns import alive
from quell.scores import kl, log_prob
from quell.types import Batch

Array = NDArray[Any]


@dataclass(frozen=True)
class Prepared:
    found: Advantages
    values: Array  # [2N, t] scaled advantages
    mask: Array  # [2N, t] real steps
    steps: float  # their number


@dataclass(frozen=True)
class Surrogate:
    """PPO's clipped or TRPO's penalised surrogate on 2N full episodes."""

    policy: Policy
    kind: Literal["ppo", "trpo"]
    gamma: float = 0.99
    baseline: Baseline = "none"
    clip: float = 0.2
    penalty: float = 0.1
    normalise_advantages: bool = False
    updates: int = 1
    perturbs = False
    records = True

    def init(self) -> State:
        return {}

    def prepare(self, batch: Batch, state: State) -> Prepared:
        found = advantages(batch, [self.gamma], self.baseline)
        values = found.values[0]
        mask = alive(batch.rollouts.steps, values.shape[1]) & np.repeat(found.good, 2)[:, None]
        real = values[mask]
        if self.normalise_advantages and len(real):
            values = values - real.mean()
        spread = real.std() if len(real) else 0.0
        # Without advantage normalisation they are still brought to unit scale, which Adam would do anyway.
        values = values / spread if spread > 0 else np.zeros_like(values)
        return Prepared(found, np.where(mask, values, 0.0), mask, float(mask.sum()))

    def contribution(self, batch: Batch, prepared: Prepared, pairs: Iterable[int], theta: Array) -> Sums:
        trajectories = batch.rollouts.trajectories
        assert trajectories is not None, "this estimator needs recorded trajectories"
        sums: Sums = {"g": np.zeros(len(theta)), "kl": np.zeros(())}
        gradient = _gradient(self.policy, self.kind, self.clip, self.penalty)
        for pair in pairs:
            if not prepared.found.good[pair]:
                continue
            rows = slice(2 * pair, 2 * pair + 2)
            length = padded_length(int(batch.rollouts.steps[rows].max()), trajectories.obs.shape[1])
            divergence, g = gradient(
                theta,
                batch.theta,
                trajectories.obs[rows, :length],
                trajectories.actions[rows, :length],
                prepared.values[rows, :length].astype(np.float32),
                prepared.mask[rows, :length].astype(np.float32),
            )
            accumulate(sums, g=np.asarray(g), kl=np.asarray(divergence))
        return sums

    def combine(self, sums: Sums, prepared: Prepared, state: State) -> Estimate:
        steps = max(prepared.steps, 1)
        return Estimate((sums["g"] / steps).astype(np.float32), state, {"pg/kl": float(sums["kl"] / steps)})


@functools.lru_cache(maxsize=32)
def _gradient(policy: Policy, kind: str, clip: float, penalty: float) -> Callable[..., Any]:
    """Compiled (KL, gradient) of the surrogate summed over real steps."""

    def objective(
        theta: jax.Array,
        old: jax.Array,
        obs: jax.Array,
        actions: jax.Array,
        values: jax.Array,
        mask: jax.Array,
    ) -> tuple[jax.Array, jax.Array]:
        ratio = jnp.exp(log_prob(policy, theta, obs, actions) - log_prob(policy, old, obs, actions))
        divergence = kl(policy, theta, old, obs) * mask
        if kind == "ppo":
            gain = jnp.minimum(ratio * values, jnp.clip(ratio, 1 - clip, 1 + clip) * values)
        else:
            gain = ratio * values - penalty * divergence
        return (gain * mask).sum(), divergence.sum()

    def value_and_gradient(*args: jax.Array) -> tuple[jax.Array, jax.Array]:
        (_, divergence), gradient = jax.value_and_grad(objective, has_aux=True)(*args)
        return divergence, gradient

    return jax.jit(value_and_gradient)
