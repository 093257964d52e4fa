"""ARS against its authors' formula, written out."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import Collector
from linear_gaussian import POLICY, THETA, LinearGaussian

from quell.estimate.ars import Ars
from quell.estimate.es import Es
from quell.estimate.reduce import directions_of
from quell.perturb.gaussian import Gaussian

SIGMA, ALPHA = 0.3, 0.02
DATA = Collector(LinearGaussian(), POLICY, pairs=8, directions=Gaussian(sigma=SIGMA))


def test_a_step_of_ars() -> None:
    """theta + alpha / (b s) sum over the b best of (r+ - r-) delta, with 2 sigma alpha as the rate of a plain step."""
    batch = DATA.batch(THETA)
    pairs = batch.rollouts.returns.reshape(-1, 2)
    best = sorted(range(8), key=lambda k: -max(pairs[k]))[:3]
    spread = pairs[best].std()
    way = sum((pairs[k, 0] - pairs[k, 1]) * directions_of(DATA.problem, batch.episodes, k)[0] for k in best)
    found = DATA.estimate(Ars(top=3 / 8), batch).gradient
    assert 2 * SIGMA * ALPHA * found == pytest.approx(ALPHA / (3 * spread) * way, rel=1e-4)


def test_all_directions_are_plain_es() -> None:
    batch = DATA.batch(THETA)
    assert (DATA.estimate(Ars(top=1.0), batch).gradient == DATA.estimate(Es(), batch).gradient).all()


def test_a_price_of_every_step_enters_the_choice() -> None:
    """Episodes of equal length: nothing changes. The returns themselves are not touched."""
    batch = DATA.batch(THETA)
    plain, priced = (DATA.estimate(Ars(top=0.5, per_step=p), batch).gradient for p in (0.0, -1.0))
    assert priced == pytest.approx(plain, rel=1e-5)
    steps = batch.rollouts.steps.copy()
    batch.rollouts.steps[:] = np.arange(len(steps)) * 50
    priced = DATA.estimate(Ars(top=0.5, per_step=-1.0), batch).gradient
    assert np.linalg.norm(priced - plain) > 0.1 * np.linalg.norm(plain)
