"""Directions of low rank: right to leading order, and never formed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import Collector
from linear_gaussian import POLICY, THETA, LinearGaussian, smoothed_gradient

from quell.estimate.ars import Ars
from quell.estimate.es import Es
from quell.measure.rows import Row
from quell.perturb import draw_of, draw_pair
from quell.perturb.gaussian import Gaussian
from quell.perturb.low_rank import LowRank
from quell.policy import Policy
from quell.types import Array, Episodes

PAIRS = 400


def gradients(sigma: float, rank: int, iterations: int = 20) -> Array:
    """The gradient of that many batches, [iterations, d]."""
    data = Collector(LinearGaussian(), POLICY, pairs=PAIRS, directions=LowRank(sigma=sigma, rank=rank))
    return np.array(
        [data.estimate(Es(shaping="none"), data.batch(THETA, t, shared_noise=True)).gradient for t in range(iterations)]
    )


@pytest.mark.parametrize("rank", [1, 2])
def test_es_against_the_closed_form_at_a_small_sigma(rank: int) -> None:
    """|z| < 4 from the spread of 20 batches; an error of 25% of the gradient's length would be 5 standard errors. The
    two members share their action noise, which changes no mean and leaves the directions' noise alone."""
    found, exact = gradients(0.05, rank), smoothed_gradient(THETA, 0.05, 1.0, 6)
    error = found.std(axis=0, ddof=1) / np.sqrt(len(found))
    assert 5 * error.max() < 0.25 * np.linalg.norm(exact)
    assert np.abs((found.mean(axis=0) - exact) / error).max() < 4


@pytest.mark.parametrize("rank", [1, 4])
def test_the_bias_is_that_of_the_fourth_moment(rank: int) -> None:
    """Where the leading order vanishes: J = w^3 at 0 has the smoothed gradient 3 sigma^2, and ES makes of it E[eps^4]
    sigma^2 = (3 + 6 / r) sigma^2, three times as much at rank 1. A standard error is below 5%."""
    policy, pairs = Policy(1, 8, hidden=(8,), learn_std=False), 3000
    draw = draw_of(policy, 0, Episodes.of_pairs(0, pairs))
    eps = np.array([draw_pair(LowRank(rank=rank), draw, pair)[0][16:80] for pair in range(pairs)], np.float64)
    fourth = (eps**4).mean(axis=1)
    assert fourth.std() / np.sqrt(pairs) < 0.05 * fourth.mean()
    assert fourth.mean() == pytest.approx(3 + 6 / rank, rel=0.15)


def test_es_never_forms_a_direction(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither to act nor to estimate; and says the same as the same directions formed do."""
    policy = Policy(3, 2, hidden=(8,), learn_std=True)
    data = Collector(Three(), policy, pairs=6, directions=LowRank(sigma=0.1, rank=2))
    theta = data.theta()
    batch = data.batch(theta)
    draw = draw_of(policy, 0, batch.episodes)
    eps = np.array([draw_pair(data.problem.directions, draw, pair)[0] for pair in range(6)], np.float64)
    monkeypatch.setattr(LowRank, "plus", lambda *_: pytest.fail("a direction was formed"))
    draw_pair.cache_clear()
    data.rollout(theta, batch.episodes)
    for estimator in (Es(shaping="none"), Es(), Ars()):
        found = data.estimate(estimator, batch)
        rows = estimator.prepare(data.problem, batch, {})
        gaps = np.where(rows.pairs["good"], rows.pairs["fitness"][:, 0] - rows.pairs["fitness"][:, 1], 0.0) / 0.2
        each, count = (gaps[:, None] * eps)[rows.pairs["good"]], rows.pairs["good"].sum()
        assert found.gradient == pytest.approx(each.sum(axis=0) / count, rel=1e-3, abs=1e-4 * np.abs(each).max())
        variance = each.var(axis=0, ddof=1).sum() / count
        assert found.metrics["variance/method"] == pytest.approx(variance, rel=1e-4)


class Three(LinearGaussian):
    """Three observations of the same state."""

    obs_size = 3

    def initial(self, xp: Any, draws: Any) -> Any:
        state, one = super().initial(xp, draws)
        return state, xp.concatenate([one, one / 2, -one], axis=1)

    def step(self, xp: Any, state: Any, action: Any) -> Any:
        state, one, reward = super().step(xp, state, action)
        return state, xp.concatenate([one, state["x"]], axis=1), reward


def test_a_row_of_quell_variance_declares_the_bias_of_its_directions() -> None:
    assert Row("es", Es(shaping="none"), LowRank()).biased
    assert not Row("es", Es(shaping="none"), Gaussian()).biased
