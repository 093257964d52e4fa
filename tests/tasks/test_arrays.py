"""Array tasks: members do not see each other, functions run under JAX, and LQR moves as printed."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from quell import tasks
from quell.tasks.arrays import ArrayTask
from quell.tasks.lqr import LIMIT, A, Lqr

NAMES = [name for name in tasks.names() if isinstance(tasks.get(name), ArrayTask)]


def play(task: Any, seeds: list[int], actions: Any) -> list[Any]:
    """Observations and rewards of every step."""
    simulator = task.simulator(len(seeds))
    found = [simulator.reset([np.random.default_rng(seed) for seed in seeds]).copy()]
    for action in actions:
        observation, reward, ended = simulator.step(action, np.ones(len(seeds), bool))
        assert not ended.any()
        found.append(np.column_stack([observation, reward]))
    return found


def test_the_array_tasks_are_these() -> None:
    assert NAMES == ["lqr", "lqr-302", "roboschool-pong"]


@pytest.mark.parametrize("name", NAMES)
def test_a_member_depends_on_its_generator_alone(name: str) -> None:
    task = tasks.get(name)
    actions = np.random.default_rng(0).standard_normal((40, 9, task.action_size)).astype(np.float32)
    together = play(task, list(range(9)), actions)
    for order in ([5], [8, 0]):
        for part, whole in zip(play(task, order, actions[:, order]), together, strict=True):
            np.testing.assert_array_equal(part, whole[order])


@pytest.mark.parametrize("name", ["lqr", "lqr-302"])  # of Pong, see roboschool/test_pong.py: it takes long to compile
def test_functions_agree_under_jax(name: str) -> None:
    task = tasks.get(name)
    assert isinstance(task, ArrayTask)
    draws = tuple(map(np.stack, zip(*(task.draw(np.random.default_rng(i)) for i in range(4)), strict=True)))
    state, first = task.initial(np, draws)
    with jax.enable_x64(True):
        traced, traced_first = task.initial(jnp, tuple(map(jnp.asarray, draws)))
        np.testing.assert_array_equal(traced_first, first)
        step = jax.jit(lambda state, action: task.step(jnp, state, action))
        for action in np.random.default_rng(0).standard_normal((5, 4, task.action_size)):
            state, observation, reward = task.step(np, state, action)
            traced, traced_observation, traced_reward = step(traced, action)
            np.testing.assert_allclose(traced_observation, observation, rtol=1e-12)
            np.testing.assert_allclose(traced_reward, reward, rtol=1e-12)


def test_lqr_moves_as_printed() -> None:
    """x' = A x + u + noise * w and -(x'x / 1000 + u'u), with the draws in the order x0, w_0, w_1, ..."""
    task = Lqr(horizon=5, noise=0.5, x0_std=2.0)
    rng = np.random.default_rng(3)
    x, w = 2.0 * rng.standard_normal(3), rng.standard_normal((5, 3))
    actions = np.random.default_rng(4).standard_normal((5, 1, 3))
    first, *found = play(task, [3], actions)
    np.testing.assert_array_equal(first[0], x)
    for row, u, noise in zip(found, actions[:, 0], w, strict=True):
        reward = -(x @ x / 1000 + u @ u)
        x = A @ x + u + 0.5 * noise
        np.testing.assert_allclose(row[0], [*x, reward], rtol=1e-12)


def test_lqr_saturates_where_it_would_overflow() -> None:
    (*_, last) = play(Lqr(horizon=3), [0], np.full((3, 1, 3), 1e38, np.float32))
    np.testing.assert_array_equal(last[0, :3], LIMIT)
    assert np.isfinite(last).all()
