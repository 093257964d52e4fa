"""PPO as in other libraries: a critic's advantages, and several epochs of clipped minibatch updates on every batch.

    ratio_t = pi_theta(a_t | s_t) / pi_played(a_t | s_t),    A_t: GAE(gamma, lambda), of mean 0 and unit spread
    maximise mean_t min(ratio_t A_t, clip(ratio_t, 1 - eps, 1 + eps) A_t)        by Adam, minibatch by minibatch

(Schulman et al., 2017). What comes back as the gradient is the whole way that theta went, so the step for it is
`sgd` with a rate of 1; a schedule of that rate shortens the way. It is not shortened where all episodes earned the
most so far (`quell.estimate.flat`): a solved CartPole was lost more often then (results/flat).
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from quell.estimate import Estimate, Needs, Problem, Rows
from quell.estimate.advantages import LONGEST, SHORTEST, WithCritic, padded_rows, played_steps
from quell.estimate.flat import nothing_seen
from quell.estimate.policy_gradient import padded_length
from quell.estimate.returns import finite_pairs
from quell.keys import Purpose, generator
from quell.policy.network import Policy
from quell.registry import COUNT, POSITIVE, SIZE
from quell.stats import spread
from quell.types import Array, Batch, Pair, State, Sums


@dataclass(frozen=True, kw_only=True)
class Ppo(WithCritic):
    """The total change of theta over several epochs of clipped updates."""

    name: ClassVar[str] = "ppo"
    needs: ClassVar[Needs] = Needs(perturbed=False, trajectories=True)
    biased: ClassVar[bool] = True  # the way is not the gradient, whatever the advantages are
    lr: Annotated[float, POSITIVE] = 3e-4
    """Adam's learning rate within a batch."""
    epochs: Annotated[int, SIZE] = 10
    """Passes over each batch."""
    minibatch: Annotated[int, SIZE] = 64
    """Steps in each update."""
    clip: Annotated[float, POSITIVE] = 0.2
    """Clipping range of the probability ratio."""
    longest: Annotated[float, POSITIVE] = 0.5
    """A minibatch's gradient longer than this is shortened to it."""
    kl_stop: Annotated[float, COUNT] = 0.0
    """Stop on a batch once the KL divergence from the policy that played it exceeds this (0: never)."""

    def init(self, problem: Problem) -> State:
        moments = {f"adam.{name}": np.zeros(problem.policy.dim, np.float32) for name in ("mean", "square")}
        return {**moments, "adam.time": np.zeros(()), **nothing_seen(), **self.critic.init(problem)}

    def unit(self, batch: Batch, state: State) -> float:
        """Advantages are brought to unit spread in any case."""
        return 1.0

    def prepare(self, problem: Problem, batch: Batch, state: State) -> Rows:
        rows = self.rows(problem, batch, finite_pairs(batch.rollouts.rewards), state, 1.0)
        rows.shared["theta"] = batch.theta
        return rows

    def terms(self, problem: Problem, pair: Pair, row: dict[str, Any], theta: Any, xp: Any = np) -> dict[str, Any]:
        found, learned = self.advantages(xp, pair, row)
        steps = played_steps(xp, problem.policy, pair, row["theta"], found)
        return {"count": 2.0, "collected.steps": steps, **learned}

    def combine(self, problem: Problem, sums: Sums, rows: Rows, state: State) -> Estimate:
        policy, iteration = problem.policy, int(rows.shared["iteration"])
        steps = sums["collected.steps"]
        steps = steps[np.isfinite(steps).all(axis=1)]
        width, gamma = spread(steps[:, -1]) if len(steps) else 0.0, self.gamma
        if not width > 0:
            return Estimate(np.zeros(policy.dim, np.float32), state, {"gamma": gamma, "pg/kl": 0.0})
        weights = (steps[:, -1] - steps[:, -1].mean()) / width
        chosen, updates = self._order(generator(problem.seed, Purpose.EPOCHS, iteration), len(steps))
        data = padded_rows(np.column_stack([steps[:, :-1], weights]))
        adam = tuple(np.asarray(state[f"adam.{name}"], np.float32) for name in ("mean", "square", "time"))
        moved, adam, divergence, done = _train(self, policy)(rows.shared["theta"], adam, data, chosen, updates)
        way = np.asarray(moved) - rows.shared["theta"]
        metrics = {"gamma": gamma, "pg/kl": float(divergence), "pg/updates": float(done)}
        if not np.isfinite(way).all() or not all(np.isfinite(part).all() for part in adam):
            return Estimate(np.full_like(way, np.nan), state, metrics)  # which the trainer skips, and counts
        mean, square, time = map(np.asarray, adam)
        learned = {"adam.mean": mean, "adam.square": square, "adam.time": np.asarray(time, np.float64)}
        return Estimate(way, self.learned(problem, {**state, **learned}, rows, sums), metrics)

    def _order(self, rng: np.random.Generator, steps: int) -> tuple[Array, int]:
        """(rows of each update [n, minibatch], how many of them are to be done)."""
        each = max(1, steps // self.minibatch)
        orders = [np.resize(rng.permutation(steps), (each, self.minibatch)) for _ in range(self.epochs)]
        most = self.epochs * max(1, padded_length(steps, LONGEST, SHORTEST) // self.minibatch)
        order = np.zeros((most, self.minibatch), np.int32)
        order[: self.epochs * each] = np.concatenate(orders)
        return order, self.epochs * each


@functools.lru_cache(maxsize=16)
def _train(settings: Ppo, policy: Policy) -> Callable[..., Any]:
    """Compiled (theta, Adam's state, steps, rows of each update, updates) -> (theta, state, last KL, updates done)."""
    import jax
    import jax.numpy as jnp

    from quell.policy.likelihood import log_prob

    def objective(theta: Any, data: Any) -> tuple[Any, Any]:
        obs, actions = data[:, : policy.obs_size], data[:, policy.obs_size : -2]
        change = log_prob(policy, theta, obs, actions) - data[:, -2]
        ratio, advantage = jnp.exp(change), data[:, -1]
        clipped = jnp.clip(ratio, 1 - settings.clip, 1 + settings.clip)
        return jnp.minimum(ratio * advantage, clipped * advantage).mean(), (ratio - 1 - change).mean()

    @jax.jit
    def train(theta: Any, adam: Any, data: Any, chosen: Any, updates: Any) -> Any:
        def going(carried: Any) -> Any:
            done, divergence = carried[0], carried[-1]
            calm = (settings.kl_stop == 0) | (divergence <= settings.kl_stop)
            return (done < updates) & calm

        def one(carried: Any) -> Any:
            done, theta, (mean, square, time), _ = carried
            slope, divergence = jax.grad(objective, has_aux=True)(theta, data[chosen[done]])
            slope *= jnp.minimum(1.0, settings.longest / (jnp.linalg.norm(slope) + 1e-12))
            time, mean, square = time + 1, 0.9 * mean + 0.1 * slope, 0.999 * square + 0.001 * slope**2
            size = jnp.sqrt(square / (1 - 0.999**time)) + 1e-5
            theta += settings.lr * mean / (1 - 0.9**time) / size
            return done + 1, theta, (mean, square, time), divergence

        done, theta, adam, divergence = jax.lax.while_loop(going, one, (0, theta, adam, jnp.float32(0)))
        return theta, adam, divergence, done

    return train


ESTIMATORS = [Ppo]
