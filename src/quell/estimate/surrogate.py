"""PPO and TRPO: gradients of a surrogate objective at theta, from episodes of an older policy.

    ratio_t = pi_theta(a_t | s_t) / pi_old(a_t | s_t),   A_t = G_t - b_t
    PPO:   mean_t min(ratio_t A_t, clip(ratio_t, 1 - eps, 1 + eps) A_t)
    TRPO:  mean_t (ratio_t A_t - penalty * KL(pi_theta(. | s_t) || pi_old(. | s_t)))

The mean is over all real steps of the batch. The paper prints PPO without the min and gives the losses with opposite
sign. On the first update theta equals old, so clipping and the penalty act only with several updates per batch (+M).
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from quell.estimate import Estimate, Needs, Problem, Rows
from quell.estimate.policy_gradient import Baseline, advantages, recorded_length
from quell.estimate.returns import alike, alive
from quell.policy.network import Policy
from quell.registry import COUNT, DISCOUNT, POSITIVE, SIZE
from quell.stats import spread
from quell.types import Batch, Pair, State, Sums


@dataclass(frozen=True, kw_only=True)
class Surrogate:
    """What PPO and TRPO share: the gradient of a surrogate on 2N full episodes."""

    name: ClassVar[str]
    biased: ClassVar[bool] = True  # steps weigh alike, whenever they come, in units of the batch's own advantages
    gamma: Annotated[float, DISCOUNT] = 0.99
    """Discount of the reward-to-go."""
    baseline: Baseline = "none"
    """Baseline of the reward-to-go: none, or the mean over the other members at the same step."""
    updates: Annotated[int, SIZE] = 1
    """Gradient steps per batch (+M means 10)."""
    normalise_advantages: bool = False
    """Subtract the advantages' mean (+A); they are divided by their standard deviation in any case."""

    @property
    def needs(self) -> Needs:
        return Needs(perturbed=False, trajectories=True, updates=self.updates)

    def gain(self, xp: Any, ratio: Any, advantage: Any, divergence: Any) -> Any:
        """What a step adds to the objective."""
        raise NotImplementedError

    def init(self, problem: Problem) -> State:
        return {}

    def prepare(self, problem: Problem, batch: Batch, state: State) -> Rows:
        _, (values,), good = advantages(batch, [self.gamma], self.baseline)
        members = np.repeat(good, 2)
        mask = alive(batch.rollouts.steps, values.shape[1]) & members[:, None]
        real = values[mask]
        if self.normalise_advantages and len(real):
            values = values - real.mean()
        flat = alike(batch.rollouts.returns[members])  # else reward-to-go would tell early steps from late ones
        scale = spread(real) if len(real) and not flat else 0.0
        # Without advantage normalisation they are still brought to unit scale. Adam would do that anyway, but for the
        # paper's TRPO it decides how much the penalty weighs.
        weighed = {"values": np.where(mask, values / scale if scale > 0 else 0.0, 0.0), "mask": mask}
        pairs = {name: a.reshape(-1, 2, a.shape[-1]).astype(np.float32) for name, a in weighed.items()}
        shared = {"old": batch.theta, "steps": np.asarray(max(mask.sum(), 1), np.float64)}
        return Rows({**pairs, "good": good}, shared)

    def terms(self, problem: Problem, pair: Pair, row: dict[str, Any], theta: Any, xp: Any = np) -> dict[str, Any]:
        end = recorded_length(xp, pair)
        data = [a[:, :end] for a in (pair.obs, pair.actions, row["values"], row["mask"])]
        gradient, divergence = _gradient(self, problem.policy)(theta, row["old"], *data)
        return {"g": xp.asarray(gradient), "kl": xp.asarray(divergence)}

    def combine(self, problem: Problem, sums: Sums, rows: Rows, state: State) -> Estimate:
        steps = float(rows.shared["steps"])
        return Estimate((sums["g"] / steps).astype(np.float32), state, {"pg/kl": float(sums["kl"] / steps)})


@dataclass(frozen=True, kw_only=True)
class PaperPpo(Surrogate):
    """The clipped surrogate."""

    name: ClassVar[str] = "ppo-paper"
    clip: Annotated[float, POSITIVE] = 0.2
    """Clipping range of the probability ratio."""

    def gain(self, xp: Any, ratio: Any, advantage: Any, divergence: Any) -> Any:
        return xp.minimum(ratio * advantage, xp.clip(ratio, 1 - self.clip, 1 + self.clip) * advantage)


@dataclass(frozen=True, kw_only=True)
class PaperTrpo(Surrogate):
    """The surrogate minus a penalty on the KL divergence."""

    name: ClassVar[str] = "trpo-paper"
    kl_penalty: Annotated[float, COUNT] = 0.1
    """Weight of the KL divergence; 0.1 or 1.0 in the paper."""

    def gain(self, xp: Any, ratio: Any, advantage: Any, divergence: Any) -> Any:
        return ratio * advantage - self.kl_penalty * divergence


@functools.lru_cache(maxsize=32)
def _gradient(surrogate: Surrogate, policy: Policy) -> Callable[..., Any]:
    """Compiled (gradient, KL) of the surrogate summed over real steps."""
    import jax
    import jax.numpy as jnp

    from quell.policy.likelihood import kl, log_prob

    def objective(theta: Any, old: Any, obs: Any, actions: Any, values: Any, mask: Any) -> tuple[Any, Any]:
        ratio = jnp.exp(log_prob(policy, theta, obs, actions) - log_prob(policy, old, obs, actions))
        divergence = kl(policy, theta, old, obs) * mask
        return (surrogate.gain(jnp, ratio, values, divergence) * mask).sum(), divergence.sum()

    return jax.jit(jax.grad(objective, has_aux=True))


ESTIMATORS: list[type[Surrogate]] = [PaperPpo, PaperTrpo]
