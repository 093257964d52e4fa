"""Tasks under other conditions on the device engine: later rewards, hidden and noisy observations."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import quell
import quell.tasks
from quell.estimate import Problem
from quell.perturb.orthogonal import Orthogonal
from quell.policy import Policy
from quell.rollout.device import Device
from quell.rollout.device import engine as device_engine
from quell.rollout.device.engine import DeviceEngine
from quell.rollout.device.worlds import World, make_world
from quell.rollout.device.worlds.regimes import RegimeWorld
from quell.rollout.simulate import LocalSimulator
from quell.tasks import Task
from quell.tasks.regimes import Regime, in_regime
from quell.training.iteration import Trainer
from quell.training.methods import make_config
from quell.types import Array, Episodes, Rollouts, Trajectories

PAIRS, HORIZON = 2, 60
SHORT = {"horizon": 12, "pairs": 3, "steps": 10_000, "eval_every": 0, "batch_steps": 0}


def on_both(task: Task, **facts: Any) -> tuple[Rollouts, Rollouts]:
    """The same members' episodes (device's, CPU's): mean actions, directions that are drawn on the host."""
    policy = Policy(task.obs_size, task.action_size, hidden=(8,))
    problem = Problem(policy, Orthogonal(sigma=0.1), 3)
    theta = policy.init(np.random.default_rng(0))
    episodes = Episodes.of_pairs(0, PAIRS, record=True, mean_action=True, **facts)
    n, t = 2 * PAIRS, task.horizon
    paths = Trajectories(np.zeros((n, t, task.obs_size), np.float32), np.zeros((n, t, task.action_size), np.float32))
    theirs = Rollouts(
        np.zeros((n, t)), np.zeros(n, np.int64), np.zeros(n, bool), paths, np.zeros((n, 2, task.obs_size))
    )
    LocalSimulator(task, problem).run(theta, episodes, range(n), None, theirs)
    with Device().make(task, problem, members=n) as engine:
        return engine.rollout(theta, episodes), theirs


@pytest.fixture
def same_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Episodes of both engines have the same random numbers."""
    for name in ("lqr", "roboschool-pong"):
        kind: Any = type(quell.tasks.get(name))
        drawn = [np.asarray(array, np.float32) for array in kind(horizon=HORIZON).draw(np.random.default_rng(7))]
        monkeypatch.setattr(kind, "draw", lambda task, rng, drawn=drawn: tuple(map(np.array, drawn)))


@pytest.mark.usefixtures("same_draws")
@pytest.mark.parametrize("longest", [0, 40], ids=["whole", "cut"])
@pytest.mark.parametrize(
    ("name", "delay", "hide"),
    [
        *[("lqr", delay, ()) for delay in (1, 7, 50, 0)],
        ("lqr-302", 7, (1,)),
        *[pytest.param("roboschool-pong", delay, (), marks=pytest.mark.slow) for delay in (1, 7, 50)],
        pytest.param("roboschool-pong", 0, (0, 3), marks=pytest.mark.slow),
    ],
)
def test_episodes_are_those_of_the_cpu_engine(name: str, delay: int, hide: tuple[int, ...], longest: int) -> None:
    task = quell.tasks.get(name, horizon=HORIZON)
    here, there = on_both(in_regime(task, delay=delay, hide=hide), longest=longest)
    assert here.steps.tolist() == there.steps.tolist() == [longest or HORIZON] * 2 * PAIRS
    scale = np.abs(there.rewards).max()
    np.testing.assert_allclose(here.rewards, there.rewards, atol=1e-4 * scale)
    np.testing.assert_allclose(here.returns, there.returns, atol=1e-4 * scale)
    # Where a paddle is pushed against its end of the table, its speed swings about 0, to few digits.
    np.testing.assert_allclose(here.obs_sums, there.obs_sums, atol=1e-2 * np.abs(there.obs_sums).max())
    plain = on_both(in_regime(task, hide=hide), longest=longest)[0]
    np.testing.assert_allclose(here.returns, plain.returns, rtol=1e-5)


class Staggered(World):
    """Member k's episode ends after 2 + k steps; step t (from 1) pays t, and what comes behind is no number."""

    obs_size, action_size, horizon, can_terminate, bounds = 3, 3, 9, True, None

    def reset(self, keys: Any) -> tuple[Any, Any]:
        state = {"time": jnp.zeros(len(keys)), "lives": 2.0 + jnp.arange(len(keys))}
        return state, jnp.zeros((len(keys), 3))

    def step(self, state: Any, actions: Any, last: Any = False) -> tuple[Any, Any, Any, Any]:
        time = state["time"] + 1
        paid = jnp.where(time > state["lives"], jnp.nan, time)
        return state | {"time": time}, jnp.zeros((len(time), 3)), paid, time >= state["lives"]

    def trouble(self, state: Any) -> dict[str, Any]:
        return {"spoilt": state["lives"] == 3}


@pytest.mark.parametrize(("delay", "longest"), [(3, 0), (0, 0), (3, 4)])
def test_what_is_owed_is_paid_when_an_episode_ends(delay: int, longest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By terminating, or by being cut; troubles are the inner world's."""
    task: Any = in_regime(quell.tasks.get("lqr", horizon=9), delay=delay)
    monkeypatch.setattr(device_engine, "make_world", lambda *_: RegimeWorld(task, Staggered()))
    problem = Problem(Policy(3, 3, hidden=()), Orthogonal(sigma=0.1), 0)
    with DeviceEngine(task, problem, Device()) as engine:
        theta = np.full(problem.policy.dim, 0.1, np.float32)
        played = engine.rollout(theta, Episodes.of_pairs(0, 2, record=True, longest=longest))
        assert engine.metrics() == {"trouble/spoilt": 1.0}
    lengths = [min(lives, longest or 9) for lives in (2, 3, 4, 5)]
    assert played.steps.tolist() == lengths
    for rewards, steps in zip(played.rewards, lengths, strict=True):
        earned = np.arange(1, steps + 1)
        dues = [t for t in earned if t == steps or (delay and t % delay == 0)]
        wanted = np.zeros(9)
        wanted[np.array(dues) - 1] = np.diff([0, *(earned[:t].sum() for t in dues)])
        assert rewards.tolist() == wanted.tolist()


def shown(task: Task, keys: Any, steps: int = 150) -> Array:
    """Observations [t, m, o] of episodes without control."""
    world = make_world(task, Device())

    def one(state: Any, _: Any) -> tuple[Any, Any]:
        state, obs, _, _ = world.step(state, jnp.zeros((len(keys), task.action_size)))
        return state, obs

    def all_of_them(keys: Any) -> Any:
        state, first = world.reset(keys)
        return jnp.concatenate([first[None], jax.lax.scan(one, state, None, length=steps)[1]])

    return np.asarray(jax.jit(all_of_them)(keys))


def test_noise_is_an_episode_s_own() -> None:
    """Of the standard deviation that was asked for, new at every step, the same for one key whoever plays beside it;
    and the task below is the same."""
    task = quell.tasks.get("lqr", horizon=151, noise=0.0)
    hidden, noisy = in_regime(task, hide=(0,)), in_regime(task, hide=(0,), obs_noise=0.5)
    keys = jax.random.split(jax.random.key(0), 4)[jnp.array([0, 0, 1, 2])]
    plain, unseen, seen = (shown(one, keys) for one in (task, hidden, noisy))
    assert np.array_equal(unseen, plain[:, :, 1:])
    noise = (seen - unseen).astype(np.float64)
    assert noise[:, 1:].std() == pytest.approx(0.5, rel=0.1)  # 906 numbers: 4 standard errors
    assert abs(np.corrcoef(noise[:-1, 1:].ravel(), noise[1:, 1:].ravel())[0, 1]) < 4 / np.sqrt(900)
    assert np.array_equal(seen[:, 0], seen[:, 1])
    assert np.abs(noise[:, 1] - noise[:, 2]).mean() > 0.3
    np.testing.assert_allclose(shown(noisy, keys[2:3])[:, 0], seen[:, 2], atol=1e-5)


def test_a_pair_that_shares_its_reset_sees_the_same_noise() -> None:
    """Its two members are the same where nothing is perturbed and actions are mean ones, and only there."""
    task = in_regime(quell.tasks.get("lqr", horizon=HORIZON, noise=0.0, x0_std=0.0), obs_noise=1.0)
    problem = Problem(Policy(3, 3, hidden=()), Orthogonal(sigma=1e-30), 0)
    theta = problem.policy.init(np.random.default_rng(0)) + np.float32(0.01)
    with Device().make(task, problem, members=2 * PAIRS) as engine:
        for shared in (True, False):
            episodes = Episodes.of_pairs(0, PAIRS, mean_action=True, shared_reset=shared)
            returns = engine.rollout(theta, episodes).returns
            assert (returns[0] == returns[1]) == shared
            assert returns[0] != returns[2]


def after(settings: dict[str, Any], method: str = "es", iterations: int = 2) -> tuple[Array, Array]:
    """theta (before, after) iterations, each of which is one program."""
    trainer = Trainer(make_config("lqr", method, overrides={**SHORT, **settings}), Device())
    state = start = trainer.initial_state()
    for _ in range(iterations):
        state, row = trainer.iterate(state)
        assert np.isfinite(row["return/mean"])
    return np.asarray(start.theta), np.asarray(state.theta)


def test_a_delay_changes_nothing_for_es() -> None:
    """It reads returns alone: the same way to 1e-4, in episodes that are cut, by way of the one program."""
    start, plain = after({"train_horizon": 8})
    found = after({"train_horizon": 8, "delay": 5})[1]
    assert np.linalg.norm(found - plain) < 1e-4 * np.linalg.norm(plain - start)


def test_es_trains_on_what_is_hidden_and_noisy() -> None:
    before, found = after({"delay": 0, "hide": (1,), "obs_noise": 0.5})
    assert np.linalg.norm(found - before) > 0


def test_programs_are_those_of_their_conditions() -> None:
    """Tasks that differ in what is below the conditions, or in these, are told apart; others share a program."""
    task: Any = quell.tasks.get("halfcheetah", horizon=50)
    kinds: list[dict[str, Any]] = [
        {"delay": 2},
        {"delay": 3},
        {"delay": 2, "hide": (1,)},
        {"delay": 2, "frame_skip": 1},
    ]
    made = [[in_regime(task, horizon=50, **kind) for kind in kinds] for _ in range(2)]
    assert all(isinstance(one, Regime) and len(one.seen) for one in made[0])
    addresses = [[device_engine._address(one) for one in some] for some in made]
    assert addresses[0] == addresses[1]
    assert all(one != other for k, one in enumerate(addresses[0]) for other in addresses[0][:k])
