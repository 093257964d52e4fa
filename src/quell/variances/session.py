"""One kind of sampling at one point: its episodes, and the gradients that its estimators make of them."""

from __future__ import annotations

import dataclasses
import math
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quell.config import replace
from quell.estimate import Estimator, State, calm, contributions
from quell.estimate.reduce import Sums, blocks
from quell.rollout import CpuEngine
from quell.training.methods import make_directions, make_estimator
from quell.types import Batch, Episodes
from quell.variances.points import Point
from quell.variances.rows import Row

Array = NDArray[Any]
IN_MEMORY = 1 << 29  # bytes of gradients per estimator; more go to a temporary file


@dataclass(frozen=True)
class Measured:
    """One estimator's gradients, in units of the measurement's `scale`."""

    row: Row
    gradients: Array  # [iterations, d] float32, possibly mapped from a temporary file
    warm: Array  # [d] mean gradient of the warm-up, independent of `gradients`
    state: State  # what was learned in the warm-up
    estimator: Estimator
    seconds: float  # per iteration, without the episodes


@dataclass
class _Running:
    """An estimator while it is being measured."""

    row: Row
    estimator: Estimator
    state: State
    store: Array
    warm: Array
    past: list[tuple[Any, Any]]
    seconds: float = 0.0


class Scale:
    """One constant that rewards are divided by: the spread of the first batch's returns.

    Training divides by every batch's own spread, which makes rates of the paper's rule meaningful but the estimate
    slightly biased; a constant does the first without the second.
    """

    value = 0.0

    def of(self, returns: Array) -> float:
        if not self.value:
            spread = float(returns[np.isfinite(returns)].std()) if np.isfinite(returns).any() else 0.0
            self.value = spread if spread > 0 and math.isfinite(spread) else 1.0
        return self.value


class Session:
    """All rows of one kind of sampling, on one engine."""

    def __init__(self, point: Point, rows: Sequence[Row], scale: Scale, *, first: int, workers: int) -> None:
        self.point, self.rows, self.scale, self.first, self.workers = point, rows, scale, first, workers
        base = {k: v for k, v in rows[0].settings.items() if not k.startswith("cv.")}
        self.config = replace(point.config, {**base, "shaping": "none"})
        self.directions = make_directions(self.config, point.policy)
        self.records = any(row.method != "es" for row in rows)

    def run(
        self, warmup: int, iterations: int, tell: Callable[[int], None]
    ) -> tuple[list[Measured], tuple[float, Array, int]]:
        running = [self._start(row, iterations) for row in self.rows]
        returns, steps, seconds = [], 0, 0.0
        engine = CpuEngine(
            self.point.task, self.point.policy, self.directions, workers=self.workers, members=2 * self.config.pairs
        )
        with engine, ThreadPoolExecutor(self.workers) as threads:
            for turn in range(warmup + iterations):
                started = time.perf_counter()
                batch = self._batch(engine, self.first + turn)
                if turn:  # the first also starts the simulators
                    seconds += time.perf_counter() - started
                for one in running:
                    self._estimate(one, batch, turn - warmup, threads)
                if turn == warmup - 1:
                    for one in running:
                        _replay(one, warmup)
                returns.append(batch.rollouts.returns * self.scale.value)
                steps += int(batch.rollouts.steps.sum())
                tell(turn + 1)
        measured = [
            Measured(r.row, r.store, r.warm / max(warmup, 1), r.state, r.estimator, r.seconds / iterations)
            for r in running
        ]
        return measured, (seconds / max(warmup + iterations - 1, 1), np.concatenate(returns), steps)

    def _start(self, row: Row, iterations: int) -> _Running:
        config = replace(self.config, {"method": row.method, **row.settings})
        estimator = make_estimator(config, self.point.policy)
        return _Running(
            row, estimator, estimator.init(), _store(iterations, len(self.point.theta)), _zeros(self.point), []
        )

    def _batch(self, engine: CpuEngine, iteration: int) -> Batch:
        config, point = self.config, self.point
        episodes = Episodes.of_pairs(
            iteration,
            config.pairs,
            config.sigma,
            record=self.records,
            shared_reset=config.shared_reset,
            shared_noise=config.shared_noise,
        )
        rollouts = engine.rollout(point.theta, episodes, point.obs_stats)
        scaled = dataclasses.replace(rollouts, rewards=rollouts.rewards / self.scale.of(rollouts.returns))
        return Batch(point.theta, config.sigma, iteration, self.directions, scaled, config.shared_noise)

    def _estimate(self, one: _Running, batch: Batch, measured: int, threads: ThreadPoolExecutor) -> None:
        started = time.perf_counter()
        sums, prepared = _gather(one, batch, threads)
        with calm():
            found = one.estimator.combine(sums, prepared, one.state)
        if measured >= 0:
            one.store[measured] = found.gradient
            one.seconds += time.perf_counter() - started
            return
        one.warm += found.gradient
        one.state = found.state
        if one.row.updates:
            one.past.append((sums, prepared))


def _gather(one: _Running, batch: Batch, threads: ThreadPoolExecutor) -> tuple[Sums, Any]:
    """What `combine` needs, so that it can be called again on the same batch."""
    with calm():
        prepared = one.estimator.prepare(batch, one.state)
    leaves = range(len(blocks(batch.pairs)))
    (sums,) = contributions(one.estimator, batch, prepared, batch.theta, leaves, threads.map).values()
    return sums, prepared


def _replay(one: _Running, warmup: int) -> None:
    """Go over the warm-up's sums again until the learner has made as many updates as it needs."""
    for update in range(max(0, one.row.updates - warmup) if one.past else 0):
        sums, prepared = one.past[update % len(one.past)]
        with calm():
            one.state = one.estimator.combine(sums, prepared, one.state).state
    one.past.clear()


def _zeros(point: Point) -> Array:
    return np.zeros(len(point.theta))


def _store(iterations: int, dim: int) -> Array:
    """[iterations, d] float32, in a temporary file (gone with this process) where it would strain memory."""
    if iterations * dim * 4 <= IN_MEMORY:
        return np.zeros((iterations, dim), np.float32)
    with tempfile.TemporaryFile() as file:
        return np.memmap(file, np.float32, "w+", shape=(iterations, dim))
