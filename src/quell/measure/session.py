"""Repeat whole iterations at a fixed theta and keep every estimator's gradient of each.

First some iterations to warm up (eta, value functions), then the measured ones with all that was learned held fixed, so
that no estimator has seen the pairs it is measured on. Pairs within an iteration may depend on each other (orthogonal
directions, a Halton sequence, baselines); iterations do not. So a variance is always that of whole iterations, never
one guessed from the spread of an iteration's pairs.
"""

import itertools
import math
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from quell import registry
from quell.estimate import Problem, Rows
from quell.estimate.reduce import calm
from quell.fit import check_fit
from quell.keys import Stream
from quell.measure.points import Point
from quell.measure.rows import Row, unit
from quell.policy.fisher import Metric
from quell.rollout import Compute, Engine
from quell.stats import mean, spread
from quell.types import Array, Batch, Episodes, State, Sums

Tell = Callable[[str, int, int], None]  # called with (what, done, total)
IN_MEMORY = 1 << 29  # bytes of gradients per estimator; more go to a temporary file


@dataclass(eq=False)
class Measured:
    """One estimator's gradients, in units of the measurement's `scale`; filled in by a session."""

    row: Row
    problem: Problem
    gradients: Array  # [iterations, d] float32, possibly mapped from a temporary file
    warm: Array  # [d] mean gradient of the warm-up, independent of `gradients`
    state: State  # what was learned in the warm-up
    seconds: float = 0.0  # per iteration, without the episodes
    past: list[tuple[Sums, Rows]] = field(default_factory=list)  # the warm-up's, while it may be replayed

    def estimate(self, engine: Engine, batch: Batch, measured: int) -> None:
        """Prepare, sum and combine, by hand, because the warm-up's sums may be combined again."""
        started, estimator = time.perf_counter(), self.row.estimator
        with calm():
            rows = estimator.prepare(self.problem, batch, self.state)
        sums = engine.total(estimator, batch, rows, batch.theta)
        with calm():
            found = estimator.combine(self.problem, sums, rows, self.state)
            gradient = found.gradient * np.float32(unit(estimator, batch, self.state))
        if measured >= 0:
            self.gradients[measured] = gradient
            self.seconds += time.perf_counter() - started
            return
        self.warm += gradient
        self.state = found.state
        if self.row.updates:
            self.past.append((sums, rows))

    def replay(self, warmup: int) -> None:
        """Go over the warm-up's sums again until the learner has made as many updates as it needs."""
        for sums, rows in itertools.islice(itertools.cycle(self.past), max(0, self.row.updates - warmup)):
            with calm():
                self.state = self.row.estimator.combine(self.problem, sums, rows, self.state).state
        self.past.clear()


@dataclass(frozen=True)
class Measurement:
    """Everything measured at one point."""

    point: Point
    rows: list[Measured]
    rollout_seconds: float  # per iteration of plain ES
    mean_return: float
    return_std: float
    scale: float  # what rewards were divided by; V[g] in units of reward is its square times that of `gradients`
    steps: int  # real environment steps spent

    def find(self, name: str) -> Measured:
        return next(measured for measured in self.rows if measured.row.name == name)


@dataclass
class Session:
    """Iterations at one point."""

    point: Point
    compute: Compute
    metric: Metric | None = None  # of a natural step, for estimators that make their noise small there
    tell: Tell = lambda *_: None
    steps: int = 0  # real environment steps so far
    scale: float = 0.0
    """One constant that rewards are divided by: the spread of the first batch's returns.

    Training divides by every batch's own, which makes rates of the paper's rule meaningful but the estimate slightly
    biased; a constant does the first without the second.
    """

    def measure(self, rows: Sequence[Row], iterations: int, warmup: int, others: int | None = None) -> Measurement:
        """Measure all rows; those that share directions and action noise are measured on the same episodes.

        `others` is the number of iterations for samplings other than that of plain ES, if not `iterations`.
        """
        parts = []
        for number, sampling in enumerate(dict.fromkeys(row.sampling for row in rows)):
            chosen = [row for row in rows if row.sampling == sampling]
            learn = warmup if any(row.learns for row in chosen) else 0
            parts.append(self.run(number, chosen, learn, iterations if number == 0 else others or iterations))
        order, (_, returns, seconds) = [row.name for row in rows], parts[0]
        measured = sorted((one for part, *_ in parts for one in part), key=lambda one: order.index(one.row.name))
        facts = seconds, mean(returns), spread(returns, ddof=1)
        return Measurement(self.point, measured, *facts, self.scale, self.steps)

    def run(self, number: int, rows: Sequence[Row], warmup: int, turns: int) -> tuple[list[Measured], Array, float]:
        """What is measured in so many turns after a warm-up, all returns, and the seconds that an iteration's episodes
        took; `number` tells its randomness from that of others."""
        config, dim, (directions, shared_noise) = self.point.config, self.point.policy.dim, rows[0].sampling
        problem, returns, seconds = self.point.problem(directions), [], 0.0
        what = registry.name_of(directions) + (" shared noise" if shared_noise else "")
        kind: dict[str, Any] = {"stream": Stream.MEASURE, "block": (number,), "shared_reset": config.shared_reset}
        kind |= {"record": any(row.estimator.needs.trajectories for row in rows), "longest": config.train_horizon}
        kind["shared_noise"] = shared_noise or config.shared_noise
        measured, shape = [], directions.prepare(self.metric)
        for row in rows:
            _check(row, problem)
            measured.append(Measured(row, problem, _store(turns, dim), np.zeros(dim), row.estimator.init(problem)))
        with self.compute.make(self.point.task, problem, members=2 * config.pairs) as engine:
            for turn in range(warmup + turns):
                started = time.perf_counter()
                batch = self._batch(engine, Episodes.of_pairs(turn, config.pairs, shape=shape, **kind))
                if turn:  # the first also starts the simulators
                    seconds += time.perf_counter() - started
                for one in measured:
                    one.estimate(engine, batch, turn - warmup)
                    if turn == warmup - 1:
                        one.replay(warmup)
                returns.append(batch.rollouts.returns * self.scale)
                self.steps += int(batch.rollouts.steps.sum())
                self.tell(what, turn + 1, warmup + turns)
        for one in measured:
            one.warm, one.seconds = one.warm / max(warmup, 1), one.seconds / turns
        return measured, np.concatenate(returns), seconds / max(warmup + turns - 1, 1)

    def _batch(self, engine: Engine, episodes: Episodes) -> Batch:
        rollouts = engine.rollout(self.point.theta, episodes, self.point.obs_stats)
        if not self.scale:
            found = spread(rollouts.returns)
            self.scale = found if found > 0 and math.isfinite(found) else 1.0
        scaled = replace(rollouts, rewards=rollouts.rewards / self.scale)
        return Batch(self.point.theta, episodes, scaled, self.metric)


def _check(row: Row, problem: Problem) -> None:
    if registry.is_strategy(row.estimator):
        registry.check(row.estimator, f"{row.name}: ")
    check_fit(row.estimator, problem.directions, problem.policy, who=row.name)


def _store(iterations: int, dim: int) -> Array:
    """[iterations, d] float32, in a temporary file (gone with this process) where it would strain memory."""
    if iterations * dim * 4 <= IN_MEMORY:
        return np.zeros((iterations, dim), np.float32)
    with tempfile.TemporaryFile() as file:
        return np.memmap(file, np.float32, "w+", shape=(iterations, dim))
