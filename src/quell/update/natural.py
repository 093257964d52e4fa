"""The natural step: up the gradient in the policy's own metric, as far as a KL divergence allows.

    theta <- theta + a (F + damping)^-1 g,    a such that KL(new, old) = kl on states of the batch

F is the policy's Fisher matrix in Kronecker factors (`quell.policy.fisher`), over the states of past batches and this
one. The length comes from the exact quadratic form on this batch's states, and is shortened until the divergence itself
is within half as much again. A step whose divergence is not a number, or never within that, is refused. Where the
estimator hands over a surrogate, it is shortened until that gains too, and not taken if no length does.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from quell.policy.fisher import Metric, factors
from quell.policy.network import Policy
from quell.registry import POSITIVE, SHARE
from quell.types import Array, Metrics
from quell.update import Context, Schedule, scheduled

SLACK = 1.5  # by which the divergence may exceed what was asked for
SHORTENED = 0.6  # at a time
TRIES = 12
ROUNDING = 1e-6  # of a divergence that is computed in single precision


@dataclass(frozen=True, kw_only=True)
class Natural:
    """A step of a given KL divergence along the natural gradient."""

    name: ClassVar[str] = "natural"
    states: ClassVar[int] = 256
    kl: Annotated[float, POSITIVE] = 0.03
    """KL divergence of a step."""
    schedule: Schedule = "constant"
    """How the divergence falls over the step budget."""
    damping: Annotated[float, POSITIVE] = 0.01
    """Added to every eigenvalue of the Fisher matrix."""
    decay: Annotated[float, SHARE] = 0.9
    """How much of the past batches' Fisher matrix survives a batch."""

    def memory(self, policy: Policy, horizon: int) -> int:
        """Bytes, at least: the factors of every layer, those of past batches, this one's, their sum and its roots."""
        return 32 * sum((inputs + 1) ** 2 + outputs**2 for inputs, outputs in policy.layers)

    def init(self, policy: Policy, theta: Array) -> dict[str, Array]:
        nobody = np.zeros((0, policy.obs_size), np.float32)
        sums = factors(policy)(theta, nobody)
        return {name: np.zeros(np.shape(value)) for name, value in sums.items()}

    def metric(self, policy: Policy, state: dict[str, Array]) -> Metric | None:
        """What an estimate's noise is measured in, as far as earlier batches know it."""
        return _latest.of(policy, state, self.damping) if state["count"] > 0 else None

    def step(self, theta: Array, gradient: Array, state: Any, context: Context) -> tuple[Array, Any, Metrics]:
        policy, states = context.policy, context.states
        assert states is not None
        fresh = _compiled_factors(policy)(context.theta, states)
        following = {name: self.decay * state[name] + np.asarray(fresh[name], np.float64) for name in state}
        try:
            direction = _latest.of(policy, following, self.damping).apply(gradient, -1)
        except np.linalg.LinAlgError:  # states too large to square: no metric
            return _refused(theta, state)
        wanted = scheduled(self.kl, self.schedule, context.steps, context.budget)
        length = context.kl_length(direction)
        if not np.isfinite(length):
            return _refused(theta, state)
        if length == 0:
            return theta, following, {"update/kl": 0.0}
        size, shortened = np.sqrt(2 * wanted) / length, 0
        while True:
            moved = (theta + size * direction).astype(np.float32)
            divergence = context.kl(moved)
            gains = context.surrogate is None or context.surrogate(moved) > 0
            if (divergence <= SLACK * wanted and gains) or shortened == TRIES - 1:
                break
            size, shortened = size * SHORTENED, shortened + 1
        if not divergence <= SLACK * wanted + ROUNDING:
            return _refused(theta, state)
        facts = {"update/kl": divergence, "learning_rate": float(size), "update/shortened": float(shortened)}
        if not gains:
            return theta, following, {**facts, "update/kl": 0.0, "learning_rate": 0.0}
        return moved, following, facts


def _refused(theta: Array, state: dict[str, Array]) -> tuple[Array, dict[str, Array], Metrics]:
    """No step, and nothing learned of the batch: the trainer sees that theta is not finite, skips it and counts it."""
    return np.full_like(theta, np.nan), state, {"update/kl": 0.0}


@functools.lru_cache(maxsize=8)
def _compiled_factors(policy: Policy) -> Callable[..., Any]:
    import jax
    import jax.numpy as jnp

    return jax.jit(lambda theta, obs: factors(policy)(theta, obs, xp=jnp))


class _Latest:
    """The metric made last: a step makes it, and the next batch's estimate asks for the same."""

    state: Any = None
    metric: Metric

    def of(self, policy: Policy, state: dict[str, Array], damping: float) -> Metric:
        if self.state is not state or self.metric.damping != damping:
            self.state, self.metric = state, Metric.of(policy, state, damping)
        return self.metric


_latest = _Latest()
STEPS = [Natural]
