"""benchmarks/seconds.py and peers.py: when a score counts as reached, and what a table makes of runs that never do."""

from __future__ import annotations

from typing import Any

import pytest
from peers import curves
from seconds import reached, table

CURVE = [[1.0, 10_000, 100.0], [2.0, 20_000, 320.0], [3.0, 30_000, 290.0], [4.0, 40_000, 300.0], [5.0, 50_000, 310.0]]


@pytest.mark.parametrize(("target", "seconds"), [(90, 1.0), (200, 2.0), (300, 4.0), (310, None), (500, None)])
def test_a_score_is_reached_at_the_first_of_two_in_a_row(target: float, seconds: float | None) -> None:
    assert reached(CURVE, target) == seconds


def test_policies_that_nobody_looked_at_reach_nothing() -> None:
    assert reached([[1.0, 10_000, 300.0], [2.0, 20_000, None], [3.0, 30_000, 300.0]], 300) is None


def test_the_table_counts_runs_that_did_not_get_there_as_longer() -> None:
    facts: dict[str, Any] = {"task": "swimmer", "method": "es", "steps": 50_000}
    facts |= {"first": 1.0, "spent": 6.0, "ended": 50_000}
    short = [[t, n, score - 200] for t, n, score in CURVE]
    two, one = (
        table([{**facts, "seed": k, "curve": curve} for k, curve in enumerate((CURVE, CURVE, short))][:n])
        for n in (3, 1)
    )
    assert "| swimmer | 300 | es | 4.0 | 4.0 to 4.0 | 2 of 3 | 40,000 | 10,000 | 1.0 |" in two
    assert "| 1 of 1 |" in one
    assert "not within 50,000 steps" in table([{**facts, "seed": k, "curve": short} for k in (0, 1)])


def test_runs_with_other_workers_are_a_row_of_their_own() -> None:
    facts: dict[str, Any] = {"task": "swimmer", "method": "es", "steps": 50_000, "first": 1.0, "spent": 6.0}
    facts |= {"ended": 50_000, "seed": 0, "curve": CURVE}
    found = table([{**facts, "workers": None}, {**facts, "workers": 16}])
    assert "| es | 4.0 |" in found
    assert "| es, 16 workers | 4.0 |" in found


def test_a_peers_seconds_are_measured_or_its_steps_at_the_speed_that_was() -> None:
    speed: dict[str, Any] = {"task": "hopper", "method": "sb3-ppo", "kind": "speed", "steps_per_second": 1_000.0}
    curve = {"task": "hopper", "method": "sb3-ppo", "kind": "curve", "curve": [[90.0, 10_000, 5.0]], "timed": False}
    assert curves([speed, curve]) == {("hopper", "sb3-ppo"): [[(10.0, 10_000, 5.0)]]}
    assert curves([curve]) == {}
    assert curves([speed, {**curve, "timed": True}]) == {("hopper", "sb3-ppo"): [[(90.0, 10_000, 5.0)]]}
