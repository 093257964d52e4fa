"""The race of two source trees: its arithmetic, and that both sides are asked for the same work."""

from __future__ import annotations

import os
import time

import pytest
from against import processor_seconds, ratio


def test_the_ratio_is_the_median_of_turns_within_its_interval() -> None:
    old, new = [1.0] * 25, [1.0 + 0.01 * k for k in range(25)]
    middle, low, high = ratio(old, new)
    assert middle == pytest.approx(1.12)
    assert (low, high) == (pytest.approx(1.07), pytest.approx(1.17))  # ranks 8 and 18 of 25: a binomial's 95%


def test_one_turn_is_its_own_interval() -> None:
    assert ratio([2.0], [1.0]) == (0.5, 0.5, 0.5)


def test_processor_time_counts_work_and_not_waiting() -> None:
    before = processor_seconds(os.getpid())
    time.sleep(0.2)
    rested = processor_seconds(os.getpid()) - before
    until = time.process_time() + 0.2
    while time.process_time() < until:
        pass
    worked = processor_seconds(os.getpid()) - before - rested
    assert rested < 0.1
    assert 0.15 < worked < 1
