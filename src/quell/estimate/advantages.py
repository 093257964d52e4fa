"""Generalised advantages in place of rewards-to-go: what all estimators with a critic share.

    g = 1/2N sum over members, sum_t A_t / s grad log pi(a_t | s_t)      A_t: GAE(gamma, lambda), s: returns' spread

At theta this is the estimator of `actor_critic`, at theta + sigma eps the column of `control_variate.advantages`, and
several epochs of clipped updates with these advantages are PPO (`ppo`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np

from quell.estimate import Problem, Rows
from quell.estimate.critic import Critic, generalised_advantages
from quell.estimate.critic.network import NetworkCritic
from quell.estimate.flat import earned, nothing_else_seen, seen_after, step_share, with_a_trace
from quell.estimate.policy_gradient import padded_length, pair_scores, recorded_length
from quell.policy.network import Policy
from quell.registry import DISCOUNT, SHARE
from quell.types import Array, Batch, Pair, State, Sums, either, namespace


@dataclass(frozen=True, kw_only=True)
class WithCritic:
    """What estimators with generalised advantages share."""

    gamma: Annotated[float, DISCOUNT] = 0.99
    """Discount of the advantages."""
    trace: Annotated[float, SHARE] = 0.95
    """lambda of GAE: 1 uses the rewards alone, 0 relies on the critic after one step."""
    critic: Critic = field(default_factory=NetworkCritic)
    """The value function that advantages are measured against."""

    @property
    def traceable(self) -> bool:
        """Whether `prepare` and `combine` run on JAX arrays too."""
        return bool(getattr(self.critic, "traceable", False))

    @property
    def biased(self) -> bool:
        return self.gamma < 1 or self.trace < 1

    def rows(self, problem: Problem, batch: Batch, good: Array, state: State, scale: Any) -> Rows:
        """What `gradients` needs: rewards up to the longest episode's end, and the critic's weights.

        Rewards are left as they are where there is no scale to divide them by: returns that are all the same have none.
        """
        rollouts, ends, xp = batch.rollouts, earned(batch), namespace(batch.rollouts.rewards)
        horizon, iteration = rollouts.rewards.shape[1], batch.episodes.iteration
        longest = int(rollouts.steps.max()) if xp is np else horizon
        plain = {"rewards": rollouts.rewards[:, :longest].reshape(-1, 2, longest)}
        rewards = either(
            nothing_else_seen(state, ends),
            lambda: {"rewards": with_a_trace(plain["rewards"], problem.seed, iteration)},
            plain,
        )
        pairs = {"good": good, **rewards, "terminated": rollouts.terminated.reshape(-1, 2)}
        counted = {"iteration": xp.asarray(iteration), "time": xp.arange(horizon) / horizon}
        counted |= {"scale": xp.where(xp.asarray(scale) == 0, 1.0, scale), "earned": ends}
        counted["steps"] = xp.asarray(xp.where(xp.repeat(good, 2), rollouts.steps, 0).sum())
        known = self.critic.shared(state, batch.pairs)
        return Rows(pairs, counted | ({name: np.asarray(a) for name, a in known.items()} if xp is np else known))

    def advantages(self, xp: Any, pair: Pair, row: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """(A_t [..., 2, t] up to the longest episode's end, what the critic learns from the pair)."""
        end = min(recorded_length(xp, pair), row["rewards"].shape[-1])
        obs, time = pair.obs[..., :end, :], row["time"][:end]
        running = xp.arange(end) < xp.asarray(pair.steps)[..., None]
        values = xp.where(running, self.critic.predict(xp, row, obs, time), 0.0)
        rewards = xp.where(running, row["rewards"][..., :end], 0.0)
        found = generalised_advantages(xp, rewards, values, pair.steps, row["terminated"], self.gamma, self.trace)
        learned = self.critic.terms(xp, row, obs, time, found + values, pair.steps)
        moments = xp.stack([found.sum(axis=(-2, -1)), xp.square(found).sum(axis=(-2, -1))], axis=-1)
        return found, {"advantages": moments, **learned}

    def share(self, state: State, rows: Rows, sums: Sums) -> Any:
        """How much of its usual length a step along the estimate shall have; all of it where nothing may be biased by
        what a batch itself says."""
        return step_share(state, rows.shared["earned"], spread_of_advantages(rows, sums)) if self.biased else 1.0

    def learned(self, problem: Problem, state: State, rows: Rows, sums: Sums) -> State:
        """What the critic and `quell.estimate.flat` know after a batch."""
        seen = seen_after(state, rows.shared["earned"], spread_of_advantages(rows, sums))
        return self.critic.update(problem, {**state, **seen}, sums, rows.shared["iteration"])

    def gradients(self, xp: Any, problem: Problem, pair: Pair, row: dict[str, Any], thetas: Any, found: Any) -> Any:
        """sum_t A_t / s grad log pi of both members, [..., 2, d], given their advantages."""
        behind = recorded_length(xp, pair) - found.shape[-1]
        weights = xp.concatenate([found / row["scale"], xp.zeros((*found.shape[:-1], behind))], axis=-1)
        return pair_scores(xp, problem.policy, pair, thetas, weights[..., None, :])[..., 0, :]


def spread_of_advantages(rows: Rows, sums: Sums) -> Any:
    """Standard deviation over the steps of a batch."""
    xp = namespace(sums["advantages"])
    mean, square = sums["advantages"] / xp.maximum(rows.shared["steps"], 1)
    return xp.sqrt(xp.maximum(square - mean**2, 0.0))


SHORTEST, LONGEST = 1024, 1 << 30  # rows: powers of two in between are compiled


def played_steps(xp: Any, policy: Policy, pair: Pair, theta: Any, found: Any) -> Any:
    """Every real step of a pair as a row: observation, action, log-probability of having played it, advantage."""
    end = found.shape[1]
    obs, actions = pair.obs[:, :end], pair.actions[:, :end]
    played = xp.asarray(_log_probs(policy)(theta, obs, actions))
    steps = xp.concatenate([obs, actions, played[..., None], found[..., None]], axis=-1)
    running = xp.arange(end) < xp.asarray(pair.steps)[:, None]
    return steps[running] if xp is np else xp.where(running[..., None], steps, xp.nan).reshape(-1, steps.shape[-1])


def padded_rows(steps: Array) -> Array:
    """Rows in single precision, with rows of zeros behind them up to a power of two."""
    padding = np.zeros((padded_length(len(steps), LONGEST, SHORTEST) - len(steps), steps.shape[1]), np.float32)
    return np.concatenate([steps.astype(np.float32), padding])


def surrogate(policy: Policy, steps: Array) -> Callable[[Array], Any]:
    """theta -> mean over steps of (pi_theta / pi_played - 1) A, from the rows of `played_steps`: of good pairs only."""
    xp = namespace(steps)
    real = xp.isfinite(steps).all(axis=1)
    if xp is np:
        rows, count = padded_rows(steps[real]), max(int(real.sum()), 1)

        def gain(theta: Any) -> Any:
            found = _surrogate(policy)(theta, rows)
            return (float(found) if namespace(theta) is np else found) / count

        return gain
    rows, count = xp.where(real[:, None], steps, 0.0), xp.maximum(real.sum(), 1)
    return lambda theta: _surrogate(policy)(theta, rows) / count


@functools.lru_cache(maxsize=16)
def _log_probs(policy: Policy) -> Callable[..., Any]:
    """Compiled (theta, obs [m, t, o], actions [m, t, a]) -> log pi [m, t]."""
    import jax

    from quell.policy.likelihood import log_prob

    return jax.jit(functools.partial(log_prob, policy))


@functools.lru_cache(maxsize=16)
def _surrogate(policy: Policy) -> Callable[..., Any]:
    """Compiled (theta, rows) -> sum of (ratio - 1) A; padding has A = 0."""
    import jax
    import jax.numpy as jnp

    from quell.policy.likelihood import log_prob

    def total(theta: Any, rows: Any) -> Any:
        change = log_prob(policy, theta, rows[:, : policy.obs_size], rows[:, policy.obs_size : -2]) - rows[:, -2]
        return jnp.where(rows[:, -1] == 0, 0.0, jnp.expm1(change) * rows[:, -1]).sum()

    return jax.jit(total)
