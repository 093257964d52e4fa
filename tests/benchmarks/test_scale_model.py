"""The simulator of large clusters: limits that can be worked out by hand."""

from __future__ import annotations

import dataclasses

import pytest
from scale_model import Machine, Workload, nodes_sent, prepared_bytes, scalar_bytes, simulate, sums_bytes, table

from quell.estimate.reduce import LEAVES, blocks


def test_workers_that_are_a_power_of_two_send_one_sum_each() -> None:
    assert nodes_sent(64, 1) == [1]
    assert nodes_sent(64, 8) == [1] * 8
    assert nodes_sent(64, 64) == [1] * 64
    assert max(nodes_sent(1000, 7)) <= 20


def test_no_more_workers_than_blocks_are_used() -> None:
    assert len(nodes_sent(10_000, 5_000)) == len(blocks(10_000)) <= LEAVES


def test_bytes_of_one_worker() -> None:
    load = Workload(1000, pairs=10, method="es")
    cost = simulate(load, 1, "flat")
    assert cost.bytes_in == scalar_bytes(load) + sums_bytes("es", 1000)
    assert cost.bytes_out == 4 * 1000 + prepared_bytes(load)


def test_the_driver_of_a_flat_reduction_is_the_bottleneck_and_a_tree_relieves_it() -> None:
    load = Workload(10**6)
    flat, tree = simulate(load, 1000, "flat"), simulate(load, 1000, "tree")
    assert flat.overhead > 10 * tree.overhead
    link = Machine().network
    assert flat.overhead > (flat.bytes_in + flat.bytes_out) / link  # everything passes through one card
    assert tree.bytes_in == scalar_bytes(load) + sums_bytes("cv", load.dim)


@pytest.mark.parametrize("reduction", ["flat", "tree"])
def test_work_is_shared_and_waiting_for_the_slowest_counts_as_overhead(reduction: str) -> None:
    load = Workload(3000, pairs=1024, spread=0.0)
    one, many = (simulate(load, workers, reduction) for workers in (1, 64))  # type: ignore[arg-type]
    assert many.work == pytest.approx(one.work / 64)
    uneven = simulate(dataclasses.replace(load, spread=0.3), 64, reduction)  # type: ignore[arg-type]
    assert uneven.overhead > many.overhead + 0.3 * many.work


def test_the_table_has_a_row_per_number_of_workers() -> None:
    assert len(table(Workload(3000, pairs=10), (1, 2)).splitlines()) == 4
