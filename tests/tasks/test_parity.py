"""Our tasks against their originals, number for number.

Everything runs the same MuJoCo calls in the same order as the original, so episodes agree for as long as one
cares to look, through contacts too; the tolerances leave room for another order of additions, not for physics.
"""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np
import pytest
from originals import CASES, CONTROL_SUITE, Case, ControlSuiteOriginal, every_case

from quell.tasks.control_suite.quadruped import RANGES

STEPS = 150
EPISODES = 2
OBSERVATION_TOLERANCE = 1e-8
REWARD_TOLERANCE = 1e-7
ALONE = np.ones(1, bool)


@every_case
def test_episodes_match_the_original(case: Case) -> None:
    """Same reset draws, same random actions (a fifth of them beyond the limits): same numbers."""
    task, original = case.task(), case.original()
    simulator: Any = task.simulator(1)
    low, high = 1.25 * original.model.actuator_ctrlrange.T
    for seed in range(EPISODES):
        expected = original.reset(np.random.default_rng(seed))
        observation = simulator.reset([np.random.default_rng(seed)])
        np.testing.assert_allclose(observation[0], expected, rtol=0, atol=OBSERVATION_TOLERANCE)
        for field in ("qpos", "qvel"):  # also what the observation leaves out
            np.testing.assert_array_equal(getattr(simulator.data[0], field), getattr(original.data, field))
        terrain = original.model.hfield_data
        np.testing.assert_array_equal(simulator.models[0].hfield_data[: terrain.size], terrain)
        actions = np.random.default_rng(100 + seed).uniform(low, high, (STEPS, task.action_size))
        for action in actions:
            expected, expected_reward, expected_end = original.step(action)
            observation, reward, terminated = simulator.step(action[None], ALONE)
            np.testing.assert_allclose(observation[0], expected, rtol=0, atol=OBSERVATION_TOLERANCE)
            np.testing.assert_allclose(reward[0], expected_reward, rtol=0, atol=REWARD_TOLERANCE)
            assert bool(terminated[0]) == expected_end
        assert expected.std() > 0


@every_case
def test_sizes_and_clock_match_the_original(case: Case) -> None:
    task, original = case.task(), case.original()
    observation = task.simulator(2).reset([np.random.default_rng(0)] * 2)
    assert observation.shape == (2, task.obs_size)
    assert observation.dtype == np.float64
    assert original.model.nu == task.action_size
    assert original.reset(np.random.default_rng(0)).shape == (task.obs_size,)
    assert task.frame_skip * task.model().opt.timestep == pytest.approx(original.step_seconds, rel=1e-12)
    assert task.horizon == original.horizon


@pytest.mark.parametrize("case", [case for case in CASES if case.name in CONTROL_SUITE], ids=str)
def test_rewards_match_where_random_play_never_goes(case: Case) -> None:
    """States scattered around the model's default pose, thrown far and fast, cover both ends of each reward."""
    task, original = case.task(), case.original()
    assert isinstance(original, ControlSuiteOriginal)
    simulator: Any = task.simulator(1)
    ours = simulator.data[0]
    rng = np.random.default_rng(7)
    rewards = []
    for _ in range(400):
        qpos = original.model.qpos0 + rng.choice([0.02, 0.2, 1.0]) * rng.standard_normal(original.model.nq)
        qvel = rng.choice([0.1, 1.0, 10.0]) * rng.standard_normal(original.model.nv)
        if case.name.startswith("dm-quadruped"):
            qpos[:2] *= 30  # so that some have escaped
        action = rng.choice([0.1, 1.0]) * rng.standard_normal(task.action_size)
        for model, data in ((original.model, original.data), (simulator.models[0], ours)):
            mujoco.mj_resetData(model, data)
            data.qpos[:], data.qvel[:] = qpos, qvel
            mujoco.mj_forward(model, data)
        state = {field: getattr(ours, field)[None].copy() for field in task.fields}
        expected = original.reward_now(action)
        reward = task.reward(np, state, action[None], state, np.zeros(1, bool))[0]
        assert reward == pytest.approx(expected, rel=0, abs=REWARD_TOLERANCE)
        rewards.append(expected)
    assert min(rewards) < 0.1
    assert max(rewards) > 0.9


def test_escape_sees_what_the_original_sees() -> None:
    """Range finders in any pose: high, low, partly sunk into a hill, far out, beyond the rim."""
    case = Case("dm-quadruped-escape")
    task, original = case.task(), case.original()
    simulator: Any = task.simulator(1)
    rng = np.random.default_rng(3)
    simulator.reset([rng])
    model, data = simulator.models[0], simulator.data[0]
    original.model.hfield_data[:] = model.hfield_data
    seen = []
    for _ in range(150):
        qpos = data.qpos.copy()
        qpos[:3] = rng.uniform([-36, -36, 0.5], [36, 36, 5])
        qpos[3:7] = rng.standard_normal(4) * [1, 0.3, 0.3, 1]
        data.qpos[:] = original.data.qpos[:] = qpos
        simulator.members[0].forward()
        mujoco.mj_forward(original.model, original.data)
        state = {field: getattr(data, field)[None] for field in task.fields}
        ranges = original.data.sensordata[RANGES]
        expected = np.where(ranges == -1, 1, np.tanh(ranges))
        np.testing.assert_allclose(task.observe(np, state)[0, -20:], expected, rtol=0, atol=1e-8)
        seen.append(expected)
    assert np.mean(np.array(seen) < 0.99) > 0.2
