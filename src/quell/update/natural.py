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

from quell.policy.fisher import Metric, decomposed, factors, undecided
from quell.policy.network import Policy
from quell.registry import POSITIVE, SHARE
from quell.types import Array, Metrics, namespace
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
    traceable: ClassVar[bool] = True
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
        sums = factors(policy)(theta, np.zeros((0, policy.obs_size), np.float32))
        return {name: np.zeros(np.shape(value)) for name, value in sums.items()} | undecided(policy, self.damping)

    def metric(self, policy: Policy, state: dict[str, Array]) -> Metric:
        """What an estimate's noise is measured in, as far as earlier batches know it."""
        return Metric.from_arrays(policy, state, self.damping, state["count"] > 0)

    def step(self, theta: Array, gradient: Array, state: Any, context: Context) -> tuple[Array, Any, Metrics]:
        return self.along(theta, gradient, state, context, context.caution.share)

    def along(
        self, theta: Array, gradient: Array, state: Any, context: Context, share: Any
    ) -> tuple[Array, Any, Metrics]:
        """The step along a gradient, `share` of its usual length."""
        xp = namespace(theta)
        following = self.look(state, context) if context.looked is None else context.looked()
        direction = self.metric(context.policy, following).apply(gradient, -1)
        wanted = scheduled(self.kl, self.schedule, context.steps, context.budget) * share**2
        length = context.kl_length(direction)
        direction = xp.where(length == 0, 0.0, direction)  # nothing to go by
        first = xp.where(length > 0, xp.sqrt(2.0 * wanted) / xp.where(length > 0, length, 1.0), 0.0)
        size, moved, divergence, gains, shortened = self._searched(xp, theta, direction, first, wanted, context)
        refused = ~(_finite(xp, following) & xp.isfinite(length) & (divergence <= SLACK * wanted + ROUNDING))
        still = (length == 0) | ~gains
        facts = {
            "update/kl": xp.where(refused | still, 0.0, divergence),
            "learning_rate": xp.where(refused | still, 0.0, size),
            "update/shortened": shortened,
        }
        # Refused: no step, and nothing learned of the batch. The trainer sees a theta that is not finite and counts it.
        theta = xp.where(refused, xp.nan, xp.where(still, theta, moved)).astype(theta.dtype)
        return theta, {name: xp.where(refused, state[name], value) for name, value in following.items()}, facts

    def look(self, state: dict[str, Array], context: Context) -> dict[str, Array]:
        """The state with this batch's states, for which no gradient is needed."""
        assert context.states is not None
        xp = namespace(context.theta)
        fresh = _compiled_factors(context.policy)(context.theta, context.states)
        if xp is np:
            fresh = {name: np.asarray(value, np.float64) for name, value in fresh.items()}
        sums = {name: self.decay * state[name] + value for name, value in fresh.items()}
        return sums | decomposed(context.policy, sums)

    def _searched(
        self, xp: Any, theta: Array, direction: Array, first: Any, wanted: Any, context: Context
    ) -> tuple[Any, Array, Any, Any, Any]:
        """(size, theta + size direction, its divergence, whether it gains, how often the first size was shortened)."""

        def tried(size: Any, shortened: Any) -> tuple[Any, Array, Any, Any, Any]:
            moved = (theta + size * direction).astype(np.float32)
            return size, moved, context.kl(moved), context.gains(moved), shortened

        def going(found: Any) -> Any:
            *_, divergence, gains, shortened = found
            return ~((divergence <= SLACK * wanted) & gains) & (shortened < TRIES - 1)

        def shorter(found: Any) -> Any:
            return tried(found[0] * SHORTENED, found[-1] + 1)

        start = tried(first, xp.zeros(()))
        if xp is not np:
            import jax

            return jax.lax.while_loop(going, shorter, start)
        while going(start):
            start = shorter(start)
        return start


def _finite(xp: Any, state: dict[str, Array]) -> Any:
    """Whether no state was too large to square."""
    return xp.asarray([xp.isfinite(value).all() for value in state.values()]).all()


@functools.lru_cache(maxsize=8)
def _compiled_factors(policy: Policy) -> Callable[..., Any]:
    import jax
    import jax.numpy as jnp

    return jax.jit(lambda theta, obs: factors(policy)(theta, obs, xp=jnp))


STEPS = [Natural]
