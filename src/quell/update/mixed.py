"""A step for two estimates at once: Adam's for ES, a natural step for the policy gradient.

    theta <- theta + w lr Adam(g) + a (F + damping)^-1 R,    a such that KL(new, old) = ((1 - w) s)^2 kl

g = w X + (1 - w) R is the estimate, X that of ES, R the policy gradient, w and 1 - w their weights, s a share that the
estimator may say. A natural step is as long as its divergence allows, however noisy R is: right for a policy gradient
with a critic, and a random walk for ES, whose estimate is nearly all noise in that metric. Adam's step is long
where gradients agree from batch to batch and short where they do not: right for ES, and slow for a policy gradient,
whose scale differs between parameters by powers of ten.

A policy gradient lives on the noise of actions, to ES it is noise alone. So that of a policy that learns it falls
towards `quiet`, the faster the larger ES's weight is:

    log std <- log std - w / 10 max(log std - log quiet, 0)
"""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from quell.policy.network import Policy
from quell.registry import COUNT
from quell.types import Array, Metrics, namespace
from quell.update import Context
from quell.update.first_order import Adam
from quell.update.natural import Natural

FALL = 0.1  # of the distance to `quiet`, a step


@dataclass(frozen=True, kw_only=True)
class Mixed(Natural):
    """Adam's step times ES's weight, and a natural step along the policy gradient times the rest.

    If an estimator does not say what ES's weight is, each step counts half.
    """

    name: ClassVar[str] = "mixed"
    lr: Annotated[float, COUNT] = 0.01
    """Learning rate of Adam's part."""
    quiet: Annotated[float, COUNT] = 0.0
    """Standard deviation to which action noise falls, the faster the larger ES's weight is (0: it does not fall)."""

    METRICS: ClassVar[dict[str, str]] = {"update/es": "ES's weight in a step of two parts."}

    def init(self, policy: Policy, theta: Array) -> dict[str, Any]:
        return {**super().init(policy, theta), "adam": Adam().init(policy, theta)}

    def step(self, theta: Array, gradient: Array, state: Any, context: Context) -> tuple[Array, Any, Metrics]:
        xp, caution = namespace(theta), context.caution
        weight, own = (0.5, gradient) if caution.es is None else (caution.es, caution.policy_gradient)
        natural = {name: value for name, value in state.items() if name != "adam"}
        moved, following, facts = self.along(theta, own, natural, context, caution.share * (1 - weight))
        start = xp.zeros_like(theta)
        added, adam, _ = Adam(lr=self.lr).step(start, gradient, state["adam"], context)
        quieter = xp.float32(caution.share) * self._falls(context.policy, theta)
        theta = moved + xp.float32(weight) * (added - quieter)
        return theta.astype(np.float32), {**following, "adam": adam}, facts | {"update/es": weight}

    def _falls(self, policy: Policy, theta: Array) -> Array:
        """What the logarithm of the actions' noise loses with ES alone; 0 elsewhere."""
        xp, where = namespace(theta), policy.layout.get("log_std")
        if where is None or not self.quiet:
            return xp.zeros_like(theta)
        noise = np.zeros(policy.dim, np.float32)
        noise[where[0]] = FALL
        return noise * xp.maximum(theta - np.float32(np.log(self.quiet)), 0)


STEPS = [Mixed]
