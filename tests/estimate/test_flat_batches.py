"""Batches whose episodes all earned the same: when theta goes its usual way, and when less far."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from conftest import Collector
from linear_gaussian import POLICY, THETA, LinearGaussian

from quell.estimate import Estimate
from quell.estimate.actor_critic import ActorCritic
from quell.estimate.control_variate.advantages import AdvantageColumn
from quell.estimate.ppo import Ppo
from quell.estimate.returns import alike
from quell.perturb import Unperturbed
from quell.perturb.gaussian import Gaussian
from quell.presets import NATURAL_CV
from quell.types import Array, Batch, State

KINDS = [NATURAL_CV, ActorCritic(), Ppo(epochs=2)]
everyone = pytest.mark.parametrize("estimator", KINDS, ids=lambda e: e.name)


class Batches:
    """Batches of one setting, with rewards of one's own."""

    def __init__(self, estimator: Any) -> None:
        directions = Gaussian(sigma=0.3) if estimator.needs.perturbed else Unperturbed()
        self.estimator = estimator
        self.data = Collector(LinearGaussian(), POLICY, pairs=4, directions=directions)
        self.state: State = estimator.init(self.data.problem)
        self.number = 0

    def batch(self) -> Batch:
        self.number += 1
        return self.data.batch(THETA, self.number)

    def learn(self, batch: Batch | None = None, rewards: Array | None = None) -> Estimate:
        """The estimate from a batch, with its own rewards or others; what it taught is kept."""
        batch = self.batch() if batch is None else batch
        if rewards is not None:
            batch = dataclasses.replace(batch, rollouts=dataclasses.replace(batch.rollouts, rewards=rewards))
        found = self.data.estimate(self.estimator, batch, self.state)
        self.state = found.state
        return found

    def earn(self, reward: float) -> Estimate:
        """All episodes the same reward on every step."""
        batch = self.batch()
        return self.learn(batch, np.full_like(batch.rollouts.rewards, reward))


@everyone
@pytest.mark.parametrize("reward", [0.0, -1.0, 0.1])
def test_where_nothing_else_was_earned_steps_are_whole(estimator: Any, reward: float) -> None:
    """From the first batch on, also where a critic is right to the last bit: it predicts 0 before it learns."""
    batches = Batches(estimator)
    for _ in range(4):
        found = batches.earn(reward)
        assert np.isfinite(found.gradient).all()
        assert np.any(found.gradient)
        assert found.caution.share == 1


@pytest.mark.parametrize("estimator", KINDS[:2], ids=lambda e: e.name)
def test_at_the_best_return_steps_are_short(estimator: Any) -> None:
    """As the variance of advantages says; less and less as the critic learns. A worse batch, or one whose returns
    differ, is stepped along in full."""
    batches = Batches(estimator)
    best = max(float(batches.learn().state["seen.highest"]) for _ in range(3)) / 6
    spread = float(batches.state["seen.spread"])
    assert spread > 0
    shares = [batches.earn(best + 0.1).caution.share for _ in range(60)]
    assert 0 < shares[-1] < 0.1 * max(shares)
    assert max(shares) <= 1
    assert batches.state["seen.spread"] == spread, "these batches say nothing of it"
    assert batches.earn(best + 0.101).caution.share < 1, "better than ever"
    assert batches.earn(best - 1).caution.share == 1
    assert batches.learn().caution.share == 1


def test_ppo_shortens_nothing() -> None:
    batches = Batches(Ppo(epochs=2))
    best = float(batches.learn().state["seen.highest"]) / 6
    assert [batches.earn(best + 0.1).caution.share for _ in range(10)] == [1.0] * 10


def test_the_share_is_the_ratio_of_variances() -> None:
    estimator = ActorCritic(gamma=0.9, line_search=True)
    batches = Batches(estimator)
    advantages = []
    for reward in (None, 3.0):
        batch = batches.batch()
        rewards = batch.rollouts.rewards if reward is None else np.full_like(batch.rollouts.rewards, reward)
        rollouts = dataclasses.replace(batch.rollouts, rewards=rewards)
        seen = dataclasses.replace(batch, rollouts=rollouts)
        advantages.append(batches.data.sums(estimator, seen, batches.state)["collected.steps"][:, -1])
        found = batches.learn(batch, rewards)
    assert found.caution.share == pytest.approx(min(1.0, advantages[1].var() / advantages[0].var()), rel=1e-6)


def test_nothing_is_shortened_by_its_own_batch_where_nothing_may_be_biased() -> None:
    batches = Batches(dataclasses.replace(NATURAL_CV, columns=AdvantageColumn(gamma=1.0, trace=1.0)))
    best = float(batches.learn().state["seen.highest"])
    found = batches.earn(best / 6 + 0.1)
    assert found.caution.share == 1
    assert np.any(found.gradient)


@everyone
def test_a_batch_without_a_sound_return_is_forgotten(estimator: Any) -> None:
    batches = Batches(estimator)
    batches.learn()
    before = dict(batches.state)
    found = batches.earn(np.nan)
    assert found.caution.share == 1
    for name in ("seen.lowest", "seen.highest", "seen.spread"):
        assert found.state[name] == before[name]


SAME = [[0.0, 0.0], [0.3, 0.1 + 0.2], [-200.0, -200.0], [5.0]]
DIFFERENT: list[list[float]] = [[], [0.0, 1e-9], [1e300, -1e300], [np.nan, np.nan]]


@pytest.mark.parametrize("returns", SAME + DIFFERENT)
def test_alike_is_equal_up_to_rounding(returns: list[float]) -> None:
    assert alike(np.array(returns)) == (returns in SAME)
