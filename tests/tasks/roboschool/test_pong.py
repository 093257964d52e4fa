"""Pong against recordings of the original: 6 episodes of 1000 steps, each step from the recorded state."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from quell.tasks.roboschool.pong import SHORTEST_RALLY, RoboschoolPong, draw_serves, first_state, referee
from quell.tasks.roboschool.pong_physics import HALF, ORIGINS, REACH, substep


@pytest.fixture(scope="module")
def recording():
    with np.load(Path(__file__).parent / "data" / "roboschool_pong.npz") as file:
        data = dict(file)
    # The recorded joints are those before a wall turned the ball; turn it here. Steps that begin with a serve
    # are left out, because the ball that was served is not in the recording.
    joints = data["pre"].astype(np.float64)
    y, vy = joints[:, 10], joints[:, 11]
    joints[:, 11] = np.where((np.abs(y) > 1) & (y * vy > 0), -vy, vy)
    served = np.ones(len(joints), bool)
    served[1:] = (data["opponent_target"][1:] != data["opponent_target"][:-1]).any(axis=1)
    served[np.searchsorted(data["episode"], np.arange(6))] = True
    data = {key: value[~served] for key, value in data.items()} | {"joints": joints[~served]}
    return data, RoboschoolPong().step(np, state_of(data), data["action"])


def state_of(data):
    count = len(data["joints"])
    return {
        "position": data["joints"][:, ::2],
        "velocity": data["joints"][:, 1::2],
        "target": data["opponent_target"],
        "timeout": data["pre_timeout"],
        "heading": data["pre_timeout_dir"].astype(float),
        "bounces": data["pre_bounces"],
        "serves": np.zeros((count, 2, 5)),
        "served": np.zeros(count, int),
    }


def hits(data):
    """Steps in which the recorded ball jumped in speed."""
    return np.abs(2 * data["obs"][:, [9, 11]] - data["joints"][:, [9, 11]]).max(axis=1) > 0.1


def test_motion_without_contact_is_that_of_the_original(recording):
    data, (_, observation, _) = recording
    error = np.abs(observation - data["obs"]).max(axis=1)[~hits(data)]
    assert len(error) > 5800
    assert (error < 1e-4).mean() > 0.99


def test_hits_are_those_of_the_original(recording):
    data, (_, observation, _) = recording
    error = 2 * np.hypot(*(observation - data["obs"])[hits(data)][:, [9, 11]].T)
    assert len(error) == 40
    assert np.median(error) < 5e-4
    assert error.max() < 0.01


def test_rewards_clock_and_bounces_are_those_of_the_original(recording):
    data, (state, _, reward) = recording
    np.testing.assert_array_equal(state["timeout"], data["post_timeout"])
    np.testing.assert_array_equal(state["bounces"], data["post_bounces"])
    difference = np.abs(reward - data["reward"])
    assert difference[~hits(data)].max() < 1e-9
    assert difference.max() < 1e-4  # a return pays 0.01 |vx|
    assert (data["reward"] > 0.5).sum() == 15
    assert (data["reward"] < -0.5).sum() == 44


def play(seeds, actions):
    simulator = RoboschoolPong(horizon=len(actions)).simulator(len(seeds))
    seen = [simulator.reset([np.random.default_rng(seed) for seed in seeds])]
    rewards = []
    for action in actions:
        observation, reward, terminated = simulator.step(action, np.ones(len(seeds), bool))
        assert not terminated.any()
        seen.append(observation.copy())
        rewards.append(reward.copy())
    return np.array(seen), np.array(rewards)


def test_a_member_does_not_depend_on_its_company():
    actions = np.random.default_rng(0).uniform(-1.5, 1.5, (600, 6, 2))
    seen, rewards = play(range(6), actions)
    for order in ([3], [5, 3, 0]):
        alone, alone_rewards = play(order, actions[:, order])
        np.testing.assert_array_equal(alone, seen[:, order])
        np.testing.assert_array_equal(alone_rewards, rewards[:, order])
    assert np.abs(rewards).sum() > 10


def test_jax_runs_the_same_functions(recording):
    """One substep and the rules, each compiled on its own: the whole step takes long to compile."""
    import jax
    import jax.numpy as jnp

    data, _ = recording
    chosen = (np.flatnonzero(hits(data))[:, None] + np.arange(-2, 3)).reshape(-1)  # around contacts
    state = {key: value[chosen] for key, value in state_of(data).items()}
    arrays = state["position"], state["velocity"], data["action"][chosen], state["target"]
    with jax.enable_x64(True):  # in float32, a joint at rest at its stop falls on either side of it
        compiled = jax.jit(lambda *arrays: substep(jnp, *arrays))
        for _ in range(4):
            expected = substep(np, *arrays)
            for ours, theirs in zip(expected, compiled(*arrays), strict=True):
                np.testing.assert_allclose(theirs, ours, atol=1e-9)
            arrays = *expected, *arrays[2:]
        state["position"], state["velocity"] = expected
        following, reward = referee(np, state)
        compiled_following, compiled_reward = jax.jit(lambda state: referee(jnp, state))(state)
    np.testing.assert_allclose(compiled_reward, reward, atol=1e-12)
    for key, value in following.items():
        np.testing.assert_allclose(compiled_following[key], value, atol=1e-12)


def test_serves_are_drawn_as_stated():
    serves = np.concatenate([draw_serves(np.random.default_rng(seed), 1000) for seed in range(400)])
    low, high = np.array([-2.5, -0.9, -2, -0.9, -0.9]), np.array([-2, 0.9, 2, 0.9, 0.9])
    assert (serves >= low).all()
    assert (serves <= high).all()
    deviation = (high - low) / np.sqrt(12 * len(serves))
    assert (np.abs(serves.mean(axis=0) - (low + high) / 2) < 5 * deviation).all()
    np.testing.assert_allclose(serves.std(axis=0), (high - low) / np.sqrt(12), rtol=0.03)
    state = first_state(np, serves[None])
    np.testing.assert_array_equal(state["velocity"][0, 4:], serves[0, [0, 2]])
    np.testing.assert_array_equal(state["position"][0], [0, 0, 0, 0, 0, serves[0, 1]])


def test_no_rally_is_shorter_than_the_table_of_serves_assumes():
    nearest = -ORIGINS[0, 0] - 0.3 - HALF[0] - REACH  # the ball's way to a paddle that is all the way forward
    assert nearest / (2.5 * 0.0165) > SHORTEST_RALLY


def test_an_unreturned_ball_is_served_anew_after_150_steps():
    state = first_state(np, np.array([[[-2.0, 0, 0, 0.5, 0.5], [-2.5, 0.1, 1, -0.5, -0.5], [-2.1, 0, 0, 0, 0]]]))
    state["velocity"] = np.array([[0, 0, 0, 0, -0.001, 0.0]])  # a ball that hardly moves
    for steps in range(1, 151):
        state, observation, reward = RoboschoolPong().step(np, state, np.zeros((1, 2)))
        assert reward[0] == 0
        if steps < 150:
            assert observation[0, 12] == pytest.approx(-steps / 150)
    assert observation[0, 12] == 0
    np.testing.assert_array_equal(state["target"], [[-0.5, -0.5]])
    assert state["velocity"][0, 4] == -2.5


def test_passing_the_opponent_scores_only_after_a_return():
    state = first_state(np, np.tile(np.array([-2.0, 0, 0, 0.5, 0.5]), (4, 3, 1)))
    state["position"][:, 4] = [1.7, 1.7, -1.7, 1.6]
    state["velocity"][:, 4] = [2, 2, -2, 2]
    state["heading"] = np.array([1.0, 1, -1, 1])
    state["bounces"] = np.array([0, 1, 0, 1])
    following, reward = referee(np, state)
    np.testing.assert_array_equal(reward, [0, 1, -1, 0])
    np.testing.assert_array_equal(following["position"][:, 4], [0, 0, 0, 1.6])
    np.testing.assert_array_equal(following["served"], [2, 2, 2, 1])
