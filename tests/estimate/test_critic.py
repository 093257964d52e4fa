"""Critics: generalised advantages against their definition, and fits that learn."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from quell import registry
from quell.estimate import Problem
from quell.estimate.critic import generalised_advantages
from quell.estimate.critic.network import NetworkCritic
from quell.estimate.returns import discounted_sum, reward_to_go
from quell.perturb.gaussian import Gaussian
from quell.policy import Policy
from quell.types import Array

STEPS = np.array([7, 4])
TERMINATED = np.array([False, True])


def episodes() -> tuple[Array, Array]:
    """Rewards and values [2, 8], zero after the ends."""
    rng = np.random.default_rng(0)
    running = np.arange(8) < STEPS[:, None]
    return np.where(running, rng.standard_normal((2, 8)), 0.0), np.where(running, rng.standard_normal((2, 8)), 0.0)


def by_definition(rewards: Array, values: Array, gamma: float, trace: float) -> Array:
    """A_t = sum_k (gamma lambda)^k delta_{t+k}, term by term."""
    found = np.zeros_like(rewards)
    for m, (steps, terminated) in enumerate(zip(STEPS, TERMINATED, strict=True)):
        after = np.append(values[m, 1:steps], 0.0 if terminated or gamma == 1 else values[m, steps - 1])
        delta = rewards[m, :steps] + gamma * after - values[m, :steps]
        for t in range(steps):
            found[m, t] = sum((gamma * trace) ** k * delta[t + k] for k in range(steps - t))
    return found


@pytest.mark.parametrize("xp", [np, jnp], ids=["numpy", "jax"])
@pytest.mark.parametrize(("gamma", "trace"), [(0.9, 0.8), (0.99, 1.0), (1.0, 0.5), (1.0, 1.0), (0.9, 0.0)])
def test_advantages_are_what_they_are_defined_as(xp: Any, gamma: float, trace: float) -> None:
    rewards, values = episodes()
    got = generalised_advantages(xp, xp.asarray(rewards), xp.asarray(values), STEPS, TERMINATED, gamma, trace)
    np.testing.assert_allclose(got, by_definition(rewards, values, gamma, trace), atol=1e-12 if xp is np else 1e-5)


def test_without_discount_it_is_the_reward_to_go_less_the_value() -> None:
    rewards, values = episodes()
    got = generalised_advantages(np, rewards, values, STEPS, TERMINATED, 1.0, 1.0)
    running = np.arange(8) < STEPS[:, None]
    np.testing.assert_allclose(got, np.where(running, reward_to_go(rewards, [1.0])[0] - values, 0.0), atol=1e-12)


@pytest.mark.parametrize("xp", [np, jnp], ids=["numpy", "jax"])
def test_a_discounted_sum_runs_backwards(xp: Any) -> None:
    np.testing.assert_allclose(discounted_sum(xp, xp.array([1.0, 2.0, 4.0]), 0.5), [3.0, 4.0, 4.0])


@pytest.mark.parametrize(("pairs", "steps"), [(1, 40), (12, 40), (40, 7)])
def test_a_discounted_sum_of_many_rows_has_the_bits_of_each_alone(pairs: int, steps: int) -> None:
    """Nor do zeros behind change one, where longer pairs are looked at too."""
    values = np.random.default_rng(0).standard_normal((pairs, 2, steps))
    alone = np.array([[discounted_sum(np, row, 0.97 * 0.99) for row in pair] for pair in values])
    assert discounted_sum(np, values, 0.97 * 0.99).tobytes() == alone.tobytes()
    behind = np.concatenate([values, np.zeros_like(values)], axis=-1)
    assert discounted_sum(np, behind, 0.97 * 0.99)[..., :steps].tobytes() == alone.tobytes()


@pytest.mark.parametrize("critic", [cls() for cls in registry.table("critic").values()], ids=registry.name_of)
def test_a_critic_learns_a_value_function(critic: Any) -> None:
    """V(s, t) = s_0^2 + (1 - t) s_1 plus noise: after thirty batches little of its variance is left on fresh states."""
    problem = Problem(Policy(3, 1, hidden=()), Gaussian(), 0)
    rng, horizon = np.random.default_rng(1), 200
    time = np.arange(horizon) / horizon

    def value(obs: Array) -> Array:
        return np.square(obs[..., 0]) + (1 - time) * obs[..., 1]

    state = critic.init(problem)
    for iteration in range(30):
        sums: dict[str, Any] = {}
        for _ in range(4):
            obs = rng.standard_normal((2, horizon, 3)).astype(np.float32)
            target = value(obs) + 0.3 * rng.standard_normal((2, horizon))
            row = critic.shared(state, 4)
            for name, term in critic.terms(np, row, obs, time, target, np.array([horizon, horizon])).items():
                join = np.concatenate if name.startswith("collected.") else sum
                sums[name] = join([sums[name], term]) if name in sums else np.asarray(term)
        state = critic.update(problem, state, sums, iteration)
    obs = rng.standard_normal((2, horizon, 3)).astype(np.float32)
    predicted = critic.predict(np, critic.shared(state, 4), obs, time)
    left = np.var(predicted - value(obs)) / np.var(value(obs))
    assert left < 0.1  # 0.004 (features) and 0.03 (network) when written; a critic that predicts the mean leaves 1


def test_a_longer_memory_keeps_what_recent_batches_did_not_show() -> None:
    """Four batches near s = 1, worth 100, then four near s = -1, worth 0: what is a state near s = 1 worth now?"""
    problem = Problem(Policy(3, 1, hidden=()), Gaussian(), 0)
    rng, time = np.random.default_rng(2), np.arange(200) / 200

    def predicted(kept: int) -> float:
        critic = NetworkCritic(kept=kept)
        state = critic.init(problem)
        for iteration, sign in enumerate([1, 1, 1, 1, -1, -1, -1, -1]):
            obs = (sign + 0.1 * rng.standard_normal((2, 200, 3))).astype(np.float32)
            target = np.full((2, 200), 50.0 * (sign + 1)) + rng.standard_normal((2, 200))
            sums = critic.terms(np, critic.shared(state, 1), obs, time, target, np.array([200, 200]))
            state = critic.update(problem, state, sums, iteration)
        return float(critic.predict(np, critic.shared(state, 1), np.ones((2, 200, 3), np.float32), time).mean())

    assert abs(predicted(kept=8) - 100) < 10  # 100.1 when written
    assert predicted(kept=3) < 50  # 0.8: only the last kind is known, and the scale is its own


def test_the_step_is_not_kept_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """JAX runs the programs of a thread one after the other: training starts from a thread of its own."""
    import threading

    from quell.estimate.critic import network

    names: list[str] = []
    train = network._compiled_train

    def watched(critic: NetworkCritic) -> Any:
        def run(*data: Any) -> Any:
            names.append(threading.current_thread().name)
            return train(critic)(*data)

        return run

    monkeypatch.setattr(network, "_compiled_train", watched)
    critic, problem = NetworkCritic(updates=1), Problem(Policy(2, 1), Gaussian(), 0)
    sums = {"collected.seen": np.ones((8, 3), np.float32), "collected.target": np.arange(8.0)}
    critic.update(problem, critic.init(problem), sums, 0)
    assert names
    assert all(name.startswith("quell-critic") for name in names)


def test_training_may_be_part_of_a_larger_program() -> None:
    """As on an accelerator, where an iteration is one: options of a program of its own must not be met there."""
    import jax

    critic, problem = NetworkCritic(updates=2), Problem(Policy(2, 1), Gaussian(), 0)
    sums = {"collected.seen": np.ones((8, 3), np.float32), "collected.target": np.arange(8, dtype=np.float32)}
    state = {name: np.asarray(a, np.float32) for name, a in critic.init(problem).items() if name != "critic.batches"}
    state["critic.batches"] = np.zeros((), np.int32)
    found = jax.jit(lambda state, sums: critic.update(problem, state, sums, 0))(state, sums)
    assert np.isfinite(found["critic.w0"]).all()
    assert not np.array_equal(found["critic.w0"], state["critic.w0"])
