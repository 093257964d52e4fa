"""benchmarks/seconds.py and peers.py: when a score counts as reached, and what a table makes of runs that never do."""

from __future__ import annotations

from typing import Any

import pytest
from peers import curves
from seconds import paced, reached, table

CURVE = [[1.0, 10_000, 100.0], [2.0, 20_000, 320.0], [3.0, 30_000, 290.0], [4.0, 40_000, 300.0], [5.0, 50_000, 310.0]]


@pytest.mark.parametrize(("target", "seconds"), [(90, 1.0), (200, 2.0), (300, 4.0), (310, None), (500, None)])
def test_a_score_is_reached_at_the_first_of_two_in_a_row(target: float, seconds: float | None) -> None:
    assert reached(CURVE, target) == seconds


def test_policies_that_nobody_looked_at_reach_nothing() -> None:
    assert reached([[1.0, 10_000, 300.0], [2.0, 20_000, None], [3.0, 30_000, 300.0]], 300) is None


def test_the_table_counts_runs_that_did_not_get_there_as_longer() -> None:
    facts: dict[str, Any] = {"task": "swimmer", "method": "es", "steps": 50_000, "timed": True}
    facts |= {"first": 1.0, "spent": 6.0, "ended": 50_000}
    short = [[t, n, score - 200] for t, n, score in CURVE]
    two, one = (
        table([{**facts, "seed": k, "curve": curve} for k, curve in enumerate((CURVE, CURVE, short))][:n])
        for n in (3, 1)
    )
    assert "| swimmer | 300 | es | 4.0 | 4.0 to 4.0 | 2 of 3 | 3 | 40,000 | 10,000 | 1.0 |" in two
    assert "| 1 of 1 |" in one
    assert "not within 50,000 steps" in table([{**facts, "seed": k, "curve": short} for k in (0, 1)])


def test_a_peers_seconds_are_its_steps_at_the_speed_that_was_measured() -> None:
    rows: list[dict[str, Any]] = [
        {"task": "hopper", "method": "sb3-ppo", "kind": "speed", "steps_per_second": 1_000.0},
        {"task": "hopper", "method": "sb3-ppo", "kind": "curve", "curve": [[10_000, 5.0], [20_000, 7.0]]},
        {"task": "hopper", "method": "sb3-sac", "kind": "curve", "curve": [[10_000, 5.0]]},  # its speed is not known
    ]
    assert curves(rows) == {("hopper", "sb3-ppo"): [[(10.0, 10_000, 5.0), (20.0, 20_000, 7.0)]]}


def test_a_seed_that_was_not_timed_has_the_pace_of_those_that_were() -> None:
    """And beyond their end the pace of their second half; of a seed that was trained both ways the timed run counts."""
    timed = {"seed": 0, "timed": True, "curve": CURVE}
    bare = [[None, n, score] for _, n, score in CURVE]
    both = paced([{"seed": 0, "timed": False, "curve": bare}, timed, {"seed": 1, "timed": False, "curve": bare}])
    assert both[0] is timed
    assert both[1]["curve"] == CURVE
    (longer,) = paced([timed, {"seed": 2, "timed": False, "curve": [[None, 70_000, 1.0]]}])[1:]
    assert longer["curve"] == [[7.0, 70_000, 1.0]]
