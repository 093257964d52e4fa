"""Steps: how theta is updated from a gradient.

A step is a frozen dataclass in a file that ends in `STEPS = [...]`. Through `context` it can use states that the policy
visited, and on them the KL divergence and products with the Fisher matrix.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

from quell.policy.fisher import Metric
from quell.policy.network import Policy
from quell.registry import is_own
from quell.types import NO_CAUTION, Array, Caution, Metrics, namespace, restored

STATES = 1024
"""Of a batch, that a step may look at."""


@dataclass(frozen=True)
class Context:
    """What a step may use."""

    policy: Policy
    steps: int
    """Environment steps so far."""
    budget: int
    """Environment steps of the whole run."""
    theta: Array
    """The parameters that the batch was played with."""
    states: Array | None = None
    """Observations [n, o] of the batch as the policy saw them, where the step asked for some."""
    caution: Caution = NO_CAUTION
    looked: Callable[[], Any] | None = None
    """What a step's `look(state, context)` returned, where it has one: that goes on while the gradient is estimated."""

    def kl(self, theta: Array) -> Any:
        """Mean KL(pi_theta || pi_batch) over the states."""
        from quell.policy.likelihood import mean_kl

        found = mean_kl(self.policy)(theta, self.theta, self.states)
        return np.asarray(found, np.float64) if namespace(theta) is np else found

    def gains(self, theta: Array) -> Any:
        """Whether theta would earn more, estimated from the batch; true if the estimator has no such estimate."""
        xp = namespace(theta)
        gain = self.caution.surrogate
        return xp.asarray(True) if gain is None else xp.asarray(gain(theta)) > 0

    def kl_length(self, direction: Array) -> Any:
        """sqrt(2 KL) of a small step along `direction`, per unit of it: |A direction| with A'A = F; 0 for none."""
        from quell.policy.likelihood import policy_change

        xp = namespace(direction)
        norm = xp.linalg.norm(direction)
        sound = (norm > 0) & xp.isfinite(norm)
        unit = xp.where(sound, direction / xp.where(sound, norm, 1.0), 0.0).astype(np.float32)[None]
        moved = policy_change(self.policy)(self.theta, self.states, unit)
        moved = np.asarray(moved, np.float64) if xp is np else moved
        return xp.where(sound, xp.linalg.norm(moved) * norm, 0.0)

    def fisher_product(self, vector: Array) -> Array:
        """F v, with F = E_s[grad log pi grad log pi'] over the states at the batch's theta."""
        from quell.policy.likelihood import fisher_product

        return np.asarray(fisher_product(self.policy)(self.theta, self.states, np.asarray(vector, np.float32)))


class Step(Protocol):
    """One rule; its fields are its settings.

    It may have `look(state, context)` for what it computes from a batch's states alone. This is called in a separate
    thread while the gradient is estimated, and `context.looked()` returns its result.
    """

    @property
    def states(self) -> int:
        """How many states of each episode it uses."""
        return 0

    def init(self, policy: Policy, theta: Array) -> Any:
        """Its state before the first step: any tree of arrays."""

    @property
    def traceable(self) -> bool:
        """Whether `metric` and `step` run on JAX arrays too, inside a compiled program."""
        return False

    def metric(self, policy: Policy, state: Any) -> Metric | None:
        """What the noise of a gradient should be measured in for this step; None for the parameters themselves."""
        return None

    def step(self, theta: Array, gradient: Array, state: Any, context: Context) -> tuple[Array, Any, Metrics]:
        """The next theta and state, and what is worth knowing of the step."""


Schedule = Literal["constant", "linear"]


def scheduled(rate: float, schedule: Schedule, steps: Any, budget: int) -> Any:
    """How a rate falls over the budget: what it is after `steps` environment steps, in single precision as in optax."""
    if schedule == "constant":
        return float(rate)
    if not isinstance(steps, int):
        xp = namespace(steps)
        return rate * (1 - xp.clip(steps, 0, budget) / budget)
    past = np.float32(min(max(steps, 0), budget)) / np.float32(budget)
    return float(np.float32(rate) * (np.float32(1) - past))


def to_arrays(state: Any) -> dict[str, Array]:
    """A step's state by position, for a checkpoint."""
    import jax

    return {f"optimiser.{i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(state))}


def is_finite(xp: Any, state: Any) -> Any:
    """Whether no number of a step's state has overflowed: one that has never comes back."""
    import jax

    return xp.asarray([xp.isfinite(xp.asarray(leaf)).all() for leaf in jax.tree.leaves(state)] or [True]).all()


def where(condition: Any, fresh: Any, kept: Any) -> Any:
    """One of two trees of arrays, inside a compiled program."""
    import jax
    import jax.numpy as jnp

    return jax.tree.map(lambda one, other: jnp.where(condition, one, other), fresh, kept)


def from_arrays(step: Step, policy: Policy, theta: Array, arrays: dict[str, Array]) -> Any:
    """The state a checkpoint holds."""
    import jax

    leaves, tree = jax.tree.flatten(step.init(policy, theta))
    stored = [arrays.get(f"optimiser.{i}") for i in range(len(leaves))]
    exactly = is_own("step", step)
    pairs = enumerate(zip(stored, leaves, strict=True))
    found = [restored(f"optimiser.{i}", *pair, exactly=exactly, either_precision=True) for i, pair in pairs]
    return jax.tree.unflatten(tree, found)
