"""HalfCheetah(R) against 40 recorded episodes of the original, each from its recorded joints."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from quell import tasks
from quell.errors import MissingExtra, installing
from quell.tasks.roboschool.halfcheetah import RoboschoolHalfCheetah, reward_terms

pytest.importorskip("pybullet")

STATES = ("x", "floor")


class FixedJoints:
    """Stands in for a generator: the recorded draw."""

    def __init__(self, joints):
        self.joints = joints

    def uniform(self, low, high, size):
        assert (low, high, size) == (-0.1, 0.1, 6)
        return self.joints


@pytest.fixture(scope="module")
def replayed():
    """Per recorded step: its number within the episode, and errors of observation, reward terms and end."""
    with np.load(Path(__file__).parent / "data" / "roboschool_halfcheetah.npz") as file:
        data = dict(file)
    simulator = RoboschoolHalfCheetah().simulator(1)
    active = np.ones(1, bool)
    rows = []
    for episode, joints in enumerate(data["initial_joints"]):
        simulator.reset([FixedJoints(joints)])  # type: ignore[list-item]
        for number, row in enumerate(np.flatnonzero(data["episode"] == episode)):
            before = {name: simulator.state[name].copy() for name in STATES}
            action = data["action"][row : row + 1]
            observation, reward, terminated = simulator.step(action, active)
            terms = reward_terms(np, before, action, simulator.state, simulator._limits)[0]
            assert reward[0] == pytest.approx(terms.sum(), abs=1e-12)
            rows.append(
                (
                    number,
                    np.abs(observation[0] - data["obs"][row]).max(),
                    np.abs(terms - data["reward_terms"][row]),
                    terminated[0] == data["done"][row],
                )
            )
    return tuple(np.array(column) for column in zip(*rows, strict=True))


def test_the_first_ten_steps_are_the_originals(replayed):
    number, observation, terms, _ = replayed
    early = number < 10
    assert early.sum() == 400
    assert np.median(observation[early]) < 1e-6
    assert observation[early].max() < 1e-3
    # alive, progress, electricity, limits, parts in touch
    np.testing.assert_array_less(terms[early].max(axis=0), [1e-9, 1e-3, 1e-3, 1e-9, 1e-9])


def test_whole_episodes_end_when_the_originals_did(replayed):
    number, observation, terms, ended = replayed
    assert number.max() == 38
    assert ended.all()
    assert np.median(observation) < 1e-5
    assert np.quantile(observation, 0.9) < 0.01  # what remains starts at single impacts late in an episode
    assert (terms[:, 3] > 0.1).mean() < 0.01
    assert terms[:, 1].mean() < 0.01
    assert terms[:, 4].max() == 0


def play(seeds, actions):
    simulator = RoboschoolHalfCheetah().simulator(len(seeds))
    seen = [simulator.reset([np.random.default_rng(seed) for seed in seeds]).copy()]
    rewards, active = [], np.ones(len(seeds), bool)
    for action in actions:
        observation, reward, _ = simulator.step(action, active)
        seen.append(observation.copy())
        rewards.append(reward.copy())
    return np.array(seen), np.array(rewards)


def test_a_member_depends_on_its_generator_alone():
    actions = np.random.default_rng(0).uniform(-1, 1, (40, 3, 6))
    seen, rewards = play(range(3), actions)
    alone, alone_rewards = play([2, 0], actions[:, [2, 0]])
    np.testing.assert_array_equal(alone, seen[:, [2, 0]])
    np.testing.assert_array_equal(alone_rewards, rewards[:, [2, 0]])
    assert len(np.unique(seen[0, :, 8])) == 3


def test_a_used_world_starts_afresh():
    actions = np.random.default_rng(1).uniform(-1, 1, (60, 1, 6))
    simulator = RoboschoolHalfCheetah().simulator(1)
    active = np.ones(1, bool)
    runs = []
    for seed in (4, 5, 4):
        seen = [simulator.reset([np.random.default_rng(seed)]).copy()]
        seen += [simulator.step(action, active)[0].copy() for action in actions]
        runs.append(np.array(seen))
    np.testing.assert_array_equal(runs[0], runs[2])
    assert not np.array_equal(runs[0], runs[1])
    fresh, _ = play([4], actions)
    np.testing.assert_array_equal(runs[0], fresh)


def test_resets_are_uniform_in_the_joints():
    simulator = RoboschoolHalfCheetah().simulator(1)
    seen = []
    for seed in range(200):
        observation = simulator.reset([np.random.default_rng(seed)])
        seen.append(simulator.state["joint"][0].copy())
        np.testing.assert_array_equal(observation[0, [0, 1, 2, 3, 5]], [0, 0, 1, 0, 0])
    joints = np.array(seen)
    assert np.abs(joints).max() <= 0.1
    np.testing.assert_allclose(joints.mean(axis=0), 0, atol=5 * 0.1 / np.sqrt(3 * 200))
    np.testing.assert_allclose(joints.std(axis=0), 0.1 / np.sqrt(3), rtol=0.2)


def test_inactive_members_stand_still_and_nan_actions_only_cost_their_own_reward():
    simulator = RoboschoolHalfCheetah().simulator(2)
    simulator.reset([np.random.default_rng(seed) for seed in range(2)])
    before = simulator.state["torso"].copy()
    actions = np.zeros((2, 6))
    actions[0, 2] = np.nan
    observation, reward, _ = simulator.step(actions, np.array([True, False]))
    assert np.isnan(reward[0])
    assert np.isfinite(observation).all()
    np.testing.assert_array_equal(simulator.state["torso"][1], before[1])
    assert simulator.state["torso"][0, 2] < before[0, 2]  # it falls


def test_touching_parts_and_stops_cost():
    rest = {"x": np.zeros(1), "floor": np.zeros((1, 6))}
    after = {
        "x": np.array([0.033]),
        "joint": np.array([[1.0, 0, 0, 0, 0, -1.0]]),
        "speed": np.full((1, 6), 2.0),
        "angles": np.zeros((1, 3)),
        "floor": np.ones((1, 6)),
        "clash": np.array([2.0]),
    }
    terms = reward_terms(np, rest, np.full((1, 6), 0.5), after, np.array([[-1.0] * 6, [1.0] * 6]))
    np.testing.assert_allclose(terms, [[1, 2, -0.2 - 0.025, -0.4, -2]])
    fallen = reward_terms(np, after, np.zeros((1, 6)), after, np.array([[-1.0] * 6, [1.0] * 6]))
    assert fallen[0, 0] == -1  # the floor touched a leg one step ago
    feet_only = {**after, "floor": np.array([[1.0, 0, 0, 1, 0, 0]])}
    assert reward_terms(np, feet_only, np.zeros((1, 6)), after, np.array([[-1.0] * 6, [1.0] * 6]))[0, 0] == 1


def test_a_missing_extra_is_said_at_once(monkeypatch):
    monkeypatch.setattr("quell.errors.find_spec", lambda module: None)
    with pytest.raises(MissingExtra, match=re.escape(installing("robo"))):
        tasks.get("roboschool-halfcheetah").simulator(1)
