"""Critics: value functions V(s) that a policy gradient's advantages are measured against, fitted on past batches only.

    delta_t = r_t + gamma V(s_{t+1}) - V(s_t),    A_t = sum_{k >= 0} (gamma lambda)^k delta_{t+k}        (GAE)

(Schulman et al., 2016). V(s_{t+1}) is 0 behind a terminal state; behind a time limit it is V of the last state where
gamma < 1, and 0 where gamma = 1, as there the episode's end is part of the objective. With gamma = lambda = 1 this is
the reward-to-go less V(s_t), whose policy gradient is unbiased; anything less trades bias for variance.

A critic is a frozen dataclass in a file that ends in `CRITICS = [...]`. What it learns from is additive over pairs, or
collected from them (see `quell.estimate.reduce`), so it may live on any engine.
"""

from typing import Any, Protocol

from quell.estimate import Problem
from quell.estimate.returns import discounted_sum
from quell.types import State, Sums


class Critic(Protocol):
    """One kind of value function; its fields are its settings."""

    @property
    def together(self) -> bool:
        """Whether `predict` and `terms` take several pairs too, as `Needs.together` says."""
        return False

    @property
    def traceable(self) -> bool:
        """Whether `shared` and `update` run on JAX arrays too, as `Needs.traceable` says."""
        return False

    def init(self, problem: Problem) -> State: ...

    def shared(self, state: State, pairs: int) -> dict[str, Any]:
        """What predictions and `terms` need of it, for a batch of so many pairs."""

    def predict(self, xp: Any, row: dict[str, Any], obs: Any, time: Any) -> Any:
        """V [2, t] of a pair's observations [2, t, o]; `time` [t] is the share of the horizon that is past."""

    def terms(self, xp: Any, row: dict[str, Any], obs: Any, time: Any, target: Any, steps: Any) -> dict[str, Any]:
        """What one pair adds to the next fit, given the targets [2, t] of its real steps."""

    def update(self, problem: Problem, state: State, sums: Sums, iteration: Any) -> State:
        """The state after a batch."""


def generalised_advantages(
    xp: Any, rewards: Any, values: Any, steps: Any, terminated: Any, gamma: float, trace: float
) -> Any:
    """A_t [..., 2, t] for rewards and values [..., 2, t] that are 0 after an episode's end; `trace` is lambda."""
    positions = xp.arange(rewards.shape[-1])
    last = xp.asarray(steps)[..., None] - 1
    following = xp.concatenate([values[..., 1:], xp.zeros_like(values[..., :1])], axis=-1)
    cut = (positions == last) & ~xp.asarray(terminated)[..., None] & (gamma < 1)
    following = xp.where(cut, values, following)
    delta = xp.where(positions <= last, rewards + gamma * following - values, 0.0)
    return discounted_sum(xp, delta, gamma * trace)
