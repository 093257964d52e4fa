"""Repeat whole iterations at a fixed theta and keep every estimator's gradient of each.

First some iterations to warm up (eta, value functions), then the measured ones with all that was learned held fixed, so
that no estimator has seen the pairs it is measured on. Pairs within an iteration may depend on each other (orthogonal
directions, a Halton sequence, baselines); iterations do not. So a variance is always that of whole iterations, never
one guessed from the spread of an iteration's pairs.
"""

import dataclasses
import itertools
import math
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from quell import registry
from quell.errors import UsageError
from quell.estimate import Problem, Rows
from quell.estimate.reduce import calm
from quell.keys import Stream
from quell.policy.fisher import Metric
from quell.rollout import Compute, Engine, make_engine
from quell.stats import mean, spread
from quell.types import Array, Batch, Episodes, State, Sums
from quell.variances.points import Point
from quell.variances.rows import Row, unit

Tell = Callable[[str, int, int], None]
"""Called with (what, done, total)."""
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


@dataclass(frozen=True)
class Facts:
    """What the episodes of a session were like."""

    seconds: float  # of an iteration's episodes
    returns: Array  # of all members
    steps: int  # real environment steps


class Scale:
    """One constant that rewards are divided by: the spread of the first batch's returns.

    Training divides by every batch's own, which makes rates of the paper's rule meaningful but the estimate slightly
    biased; a constant does the first without the second.
    """

    value = 0.0

    def of(self, returns: Array) -> float:
        if not self.value:
            found = spread(returns)
            self.value = found if found > 0 and math.isfinite(found) else 1.0
        return self.value


class Session:
    """All rows of one kind of sampling, on one engine.

    `number` tells its randomness from that of other sessions; `metric` is for estimators that look at the step's.
    """

    def __init__(
        self,
        point: Point,
        rows: Sequence[Row],
        scale: Scale,
        *,
        number: int,
        compute: Compute,
        metric: Metric | None = None,
    ) -> None:
        self.point, self.rows, self.scale, self.number = point, rows, scale, number
        self.compute, self.metric = compute, metric
        directions, self.shared_noise = rows[0].sampling
        self.problem = point.problem(directions)
        self.records = any(row.estimator.needs.trajectories for row in rows)
        for row in rows:
            self._check(row)

    def run(self, warmup: int, iterations: int, tell: Tell) -> tuple[list[Measured], Facts]:
        """`warmup` iterations to learn from, then `iterations` to measure on."""
        what = registry.name_of(self.problem.directions) + (" shared noise" if self.shared_noise else "")
        problem, dim, returns, steps, seconds = self.problem, self.point.policy.dim, [], 0, 0.0
        measured = [
            Measured(row, problem, _store(iterations, dim), np.zeros(dim), row.estimator.init(problem))
            for row in self.rows
        ]
        with make_engine(self.compute, self.point.task, problem, members=2 * self.point.config.pairs) as engine:
            for turn in range(warmup + iterations):
                started = time.perf_counter()
                batch = self._batch(engine, turn)
                if turn:  # the first also starts the simulators
                    seconds += time.perf_counter() - started
                for one in measured:
                    self._estimate(one, engine, batch, turn - warmup)
                    if turn == warmup - 1:
                        self._replay(one, warmup)
                returns.append(batch.rollouts.returns * self.scale.value)
                steps += int(batch.rollouts.steps.sum())
                tell(what, turn + 1, warmup + iterations)
        for one in measured:
            one.warm, one.seconds = one.warm / max(warmup, 1), one.seconds / iterations
        return measured, Facts(seconds / max(warmup + iterations - 1, 1), np.concatenate(returns), steps)

    def _check(self, row: Row) -> None:
        if registry.is_strategy(row.estimator):
            registry.check(row.estimator, f"{row.name}: ")
        if row.estimator.needs.perturbed != (self.problem.directions.sigma > 0):
            verb = "needs" if row.estimator.needs.perturbed else "does not take"
            raise UsageError(f"{row.name}: this estimator {verb} perturbations (directions)")
        if row.estimator.needs.trajectories and not self.point.policy.stochastic:
            raise UsageError(f"{row.name} needs a stochastic policy: its policy gradient is not defined without")

    def _batch(self, engine: Engine, iteration: int) -> Batch:
        config, point = self.point.config, self.point
        episodes = Episodes.of_pairs(
            iteration,
            config.pairs,
            stream=Stream.MEASURE,
            block=(self.number,),
            record=self.records,
            shared_reset=config.shared_reset,
            shared_noise=self.shared_noise or config.shared_noise,
        )
        rollouts = engine.rollout(point.theta, episodes, point.obs_stats)
        scaled = dataclasses.replace(rollouts, rewards=rollouts.rewards / self.scale.of(rollouts.returns))
        return Batch(point.theta, episodes, scaled, self.metric)

    def _estimate(self, one: Measured, engine: Engine, batch: Batch, measured: int) -> None:
        """Prepare, sum and combine, by hand, because the warm-up's sums may be combined again."""
        started, estimator = time.perf_counter(), one.row.estimator
        with calm():
            rows = estimator.prepare(self.problem, batch, one.state)
        sums = engine.total(estimator, batch, rows, batch.theta)
        with calm():
            found = estimator.combine(self.problem, sums, rows, one.state)
            gradient = found.gradient * np.float32(unit(estimator, batch, one.state))
        if measured >= 0:
            one.gradients[measured] = gradient
            one.seconds += time.perf_counter() - started
            return
        one.warm += gradient
        one.state = found.state
        if one.row.updates:
            one.past.append((sums, rows))

    def _replay(self, one: Measured, warmup: int) -> None:
        """Go over the warm-up's sums again until the learner has made as many updates as it needs."""
        for sums, rows in itertools.islice(itertools.cycle(one.past), max(0, one.row.updates - warmup)):
            with calm():
                one.state = one.row.estimator.combine(self.problem, sums, rows, one.state).state
        one.past.clear()


def _store(iterations: int, dim: int) -> Array:
    """[iterations, d] float32, in a temporary file (gone with this process) where it would strain memory."""
    if iterations * dim * 4 <= IN_MEMORY:
        return np.zeros((iterations, dim), np.float32)
    with tempfile.TemporaryFile() as file:
        return np.memmap(file, np.float32, "w+", shape=(iterations, dim))


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


def measure(
    point: Point,
    rows: Sequence[Row],
    *,
    iterations: int,
    warmup: int,
    compute: Compute,
    others: int | None = None,
    metric: Metric | None = None,
    tell: Tell = lambda *_: None,
) -> Measurement:
    """Measure all rows; those that share directions and action noise are measured on the same episodes.

    `others` is the number of iterations for samplings other than that of plain ES, if not `iterations`; `metric` that
    of a natural step, for estimators that make their noise small there.
    """
    scale = Scale()
    parts: list[Measured] = []
    facts: list[Facts] = []
    for number, sampling in enumerate(dict.fromkeys(row.sampling for row in rows)):
        chosen = [row for row in rows if row.sampling == sampling]
        learn = warmup if any(row.learns for row in chosen) else 0
        turns = iterations if number == 0 or others is None else others

        session = Session(point, chosen, scale, number=number, compute=compute, metric=metric)
        found, fact = session.run(learn, turns, tell)
        parts += found
        facts.append(fact)
    order = {row.name: i for i, row in enumerate(rows)}
    return Measurement(
        point=point,
        rows=sorted(parts, key=lambda measured: order[measured.row.name]),
        rollout_seconds=facts[0].seconds,
        mean_return=mean(facts[0].returns),
        return_std=spread(facts[0].returns, ddof=1),
        scale=scale.value,
        steps=sum(fact.steps for fact in facts),
    )
