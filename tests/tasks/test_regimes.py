"""Later rewards, other frame skips, hidden and noisy observations: what changes, and what must not."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import quell
from quell.errors import UsageError
from quell.estimate import Problem
from quell.perturb.gaussian import Gaussian
from quell.policy import Policy
from quell.rollout.simulate import LocalSimulator
from quell.tasks import Task
from quell.tasks.regimes import in_regime
from quell.types import Array, Episodes, Rollouts, Trajectories

EVERYTHING: dict[str, Any] = {"delay": 7, "frame_skip": 2, "hide": (0, 3), "obs_noise": 0.1}


def played(task: Task, pairs: int = 3, rows: range | None = None, longest: int = 0, std: float = 0.3) -> Rollouts:
    """Perturbed episodes of an untrained policy; two members at a time, or some rows only."""
    kind: Any = "categorical" if task.discrete else "gaussian"
    policy = Policy(task.obs_size, task.action_size, kind, (8,), init_std=std)
    problem = Problem(policy, Gaussian(sigma=0.1), 3)
    episodes = Episodes.of_pairs(0, pairs, record=True, longest=longest)
    n, t, o = 2 * pairs, task.horizon, policy.obs_size
    paths = Trajectories(np.zeros((n, t, o), np.float32), np.zeros((n, t, policy.recorded_size), np.float32))
    found = Rollouts(np.zeros((n, t)), np.zeros(n, np.int64), np.zeros(n, bool), paths, np.zeros((n, 2, o)))
    theta = policy.init(np.random.default_rng(0))
    LocalSimulator(task, problem).run(theta, episodes, list(rows or range(n)), None, found)
    return found


def paid_late(rewards: Array, delay: int) -> Array:
    """An episode's rewards, each sum on the last step of its block."""
    late, size = np.zeros(len(rewards)), delay or len(rewards)
    for start in range(0, len(rewards), size):
        late[min(start + size, len(rewards)) - 1] = rewards[start : start + size].sum()
    return late


@pytest.mark.parametrize("delay", [2, 7, 64, 10_000, 0])
@pytest.mark.parametrize("name", ["hopper", "halfcheetah", "gym:CartPole-v1", "bipedalwalker", "lqr-302"])
def test_a_delay_moves_rewards_and_changes_nothing_else(name: str, delay: int) -> None:
    task = quell.task(name, horizon=150)
    for longest in (0, 100):
        plain = played(task, longest=longest)
        late = played(in_regime(task, delay=delay), longest=longest)
        for member, steps in enumerate(plain.steps):
            wanted = paid_late(plain.rewards[member, :steps], delay)
            assert late.rewards[member, :steps] == pytest.approx(wanted, rel=1e-12, abs=1e-9)
        assert late.returns == pytest.approx(plain.returns, rel=1e-12, abs=1e-9)
        assert np.array_equal(late.steps, plain.steps)
        assert np.array_equal(late.terminated, plain.terminated)
        assert np.array_equal(late.trajectories.obs, plain.trajectories.obs)  # type: ignore[union-attr]


def test_rewards_asked_for_step_by_step_are_the_same() -> None:
    """A film asks so; what it adds up must be the episode's return."""
    task = in_regime(quell.task("halfcheetah", horizon=150), delay=40)
    plain, late = task.bare.simulator(1), task.simulator(1)
    sums = []
    for simulator in (plain, late):
        simulator.reset([np.random.default_rng(0)])
        paid = [simulator.step(np.full((1, 6), 0.3), np.ones(1, bool))[1][0] for _ in range(150)]
        sums.append(np.array(paid))
    assert sums[1] == pytest.approx(paid_late(sums[0], 40), rel=1e-12)


def test_a_member_does_not_depend_on_those_simulated_beside_it() -> None:
    task = in_regime(quell.task("hopper", horizon=150), **EVERYTHING)
    together, alone = played(task), played(task, rows=range(4, 5))
    assert np.array_equal(together.rewards[4], alone.rewards[4])
    assert np.array_equal(together.trajectories.obs[4], alone.trajectories.obs[4])  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["halfcheetah", "swimmer", "hopper", "walker2d", "ant", "humanoid"])
def test_an_episode_earns_as_much_at_any_frame_skip(name: str) -> None:
    """The same torques all along: the physics is the same, and so is what a second earns."""
    task: Any = quell.task(name, horizon=8)
    returns, lasted = [], []
    for skip in (type(task).frame_skip, 1):
        paced: Any = in_regime(task, frame_skip=skip)
        simulator: Any = paced.simulator(1)
        simulator.reset([np.random.default_rng(0)])
        action = np.full((1, task.action_size), 0.05)
        returns.append(sum(simulator.step(action, np.ones(1, bool))[1][0] for _ in range(paced.horizon)))
        lasted.append(simulator.data[0].time)
    assert lasted[0] == pytest.approx(lasted[1], rel=1e-9)
    forces = 0.02 if name in ("ant", "humanoid") else 0.0  # of contact, looked at more often
    assert returns[0] == pytest.approx(returns[1], rel=1e-6 + forces)


def test_the_horizon_follows_the_frame_skip_unless_it_is_asked_for() -> None:
    make = quell.training.methods.make_task  # type: ignore[attr-defined]
    config = quell.training.methods.make_config("halfcheetah", overrides={"frame_skip": 1})  # type: ignore[attr-defined]
    assert make(config).horizon == 5000
    assert make(config, make(config)).horizon == 5000
    assert make(dataclasses.replace(config, horizon=1000)).horizon == 1000


def test_hidden_and_noisy_observations() -> None:
    task = quell.task("halfcheetah", horizon=200)
    hidden, noisy = in_regime(task, hide=(0, 16)), in_regime(task, hide=(0, 16), obs_noise=0.5)
    starts, shown = [one.simulator(4) for one in (task, hidden, noisy)], []
    for simulator in starts:
        obs = simulator.reset([np.random.default_rng(k) for k in range(4)])
        still, all_of_them = np.zeros((4, 6), np.float32), np.ones(4, bool)
        seen = [np.array(simulator.step(still, all_of_them)[0]) for _ in range(150)]
        shown.append(np.array([np.array(obs), *seen]))
    assert np.array_equal(shown[1], shown[0][..., 1:16])
    noise = shown[2] - shown[1]
    assert noise.std() == pytest.approx(0.5, rel=0.03)  # 9,060 numbers: 0.7%
    assert abs(np.corrcoef(noise[:-1, 0, 0], noise[1:, 0, 0])[0, 1]) < 0.35  # 150 pairs: 4 standard errors
    assert hidden.rows(np.arange(17.0))[0].tolist() == [list(range(1, 16))]


def test_a_pair_that_shares_its_reset_sees_the_same_noise() -> None:
    simulator = in_regime(quell.task("swimmer"), obs_noise=1.0).simulator(3)
    obs = simulator.reset([np.random.default_rng(seed) for seed in (1, 1, 2)])
    assert np.array_equal(obs[0], obs[1])
    assert not np.array_equal(obs[0], obs[2])


class StopAt(quell.Callback):
    def __init__(self, iteration: int) -> None:
        self.last = iteration

    def on_iteration(self, row: dict[str, Any]) -> None:
        self.stop_requested = row["iteration"] >= self.last


def test_any_number_of_workers_and_a_resumed_run_have_the_same_bits(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"steps": 1200, "horizon": 60, "pairs": 2, "batch_steps": 0, "progress": False}
    settings |= {**EVERYTHING, "eval_every": 2, "eval_episodes": 2, "out": tmp_path, "method": "natural-cv"}
    runs = [quell.train("hopper", workers=count, **settings) for count in (1, 2)]
    half = quell.train("hopper", workers=1, callbacks=StopAt(3), **settings)
    assert half.iteration == 3
    runs.append(quell.resume(half.path, workers=2, progress=False))
    for other in runs[1:]:
        assert np.array_equal(runs[0].theta, other.theta)
    assert runs[0].policy.policy.obs_size == 9


def test_an_environment_of_ones_own_can_be_in_a_regime(tmp_path: Path, in_process: None) -> None:
    import gymnasium

    settings: dict[str, Any] = {"steps": 400, "hide": 0, "delay": "end", "progress": False, "out": tmp_path}
    run = quell.train(lambda: gymnasium.make("CartPole-v1"), **settings)
    assert run.policy.policy.obs_size == 3
    again = quell.load(run.path, env=lambda: gymnasium.make("CartPole-v1"))
    assert again.task.obs_size == 3
    assert again.policy(np.zeros(4)) in (0, 1)
    scores = [quell.evaluate(one, episodes=3).returns for one in (run, again)]
    assert np.array_equal(scores[0], scores[1])


@pytest.mark.parametrize(
    ("task", "asked", "said"),
    [
        ("halfcheetah", {"hide": (17,)}, "must leave some of halfcheetah's observations, 0 to 16"),
        ("lqr", {"hide": (0, 1, 2)}, "must leave some"),
        ("lqr", {"frame_skip": 2}, "is not read by lqr"),
        ("lqr", {"delay": -1}, "delay"),
        ("lqr", {"obs_noise": -0.1}, "obs_noise"),
    ],
)
def test_conditions_that_make_no_sense_are_refused(task: str, asked: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        quell.train(task, steps=100, out=tmp_path / "runs", progress=False, **asked)
    assert not list(tmp_path.rglob("config.json"))
