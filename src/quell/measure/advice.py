"""Whether ES, the policy gradient or both suit a task: from the noise of each at one policy, and the law.

The noise of one pair of perturbed members in the metric of the natural step (F^-1), with V the variance of their
returns, k the mean divergence of a perturbation:

    ES, directions shaped by F^-1     d^2 V / (4 k)
    ES, isotropic directions          kappa d^2 V / (4 k)         kappa = tr F tr F^-1 / d^2
    policy gradient, advantages A     d V c / 2                   c = E[sum_t A_t^2] / V

so that ES has d / (2 k c) times the policy gradient's noise. Both are measured on the same episodes, as the control
variate has them. In a sum of both, weighed by their noise, the share of ES is 1 / (1 + ratio). Where eigenvalues of F
are below the damping of the step and the floor of the directions, traces stand for d and d^2.
"""

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from quell import registry, tasks
from quell.api import compute_for
from quell.errors import UsageError, as_flags
from quell.estimate import Estimate, Problem, Rows
from quell.estimate.control_variate import ControlVariate
from quell.estimate.control_variate.advantages import AdvantageColumn
from quell.estimate.control_variate.coefficients import FixedCoefficient
from quell.estimate.es import Es
from quell.measure.fisher import geometry
from quell.measure.points import Point, find_point
from quell.measure.rows import Row
from quell.measure.session import Session
from quell.measure.summary import summarise
from quell.perturb.fisher import Fisher
from quell.policy.fisher import Metric
from quell.rollout import Compute
from quell.stats import Interval
from quell.terminal.progress import counter
from quell.types import Batch, State, Sums

BATCH = 4
"""Pairs of an iteration."""
STEPS = 100_000
"""Of the environment, that are spent on advice: seconds."""
LEAST = 6
"""Iterations to measure on, at least."""
DISCOUNTS = ((1.0, 1.0), (0.995, 0.97))
"""gamma and lambda of the policy gradients that ES is compared with: without bias, and those of the default."""
MOSTLY = 0.8
"""A share of the estimate from which on one of the two is enough."""


@dataclass(frozen=True, kw_only=True)
class Watched(ControlVariate):
    """The policy gradient of the perturbed members, which notes the mean sum of A_t^2 over an episode."""

    notes: list[float] = field(default_factory=list, compare=False, metadata=registry.NO_SETTING)

    def combine(self, problem: Problem, sums: Sums, rows: Rows, state: State) -> Estimate:
        self.notes.append(float(sums["advantages"][1] / max(2 * float(sums["count"]), 1.0)))
        return super().combine(problem, sums, rows, state)


@dataclass(frozen=True, kw_only=True)
class Pairs(Es):
    """ES, which notes the variance of returns within pairs, and the length of episodes."""

    notes: list[Any] = field(default_factory=list, compare=False, metadata=registry.NO_SETTING)

    def prepare(self, problem: Problem, batch: Batch, state: State) -> Rows:
        returns = batch.rollouts.returns
        self.notes.append((np.square(returns[0::2] - returns[1::2]).mean() / 2, batch.rollouts.steps.mean()))
        return super().prepare(problem, batch, state)


def policy_gradient(gamma: float, trace: float) -> Watched:
    """That of the perturbed members alone, whatever it is beside."""
    column = AdvantageColumn(gamma=gamma, trace=trace)
    return Watched(shaping="none", columns=column, coefficients=FixedCoefficient(value=-1.0))


@dataclass(frozen=True)
class Beside:
    """ES beside the policy gradient with one discount."""

    gamma: float
    trace: float
    c: float
    law: float
    """d / (2 k c): ES's noise, of the policy gradient's."""
    predicted: float
    """The same with traces in place of d."""
    measured: Interval
    bias: float
    """Squared bias of the policy gradient, of its variance in an estimate from `BATCH` pairs."""

    @property
    def share(self) -> float:
        """Of ES in the mix with the least variance + bias^2."""
        return 1 / (1 + self.measured.value / (1 + self.bias))

    @property
    def error(self) -> float:
        """Variance + bias^2 of the policy gradient, of the variance of ES."""
        return (1 + self.bias) / self.measured.value


@dataclass(frozen=True)
class Advice:
    """Numbers of one point, and what follows from them."""

    task: str
    where: str
    delay: int
    steps: float
    """Of an episode."""
    parameters: int
    felt: float
    """tr F (F + damping)^-1: how many of the parameters change the policy."""
    kappa: float
    nats: float
    beside: tuple[Beside, ...]
    seconds: float
    asked: str = ""
    """Flags of the settings that it was measured with."""

    @property
    def best(self) -> Beside:
        """The policy gradient with the least variance + bias^2."""
        return min(self.beside, key=lambda one: one.error)

    @property
    def verdict(self) -> str:
        """es, policy gradient or both."""
        share = self.best.share
        return "es" if share > MOSTLY else "policy gradient" if share < 1 - MOSTLY else "both"

    @property
    def settings(self) -> str:
        """Flags of `quell train` that follow."""
        discount = f"--gamma {self.best.gamma:g} --trace {self.best.trace:g}"
        if self.verdict == "es":
            return "--method es"
        if self.verdict == "policy gradient":
            return f"--method natural-cv {discount}"
        return f"--method mixed-cv {discount}"

    def __str__(self) -> str:
        best, pay = self.best, {0: "at the end", 1: "at every step"}.get(self.delay, f"every {self.delay} steps")
        share = f"{best.share:.0%}" if best.share > 0.01 else f"{best.share:.1%}"
        said = {"es": "ES suits this task", "policy gradient": "The policy gradient suits this task"}
        head = f"{'gamma, lambda':>15} {'c':>8} {'d/(2kc)':>9} {'damped':>9}  {'measured':<24} bias^2/variance"
        rows = [
            f"{f'{one.gamma:g}, {one.trace:g}':>15} {one.c:8.3g} {one.law:9.2g} {one.predicted:9.2g}  "
            f"{f'{one.measured:.2g}':<24} {one.bias:.2g}"
            for one in self.beside
        ]
        table = "\n".join([head, *rows])
        return f"""{self.task}, {self.where}: episodes of {self.steps:.0f} steps, rewards paid {pay}

  d = {self.parameters}  parameters, of which about {self.felt:.0f} change the policy
  k = {self.nats:g}  nats: size of a perturbation, as a mean KL divergence
  kappa = {self.kappa:.3g}  noise of isotropic directions, relative to directions shaped by the Fisher matrix
  c  squared advantages, summed over an episode, divided by the variance of returns: a few if the critic can tell
     which action earned what, up to the number of steps if nothing can

The noise of ES divided by that of the policy gradient on the same episodes, in the metric of the natural step; and
the squared bias of the policy gradient divided by its variance, in an estimate from {BATCH} pairs:

{table}

{said.get(self.verdict, "Both help")}: in the best mix of the two ES has a share of {share}.
  quell train {self.task} {" ".join(filter(None, (self.asked, self.settings)))}
({self.seconds:.0f} s, at this policy only: c, kappa and the noise change during training; --at RUN measures later)"""


def advise(
    task: str | Any,
    *,
    at: str = "init",
    steps: int = STEPS,
    pairs: int = 120,
    warmup: int = 40,
    nats: float = 1.0,
    settings: Mapping[str, Any] | None = None,
    seed: int = 0,
    trust_files: bool = False,
    workers: int | None = None,
    engine: Compute | str | None = None,
    progress: bool = True,
) -> Advice:
    """Measure at one policy whether ES or the policy gradient suits a task.

    `task`, `at` and `settings` are those of `quell.measure.variance`; at "init" it is the default's policy. They are
    measured on `pairs` pairs, after `warmup` for the critic, and perturbations have a mean divergence of `nats`. Where
    these would take more than about `steps` steps of the environment, there are fewer of both.
    """
    started, seed = time.perf_counter(), registry.whole("seed", seed)
    if nats <= 0:
        raise UsageError(f"`nats={nats}` must be greater than 0")
    own = {"pairs": BATCH, "train_horizon": 0, **(settings or {})}  # what whole episodes earn
    named = task if isinstance(task, str) else tasks.from_given(task, own.get("horizon"))
    point = find_point(named, at, method="natural-cv", preset="tuned", seed=seed, settings=own, trust_files=trust_files)
    if point.policy.own:
        raise UsageError("advice needs a network of quell's own: the metric of others is not known")
    pairs, warmup = registry.whole("pairs", pairs, 2 * BATCH), registry.whole("warmup", warmup)
    turns, learn = planned(_length(point), pairs, warmup, registry.whole("steps", steps, 1))
    compute, directions = compute_for(engine, workers), Fisher(nats=nats)
    es, gradients = Pairs(shaping="none"), {pair: policy_gradient(*pair) for pair in DISCOUNTS}
    rows = [Row("es", es, directions), *(Row(str(pair), one, directions) for pair, one in gradients.items())]
    with counter(shown=progress and sys.stderr.isatty()) as tell:
        shape = geometry(point, compute=compute, directions=directions)
        session = Session(point, compute, shape.kronecker, tell)
        measured = session.measure(rows, turns, learn)
        told = summarise(measured, shape, np.random.default_rng(seed), reference=str(DISCOUNTS[0]))
    traces = d, felt, shaped, plain = _traces(shape.kronecker, directions.floor)
    spread, length = np.mean(es.notes[-turns:], axis=0)

    def beside(pair: tuple[float, float]) -> Beside:
        error = next(one.metrics["step"] for one in told if one.name == str(pair))
        return _beside(pair, error, float(np.mean(gradients[pair].notes[-turns:]) / spread), nats, traces)

    return Advice(
        task=point.config.task,
        where="untrained" if point.where == "init" else point.where,
        delay=point.config.delay,
        steps=float(length),
        parameters=d,
        felt=felt,
        kappa=plain / shaped,
        nats=nats,
        beside=tuple(map(beside, DISCOUNTS)),
        seconds=time.perf_counter() - started,
        asked=_flags(settings or {}),
    )


def _beside(
    pair: tuple[float, float], error: Any, c: float, nats: float, traces: tuple[int, float, float, float]
) -> Beside:
    """What was measured of one policy gradient, in ES's units, and what the law says."""
    (d, felt, shaped, _), ratio = traces, error.ratio
    inverse, bias = Interval(1 / ratio.value, 1 / ratio.high, 1 / ratio.low), max(error.bias.value, 0.0) / ratio.value
    return Beside(*pair, c, d / (2 * nats * c), shaped / (2 * nats * c * felt), inverse, bias)


def planned(length: int, pairs: int, warmup: int, steps: int) -> tuple[int, int]:
    """(iterations to measure, to learn), for so many pairs of episodes of this length if there are steps enough."""
    share = min(1.0, steps / (2 * length * (pairs + warmup)))
    return max(min(LEAST, pairs // BATCH), int(share * pairs / BATCH)), max(1, int(share * warmup / BATCH))


def _length(point: Point) -> int:
    """Steps of an episode, about: a trained policy is taken to last."""
    task = point.task
    return task.first_length if task.can_terminate and point.where == "init" else task.horizon


def _flags(settings: Mapping[str, Any]) -> str:
    """Settings as `quell train` takes them."""
    words = []
    for name, value in settings.items():
        empty = isinstance(value, list | tuple) and not value
        words.append(as_flags(f"`{name}={'linear' if empty else value}`").strip("`"))
    return " ".join(words)


def _traces(metric: Metric, floor: float) -> tuple[int, float, float, float]:
    """(d, tr F (F + damping)^-1, what stands for d^2 with directions shaped by (F + floor)^-1, and with isotropic)."""
    f, damping = metric.spectrum(), metric.damping
    felt = float((f / (f + damping)).sum())
    shaped = float((f / (f + floor)).sum() * ((f + floor) / (f + damping)).sum())
    return len(f), felt, shaped, float(f.sum() * (1 / (f + damping)).sum())
