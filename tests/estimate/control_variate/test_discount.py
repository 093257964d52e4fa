"""The discounts of the control variates."""

from __future__ import annotations

import numpy as np
import pytest

from quell.estimate.control_variate.discount import FixedDiscounts, LearnedDiscount


def test_gamma_descends_the_variance() -> None:
    """With a made-up v(phi) that grows with phi, phi must fall; with v constant it must stay."""
    rule = LearnedDiscount(start=0.99, rate=0.05)
    state = rule.init()
    start = float(state["phi"])
    for iteration in range(30):
        gammas = np.array(rule.at(np, 0, state, iteration))
        phis = np.log(1 - gammas[1:])
        v = np.exp(2 * phis)
        state = rule.update(0, state, iteration, np.sqrt(v)[:, None])
    assert float(state["phi"]) < start - 0.5
    flat = rule.update(0, state, 0, np.ones((10, 1)))
    assert flat["phi"] == state["phi"]
    assert rule.at(np, 0, rule.init(), 0)[0] == pytest.approx(0.99)


def test_gamma_moves_at_the_printed_rate_whatever_the_scale_of_the_variance() -> None:
    """At 1e-4, phi goes by about 1e-4 / 0.02 in an iteration where v has a slope, however small against v itself."""
    for scale, slope in ((1.0, 1.0), (1e12, 1.0), (1.0, 1e-4)):
        rule = LearnedDiscount(rate=1e-4)
        state = rule.init()
        for iteration in range(100):
            phis = np.log(1 - np.array(rule.at(np, 0, state, iteration))[1:])
            state = rule.update(0, state, iteration, np.sqrt(scale * np.exp(slope * phis))[:, None])
        assert -0.55 < float(state["phi"]) - float(rule.init()["phi"]) < -0.45
        assert rule.at(np, 0, state, 0)[0] == pytest.approx(0.994, abs=1e-3)


def test_a_rate_of_zero_leaves_gamma_alone_and_trials_differ_by_iteration() -> None:
    rule = LearnedDiscount(start=0.9, rate=0.0)
    state = rule.update(0, rule.init(), 0, np.arange(10.0)[:, None])
    assert state["phi"] == rule.init()["phi"]
    assert rule.at(np, 0, state, 0)[1:] != rule.at(np, 0, state, 1)[1:]
    assert rule.at(np, 0, state, 0)[1:] != rule.at(np, 1, state, 0)[1:]
    assert list(FixedDiscounts(gammas=(1.0, 0.5)).at(np, 0, {}, 3)) == [1.0, 0.5]
