"""Policy gradients with a critic: generalised advantages in place of rewards-to-go.

    g = 1/2N sum over members, sum_t A_t / s grad log pi(a_t | s_t)      A_t: GAE(gamma, lambda), s: returns' spread

Near rewards teach with less noise, far ones say what is wanted, and which a task needs is not known before: so gamma
and lambda may rise over the steps of a run, 1 - gamma and 1 - lambda geometrically,

    1 - gamma(u) = (1 - gamma)^(1 - u) (1 - last_gamma)^u        u: share of `rise` that is past, at most 1

With a natural step that also gains by the surrogate (`line_search`) this is what users of good libraries know as TRPO
(Schulman et al., 2015); at theta + sigma eps it is the control variate of `control_variate.advantage`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import numpy as np

from quell.errors import UsageError
from quell.estimate import Estimate, Needs, Problem, Rows, total_variance
from quell.estimate.critic import Critic, generalised_advantages
from quell.estimate.critic.network import NetworkCritic
from quell.estimate.policy_gradient import padded_length, pair_scores, recorded_length, spread_of_good
from quell.estimate.returns import finite_pairs
from quell.policy.network import Policy
from quell.registry import DISCOUNT, SHARE, Range
from quell.types import Array, Batch, Pair, State, Sums

NEARLY_ONE, PART = Range(above=0, below=1), Range(above=0, high=1)


@dataclass(frozen=True, kw_only=True)
class WithCritic:
    """What estimators with generalised advantages share."""

    gamma: Annotated[float, DISCOUNT] = 0.99
    """Discount of the advantages; 1 together with trace 1 is unbiased."""
    trace: Annotated[float, SHARE] = 0.95
    """lambda of GAE: how far an advantage trusts rewards over the critic."""
    last_gamma: Annotated[float | None, NEARLY_ONE] = None
    """What the discount rises to (none: it stays)."""
    last_trace: Annotated[float | None, NEARLY_ONE] = None
    """What lambda rises to (none: it stays)."""
    rise: Annotated[float, PART] = 1.0
    """Share of the run's steps over which they rise."""
    critic: Critic = field(default_factory=NetworkCritic)
    """The value function that advantages are measured against."""

    def check(self) -> None:
        for name, first, last in (("gamma", self.gamma, self.last_gamma), ("trace", self.trace, self.last_trace)):
            if last is not None and last < first:
                raise UsageError(f"estimator.last_{name} {last} is below estimator.{name} {first}: it can only rise")
        if self.last_gamma is None and self.last_trace is None and self.rise != WithCritic.rise:
            raise UsageError("estimator.rise is read only with estimator.last_gamma or estimator.last_trace")

    @property
    def biased(self) -> bool:
        return self.gamma < 1 or self.trace < 1

    def discounting(self, progress: float) -> tuple[float, float]:
        """(gamma, lambda) after a share of the run's steps."""
        past = min(progress / self.rise, 1.0)
        return _risen(self.gamma, self.last_gamma, past), _risen(self.trace, self.last_trace, past)

    def rows(self, batch: Batch, good: Array, state: State, scale: float) -> Rows:
        """What `gradients` needs: rewards up to the longest episode's end, and the critic's weights.

        A scale of 0 says that there is nothing to learn: then advantages count 0.
        """
        rollouts = batch.rollouts
        horizon, longest = rollouts.rewards.shape[1], int(rollouts.steps.max())
        rewards = rollouts.rewards[:, :longest].reshape(-1, 2, longest)
        pairs = {"good": good, "rewards": rewards, "terminated": rollouts.terminated.reshape(-1, 2)}
        counted = {"iteration": np.asarray(batch.episodes.iteration), "time": np.arange(horizon) / horizon}
        counted |= {"scale": np.asarray(scale or np.inf), "discounting": self.discounting(batch.progress)}
        return Rows(pairs, counted | self.critic.shared(state, batch.pairs))

    def advantages(self, xp: Any, pair: Pair, row: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """(A_t [..., 2, t] up to the longest episode's end, what the critic learns from the pair)."""
        gamma, trace = row["discounting"]
        return self.advantages_at(gamma, trace, xp, pair, row)

    def advantages_at(
        self, gamma: float, trace: float, xp: Any, pair: Pair, row: dict[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        """`advantages` of any discount and lambda; `row` has the weights of the critic for them."""
        end = min(recorded_length(xp, pair), row["rewards"].shape[-1])
        obs, time = pair.obs[..., :end, :], row["time"][:end]
        running = xp.arange(end) < xp.asarray(pair.steps)[..., None]
        values = xp.where(running, self.critic.predict(xp, row, obs, time), 0.0)
        rewards = xp.where(running, row["rewards"][..., :end], 0.0)
        found = generalised_advantages(xp, rewards, values, pair.steps, row["terminated"], gamma, trace)
        return found, self.critic.terms(xp, row, obs, time, found + values, pair.steps)

    def gradients(self, xp: Any, problem: Problem, pair: Pair, row: dict[str, Any], thetas: Any, found: Any) -> Any:
        """sum_t A_t / s grad log pi of both members, [..., 2, d], given their advantages."""
        behind = recorded_length(xp, pair) - found.shape[-1]
        weights = xp.concatenate([found / row["scale"], xp.zeros((*found.shape[:-1], behind))], axis=-1)
        return pair_scores(xp, problem.policy, pair, thetas, weights[..., None, :])[..., 0, :]


def _risen(first: float, last: float | None, past: float) -> float:
    return first if last is None or past == 0 else 1 - (1 - first) ** (1 - past) * (1 - last) ** past


def earned_alike(batch: Batch) -> bool:
    """Whether all episodes earned the same, and not nothing. Their advantages are the critic's errors, and steps of a
    fixed length along those would lose what was learned; where no reward was seen, they explore."""
    earned = batch.rollouts.returns[np.repeat(finite_pairs(batch.rollouts.rewards), 2)]
    return bool(len(earned)) and bool(earned.min() == earned.max() != 0)


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


def surrogate(policy: Policy, steps: Array) -> Callable[[Array], float]:
    """theta -> mean over steps of (pi_theta / pi_played - 1) A, from the rows of `played_steps`."""
    rows, count = padded_rows(steps), max(len(steps), 1)
    return lambda theta: float(_surrogate(policy)(theta, rows)) / count


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


@dataclass(frozen=True, kw_only=True)
class AdvantageGradient(WithCritic):
    """The policy gradient at theta with generalised advantages."""

    name: ClassVar[str] = "advantage-gradient"
    needs: ClassVar[Needs] = Needs(perturbed=False, trajectories=True)
    line_search: bool = False
    """Have a natural step shortened until it gains by the importance-weighted surrogate too, or not taken."""

    def init(self, problem: Problem) -> State:
        return self.critic.init(problem)

    def unit(self, batch: Batch, state: State) -> float:
        """What rewards are divided by; 0 where there is nothing to learn."""
        return spread_of_good(batch) or float(not earned_alike(batch))

    def prepare(self, problem: Problem, batch: Batch, state: State) -> Rows:
        return self.rows(batch, finite_pairs(batch.rollouts.rewards), state, self.unit(batch, state))

    def terms(self, problem: Problem, pair: Pair, row: dict[str, Any], theta: Any, xp: Any = np) -> dict[str, Any]:
        found, learned = self.advantages(xp, pair, row)
        gradients = self.gradients(xp, problem, pair, row, xp.stack([theta, theta]), found)
        wide = gradients.astype(np.float64) if xp is np else gradients
        if self.line_search:
            learned["collected.steps"] = played_steps(xp, problem.policy, pair, theta, found)
        return {"count": 2.0, "g": wide.sum(axis=0), "gg": xp.square(wide).sum(axis=0), **learned}

    def combine(self, problem: Problem, sums: Sums, rows: Rows, state: State) -> Estimate:
        count = float(sums["count"])
        metrics = {
            "variance/method": total_variance(sums["g"], sums["gg"], count),
            "gamma": rows.shared["discounting"][0],
        }
        if count and np.isfinite(sums["g"]).all():
            state = self.critic.update(problem, state, sums, int(rows.shared["iteration"]))
        judge = None
        if self.line_search:
            steps = sums["collected.steps"]
            judge = surrogate(problem.policy, steps[np.isfinite(steps).all(axis=1)])
        return Estimate((sums["g"] / max(count, 1)).astype(np.float32), state, metrics, judge)


ESTIMATORS = [AdvantageGradient]
