"""Episodes in this process: shared resets, nothing counted after the end, groups, action bounds, states to look at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from conftest import Collector
from digests import digest_of_rollouts
from troubled import Troubled

from quell.policy import Policy
from quell.rollout.simulate import spread_over
from quell.tasks.base import Array, Task
from quell.types import Episodes, ObsStats, Rollouts


def collect(shared_reset: bool, trouble: str = "ends") -> tuple[Rollouts, Collector]:
    collector = Collector(Troubled(trouble=trouble), Policy(2, 2), pairs=5)
    episodes = Episodes.of_pairs(0, 5, record=True, shared_reset=shared_reset)
    return collector.rollout(collector.theta(), episodes), collector


def test_a_pair_shares_its_reset_but_not_its_action_noise() -> None:
    shared, _ = collect(True)
    apart, _ = collect(False)
    assert shared.trajectories is not None
    assert apart.trajectories is not None
    first = shared.trajectories.obs[:, 0].reshape(5, 2, 2)
    assert (first[:, 0] == first[:, 1]).all()
    assert (first[0] != first[1]).all()
    other = apart.trajectories.obs[:, 0].reshape(5, 2, 2)
    assert (other[:, 0] != other[:, 1]).all()
    actions = shared.trajectories.actions[:, 0].reshape(5, 2, 2)
    assert np.abs(actions[:, 0] - actions[:, 1]).min() > 1e-3


def test_nothing_counts_after_the_end() -> None:
    found, _ = collect(True)
    paths = found.trajectories
    assert paths is not None
    assert set(found.steps) - {10}, "no episode ended early: the test would show nothing"
    assert (found.returns > -1e3).all()
    assert (found.returns <= 0).all()  # a step after the end would add 1e9
    for i, end in enumerate(found.steps):
        assert found.terminated[i] == (end < 10)
        assert (found.rewards[i, end:] == 0).all()
        assert (paths.obs[i, end:] == 0).all()
        assert (paths.actions[i, end:] == 0).all()
        assert (found.rewards[i, :end] != 0).all()
        seen = paths.obs[i, :end].astype(float)
        assert found.obs_sums[i, 0] == pytest.approx(seen.sum(axis=0), rel=1e-5)
        assert found.obs_sums[i, 1] == pytest.approx(np.square(seen).sum(axis=0), rel=1e-5)


def test_an_episode_may_be_cut() -> None:
    """What comes before the cut is as it was, nothing counts behind it, and a cut is no end."""
    whole, collector = collect(True)
    cut = collector.rollout(collector.theta(), Episodes.of_pairs(0, 5, record=True, longest=4))
    assert cut.trajectories is not None
    assert whole.trajectories is not None
    assert set(whole.steps) - {10}, "no episode ended early: the test would show less"
    np.testing.assert_array_equal(cut.steps, np.minimum(whole.steps, 4))
    np.testing.assert_array_equal(cut.terminated, whole.terminated & (whole.steps <= 4))
    np.testing.assert_array_equal(cut.rewards[:, :4], whole.rewards[:, :4])
    np.testing.assert_array_equal(cut.trajectories.actions[:, :4], whole.trajectories.actions[:, :4])
    assert (cut.rewards[:, 4:] == 0).all()


def test_grouping_does_not_change_a_member() -> None:
    collector = Collector(Troubled(trouble="ends"), Policy(2, 2), pairs=4)
    episodes = Episodes.of_pairs(0, 4, record=True, shared_reset=True)
    whole = digest_of_rollouts(collector.rollout(collector.theta(), episodes))
    parts = digest_of_rollouts(collector.rollout(collector.theta(), episodes, [[5], [0, 7, 2], [1, 3, 4, 6]]))
    assert whole == parts


def test_normaliser_uses_real_steps_only() -> None:
    found, _ = collect(True)
    stats = ObsStats.empty(2).add(found.obs_sums, found.steps)
    paths = found.trajectories
    assert paths is not None
    real = np.concatenate([paths.obs[i, :end] for i, end in enumerate(found.steps)])
    mean, scale = stats.normaliser()
    assert mean == pytest.approx(real.mean(axis=0), abs=1e-5)
    assert 1 / scale == pytest.approx(real.std(axis=0), rel=1e-3)
    broken = found.obs_sums.copy()
    broken[0] = np.nan
    assert np.isfinite(ObsStats.empty(2).add(broken, found.steps).total).all()


def test_states_are_spread_over_the_episode() -> None:
    collector = Collector(Troubled(trouble="ends"), Policy(2, 2), pairs=4)
    episodes = Episodes.of_pairs(0, 4, record=True, states=3)
    rollouts = collector.rollout(collector.theta(), episodes)
    assert rollouts.states is not None
    assert rollouts.trajectories is not None
    for i, end in enumerate(rollouts.steps):
        assert (rollouts.states[i] == rollouts.trajectories.obs[i, [0, (end - 1) // 2, end - 1]]).all()
    assert spread_over(1, 4).tolist() == [0, 0, 0, 0]
    assert spread_over(9, 1).tolist() == [0]


@dataclass(frozen=True, kw_only=True)
class Echo(Task):
    """Rewards are the first coordinate of the actions as they arrive; actions count between -2 and 10."""

    horizon: int = 5
    name = "echo"
    summary = "test task"
    obs_size = 1
    action_size = 1
    bounds: ClassVar[Any] = (np.array([-2.0]), np.array([10.0]))

    def simulator(self, members: int) -> Echo:
        return self

    def reset(self, generators: Sequence[np.random.Generator]) -> Array:
        return np.ones((len(generators), 1))

    def step(self, actions: Array, active: Array) -> tuple[Array, Array, Array]:
        return np.ones((len(actions), 1)), actions[:, 0].astype(float), np.zeros(len(actions), bool)


@pytest.mark.parametrize("bounding", ["as-is", "clip", "scale"])
def test_action_bounds_in_an_episode(bounding: Any) -> None:
    """What arrives is bounded; what is recorded, and so what the policy gradient sees, is what was drawn."""
    policy = Policy(1, 1, hidden=(), init_std=3.0, actions=bounding)
    collector = Collector(Echo(), policy, pairs=50)
    rollouts = collector.rollout(collector.theta(), Episodes.of_pairs(0, 50, record=True))
    assert rollouts.trajectories is not None
    drawn = rollouts.trajectories.actions[:, :, 0].astype(float)
    assert drawn.min() < -2, "nothing is out of bounds: the test would show nothing"
    expected = {
        "as-is": drawn,
        "clip": np.clip(drawn, -2, 10),
        "scale": -2 + (np.clip(drawn, -1, 1) + 1) / 2 * 12,
    }[bounding]
    assert rollouts.rewards == pytest.approx(expected, rel=1e-6)
