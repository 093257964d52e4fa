"""Do resets follow the originals' distributions? Independent seeds on both sides, every coordinate compared.

With n samples a side and Bonferroni over a task's c coordinates at a family level of 1 %, the two-sample
Kolmogorov-Smirnov test rejects a distance above sqrt(ln(2c / 0.01) / n): about 0.09 for n = 1000 and c = 18, so
that a true distance of 0.15 is missed less than once in a hundred. Means and variances are compared at the same
level; a noise scale that is off by 20 % is missed about twice in a hundred. Three of the Control Suite's tasks reset
slowly in the original and get fewer samples; all resets are also compared draw for draw in test_parity.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from originals import CASES, Case
from scipy import stats

from quell.keys import Purpose, generator

SAMPLES = {"dm-cheetah-run": 400, "dm-quadruped-walk": 300, "dm-quadruped-escape": 80}
LEVEL = 0.01
SLOW = {"dm-quadruped-escape": [pytest.mark.slow]}
LATEST = [pytest.param(case, marks=SLOW.get(case.name, [])) for case in CASES if case.version != "v4"]
"""v4 and v5 reset alike."""


@pytest.mark.parametrize("case", LATEST, ids=str)
def test_reset_distribution(case: Case) -> None:
    count = SAMPLES.get(case.name, 1000)
    task, original = case.task(), case.original()
    simulator: Any = task.simulator(1)
    ours, theirs = [], []
    for i in range(count):
        simulator.reset([generator(1, Purpose.ENVIRONMENT, i)])
        ours.append(_initial_state(simulator.models[0], simulator.data[0]))
        original.own_reset(10_000 + i)
        theirs.append(_initial_state(original.model, original.data))
    x, y = np.array(ours), np.array(theirs)

    fixed = np.ptp(y, axis=0) == 0
    np.testing.assert_array_equal(x[:, fixed], y[:, fixed])
    x, y = x[:, ~fixed], y[:, ~fixed]
    level = LEVEL / x.shape[1]

    p_values = [stats.ks_2samp(a, b, method="asymp").pvalue for a, b in zip(x.T, y.T, strict=True)]
    assert min(p_values) > level
    threshold = stats.norm.isf(level / 2)
    assert np.abs(_difference_in_errors(x, y)).max() < threshold  # means
    squares = np.square(x - x.mean(axis=0)), np.square(y - y.mean(axis=0))
    assert np.abs(_difference_in_errors(*squares)).max() < threshold  # variances


def test_two_poles_second_hinge_has_std_a_tenth() -> None:
    """Ten times the first hinge's; a slip known from elsewhere. The estimate's own error is 1.6 % (n = 2000)."""
    simulator: Any = Case("dm-cartpole-two-poles").task().simulator(1)
    angles = []
    for i in range(2000):
        simulator.reset([generator(2, Purpose.ENVIRONMENT, i)])
        angles.append(simulator.data[0].qpos[1:3].copy())
    first, second = np.array(angles).T
    assert second.std() == pytest.approx(0.1, rel=0.08)
    assert first.std() == pytest.approx(0.01, rel=0.08)
    assert first.mean() == pytest.approx(np.pi, abs=5 * 0.01 / 2000**0.5)
    assert second.mean() == pytest.approx(0, abs=5 * 0.1 / 2000**0.5)


def _initial_state(model: Any, data: Any) -> Any:
    """Positions, velocities and, where there is terrain, its height at some places."""
    return np.concatenate([data.qpos, data.qvel, model.hfield_data[: 201 * 201 : 3989]])


def _difference_in_errors(x: Any, y: Any) -> Any:
    """Difference of the columns' means, in standard errors."""
    return (x.mean(axis=0) - y.mean(axis=0)) / np.sqrt(x.var(axis=0) / len(x) + y.var(axis=0) / len(y))
