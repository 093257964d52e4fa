"""What an iteration on W workers costs: bytes by formula, time by a small simulation: python benchmarks/scale_model.py

Bytes (N pairs, d parameters, T steps, o observations, k discounts, m vectors of size d per sum):

    out   theta 4d, once per machine; and to each worker what `prepare` found of its pairs: in all 17 N for ES,
          17 N + 16 k N (T + 1) for CV
    in    per member: 8 (ES) or 8 T (CV) for rewards, 9 + 16 o for the rest
          per worker: nodes * 8 m d, where nodes <= 2 log2(blocks) is how many whole subtrees its blocks make

`flat` is what the Ray engine does: workers merge what they hold, everything else is added up by the driver. `tree` is
what it could do: workers also merge with each other, in ceil(log2 W) rounds, and the broadcast goes from worker to
worker; the order of additions, and so the result, would be the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from quell.estimate.reduce import Tree, blocks, shards

Array = NDArray[np.float64]
Reduction = Literal["flat", "tree"]
VECTORS = {"es": 2, "cv": 5}  # x, xx; and y, xy, yy
BATCHED = 16  # how much less often weights are read when all steps of an episode go through the policy at once
UPDATE = 150  # bytes per parameter that the driver touches to form a gradient and take a step


@dataclass(frozen=True)
class Workload:
    """One iteration."""

    dim: int
    pairs: int = 1000
    steps: int = 1000
    obs: int = 17
    method: Literal["es", "cv"] = "cv"
    discounts: int = 1
    spread: float = 0.1
    """Standard deviation of a worker's speed around the mean, as a share of it."""


@dataclass(frozen=True)
class Machine:
    """Speeds in seconds and bytes; the defaults are one core per worker and a 10 Gbit/s network."""

    step: float = 5e-5  # one environment step without the policy
    normal: float = 1e-8  # drawing one number of a direction
    memory: float = 8e9  # bytes per second through one core: reading theta at every step, adding vectors
    network: float = 1.2e9  # bytes per second through one network card
    latency: float = 5e-4
    call: float = 1e-3  # the driver's work per call to a worker
    fixed: float = 1e-2  # the driver's work per iteration however many workers
    cores: int | None = None  # of all workers together, where that is less than one each


@dataclass(frozen=True)
class Cost:
    """Bytes out of and into the driver, and seconds of an iteration: working, and everything else."""

    bytes_out: float
    bytes_in: float
    work: float
    overhead: float


def sums_bytes(method: str, dim: int) -> int:
    """Bytes of one sum over pairs."""
    return 8 * VECTORS[method] * dim


def nodes_sent(pairs: int, workers: int) -> list[int]:
    """How many sums each worker sends: the whole subtrees that its blocks make up."""
    leaves, sent = len(blocks(pairs)), []
    for shard in shards(leaves, workers):
        tree = Tree(leaves)
        for leaf in shard:
            tree.add((0, leaf), {})
        sent.append(len(tree.nodes))
    return sent


def prepared_bytes(load: Workload) -> int:
    members = 2 * load.pairs
    fitness = 8 * members + load.pairs
    return fitness if load.method == "es" else fitness + 8 * load.discounts * members * (1 + load.steps)


def scalar_bytes(load: Workload) -> int:
    """What all members' scalars take together."""
    rewards = 8 * (load.steps if load.method == "cv" else 1)
    return 2 * load.pairs * (rewards + 9 + 16 * load.obs)


def simulate(load: Workload, workers: int, reduction: Reduction, machine: Machine | None = None, seed: int = 0) -> Cost:
    """One iteration in simulated time; the driver has one network card, and each worker its own."""
    machine = machine or Machine()
    nodes, split = nodes_sent(load.pairs, workers), shards(len(blocks(load.pairs)), workers)
    count, leaves = len(nodes), len(blocks(load.pairs))
    slow = max(1.0, count / (machine.cores or count))
    speed = slow * np.maximum(0.1, 1 + load.spread * np.random.default_rng(seed).standard_normal(count))
    pairs = np.array([len(shard) for shard in split]) * load.pairs / leaves
    episodes = 2 * pairs * (load.dim * machine.normal + load.steps * (machine.step + 4 * load.dim / machine.memory))
    # Per pair: its direction, a forward and a backward pass over all steps at once (CV), and the sums in float64.
    passes = {"es": 0, "cv": 2 * 3 * load.steps / BATCHED}[load.method]
    traffic = (4 * passes + 24 * VECTORS[load.method]) * load.dim
    gradients = pairs * (load.dim * machine.normal + traffic / machine.memory)

    vector, theta, prepared = sums_bytes(load.method, load.dim), 4 * load.dim, prepared_bytes(load)
    calls = machine.call * np.arange(1, count + 1)
    ran = _broadcast(theta, count, reduction, machine) + calls + episodes * speed
    scalars = np.full(count, scalar_bytes(load) / count)
    gathered = _through_one_card(ran, scalars, machine)
    done = gathered + machine.latency + prepared / machine.network + calls + gradients * speed
    if reduction == "flat":
        bytes_in = float(sum(nodes) * vector)
        end = _through_one_card(done, np.array(nodes) * vector, machine) + 3 * (bytes_in - vector) / machine.memory
    else:
        bytes_in, rounds = float(vector), math.ceil(math.log2(count))
        hop = machine.latency + vector / machine.network + 3 * vector / machine.memory
        end = float(done.max()) + rounds * max(nodes) * hop + vector / machine.network
    end += machine.fixed + UPDATE * load.dim / machine.memory
    work = float(np.mean((episodes + gradients) * speed))
    copies = count if reduction == "flat" else 1
    return Cost(float(copies * theta + prepared), float(scalars.sum()) + bytes_in, work, end - work)


def _broadcast(size: float, workers: int, reduction: Reduction, machine: Machine) -> float:
    """Seconds until everybody has it: one after the other, or passed on by those who have it."""
    rounds = workers if reduction == "flat" else math.ceil(math.log2(workers + 1))
    return machine.latency + rounds * size / machine.network


def _through_one_card(ready: Array, sizes: Array, machine: Machine) -> float:
    """When the last of several messages is in, each waiting for those before it."""
    free = 0.0
    for at in np.argsort(ready):
        free = max(free, float(ready[at]) + machine.latency) + float(sizes[at]) / machine.network
    return free


def table(
    load: Workload, workers: tuple[int, ...] = (1, 3, 10, 30, 100, 300, 1000), machine: Machine | None = None
) -> str:
    """Markdown rows: workers, then bytes and seconds under both reductions."""
    rows = ["| workers | work | flat: in | out | overhead | tree: in | out | overhead |", "|---" * 8 + "|"]
    for count in workers:
        costs = [simulate(load, count, how, machine) for how in ("flat", "tree")]
        cells = [f"{_size(c.bytes_in)} | {_size(c.bytes_out)} | {c.overhead:.3g} s" for c in costs]
        rows.append(f"| {count} | {costs[0].work:.3g} s | {cells[0]} | {cells[1]} |")
    return "\n".join(rows)


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


if __name__ == "__main__":
    for dim in (3_000, 1_000_000, 100_000_000):
        for method in ("es", "cv"):
            print(f"\nd = {dim:,}, {method}\n\n{table(Workload(dim, method=method))}")
