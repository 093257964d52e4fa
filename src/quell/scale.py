"""What an iteration on W workers costs: bytes by formula, time by a small simulation.

Bytes (N pairs, d parameters, T steps, o observations, k discounts, m vectors of size d per sum):

    out   theta 4d, and what `prepare` found: 17 N for ES; 33 N + 16 k N (T + 1) for CV    (once per machine)
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

from quell.reduce import Tree, blocks, shards

Reduction = Literal["flat", "tree"]
VECTORS = {"es": 2, "cv": 5}  # x, xx; and y, xy, yy


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
    """Speeds in seconds and bytes; the defaults are one core and a 10 Gbit/s network."""

    step: float = 5e-5  # one environment step without the policy
    memory: float = 8e9  # bytes per second through one core: reading theta at every step, adding vectors
    network: float = 1.2e9  # bytes per second through one network card
    latency: float = 5e-4
    call: float = 1e-3  # the driver's work per call to a worker
    fixed: float = 1e-2  # the driver's work per iteration however many workers


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
    leaves, found = len(blocks(pairs)), []
    for shard in shards(leaves, workers):
        tree = Tree(leaves)
        for leaf in shard:
            tree.add((0, leaf), {})
        found.append(len(tree.nodes))
    return found


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
    nodes = nodes_sent(load.pairs, workers)
    count = len(nodes)
    speed = np.maximum(0.1, 1 + load.spread * np.random.default_rng(seed).standard_normal(count))
    share = (
        np.array([len(shard) for shard in shards(len(blocks(load.pairs)), workers)])
        * 2
        * load.pairs
        / sum(len(shard) for shard in shards(len(blocks(load.pairs)), workers))
    )
    episodes = share * load.steps * (machine.step + 4 * load.dim / machine.memory) * speed
    passes = {"es": 0.0, "cv": 3.0}[load.method]  # forward and backward through the policy, batched over time
    gradients = share * (passes * load.steps * 4 * load.dim / machine.memory / 8 + 40 * load.dim / machine.memory)

    vector = sums_bytes(load.method, load.dim)
    theta, prepared = 4 * load.dim, prepared_bytes(load)
    start = _broadcast(theta, count, reduction, machine)
    calls = machine.call * np.arange(1, count + 1)
    scalars = np.full(count, scalar_bytes(load) / count)
    gathered = _through_one_card(start + calls + episodes, scalars, machine)
    again = gathered + _broadcast(prepared, count, reduction, machine)
    done = again + calls + gradients * speed
    sizes = np.array(nodes) * vector
    if reduction == "flat":
        end = _through_one_card(done, sizes, machine)
        end += sum(nodes) * vector / machine.memory
        bytes_in = float(sizes.sum())
    else:
        rounds = math.ceil(math.log2(count)) if count > 1 else 0
        hop = machine.latency + vector / machine.network + vector / machine.memory
        end = float(done.max()) + max(nodes) * hop * rounds + vector / machine.network
        bytes_in = float(vector)
    work = float(np.mean(episodes + gradients))
    copies = count if reduction == "flat" else 1
    return Cost(copies * (theta + prepared), scalars.sum() + bytes_in, work, end + machine.fixed - work)


def _broadcast(size: float, workers: int, reduction: Reduction, machine: Machine) -> float:
    """Seconds until everybody has it: one after the other, or passed on by those who have it."""
    rounds = workers if reduction == "flat" else math.ceil(math.log2(workers + 1))
    return machine.latency + rounds * size / machine.network


def _through_one_card(ready: np.ndarray, sizes: np.ndarray, machine: Machine) -> float:
    """When the last of several messages is in, each waiting for those before it."""
    free = 0.0
    for at in np.argsort(ready):
        free = max(free, float(ready[at]) + machine.latency) + float(sizes[at]) / machine.network
    return free


def table(load: Workload, workers: tuple[int, ...] = (1, 10, 100, 1000), machine: Machine | None = None) -> str:
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
