"""Gradient estimators side by side at a fixed policy: `quell.variance(...)` in Python, `quell variance` as a command.

points     where: a task, theta, and the settings it is measured with
rows       what: estimators with their directions, by name or as objects
measure    how: repeat whole iterations at the paper's N, every estimator on the same episodes
summary    variance, bias, their sum, signal, with intervals
fisher     the metrics in which they are measured: of the parameters, the policy, the natural step
gain       what a step along an estimate is worth
report     table and JSON

Variances are measured across whole iterations. The spread of the pairs within one would be wrong for directions that
are drawn jointly (a Halton sequence: 55 to 85 times too small).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from quell import registry
from quell.api import compute_for
from quell.config import Preset
from quell.errors import UsageError
from quell.estimate import Estimator
from quell.rollout import Compute
from quell.tasks.base import Task
from quell.terminal.progress import Counter
from quell.variances.fisher import geometry
from quell.variances.gain import Kind, gains, parse_step
from quell.variances.measure import Tell, measure
from quell.variances.points import Point, find_point
from quell.variances.report import Report
from quell.variances.rows import Row, find_rows
from quell.variances.summary import summarise

METHODS = ("es", "ortho", "gcmc", "qmc", "cv-paper", "cv", "auto")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How much is measured at a point."""

    methods: Sequence[str | Row | Estimator] = METHODS
    pairs: int = 400
    pairs_other: int | None = None
    warmup: int = 150
    reference: str = "es"
    gain: Sequence[tuple[Kind, float]] = ()
    gain_methods: Sequence[str] = ("es", "cv-paper", "auto")
    gain_estimates: int = 40
    gain_episodes: int = 4

    def check(self, batch: int) -> None:
        """Raise UsageError for what makes no sense in iterations of `batch` pairs."""
        bounds = {"pairs": 2, "pairs_other": 2, "warmup": 0, "gain_estimates": 2, "gain_episodes": 1}
        for name, low in bounds.items():
            if (value := getattr(self, name)) is not None and value < low:
                raise UsageError(f"`{name}={value}` must be at least {low}")
        if self.gain and self.gain_estimates > self.iterations(batch):
            raise UsageError(
                f"`gain_estimates={self.gain_estimates}` needs {self.gain_estimates * batch} pairs or more"
            )

    def iterations(self, batch: int) -> int:
        return max(2, self.pairs // batch)


def variance(
    task: str | Task,
    *,
    at: str = "init",
    methods: str | Sequence[str | Row | Estimator] = METHODS,
    pairs: int = 400,
    pairs_other: int | None = None,
    warmup: int = 150,
    preset: Preset = "paper",
    settings: Mapping[str, Any] | None = None,
    reference: str = "es",
    gain: Sequence[str] = (),
    gain_methods: Sequence[str] = ("es", "cv-paper", "auto"),
    gain_estimates: int = 40,
    gain_episodes: int = 4,
    seed: int = 0,
    workers: int | None = None,
    engine: Compute | str | None = None,
    progress: bool = True,
) -> Report:
    """Measure gradient estimators at a fixed policy; `print` the report, or take its `values()`.

    `at` is "init" (untrained, with the settings of `preset`), a run folder, or RUN@ITERATION. `methods` are names
    (`quell.variances.rows.BASES`, with -ortho, -gcmc, -qmc, -crn), estimators, or `quell.variances.rows.Row` objects;
    ES is always among them. They are measured on `pairs` pairs in iterations as training has them, after `warmup`
    pairs to learn coefficients and value functions on; directions other than those of ES need episodes of their own,
    `pairs_other` if not as many. Biases are measured against the mean of `reference`; one that is unbiased and less
    noisy than ES ("auto") shows smaller ones. `gain` names steps whose worth is measured too ("sign:0.01", "kl:0.01").
    """
    seed, compute = registry.whole("seed", seed), compute_for(engine, workers)
    plan = Plan(
        methods=methods.split(",") if isinstance(methods, str) else methods,
        pairs=registry.whole("pairs", pairs),
        pairs_other=None if pairs_other is None else registry.whole("pairs_other", pairs_other),
        warmup=registry.whole("warmup", warmup),
        reference=reference,
        gain=[parse_step(word) for word in gain],
        gain_methods=gain_methods,
        gain_estimates=registry.whole("gain_estimates", gain_estimates),
        gain_episodes=registry.whole("gain_episodes", gain_episodes),
    )
    point = find_point(task, at, preset=preset, seed=seed, settings=settings or {})
    with Counter(plain=None if progress else True) as tell:
        return study(point, plan, compute=compute, tell=tell)


def study(point: Point, plan: Plan, *, compute: Compute, tell: Tell = lambda *_: None) -> Report:
    """Everything a plan asks for at one point."""
    batch = point.config.pairs
    plan.check(batch)
    known = [row.name for row in find_rows(plan.methods, point.sigma)]
    more = [plan.reference, *(plan.gain_methods if plan.gain else ())]
    rows = find_rows([*plan.methods, *(name for name in more if name not in known)], point.sigma)
    if any(row.biased for row in rows if row.name == plan.reference):
        raise UsageError(f"{plan.reference!r} declares a bias, so biases cannot be measured against it")
    shape = geometry(point, compute=compute)
    measured = measure(
        point,
        rows,
        iterations=plan.iterations(batch),
        warmup=max(1, plan.warmup // batch),
        compute=compute,
        others=max(2, plan.pairs_other // batch) if plan.pairs_other else None,
        metric=shape.kronecker,
        tell=tell,
    )
    summaries = summarise(measured, shape, np.random.default_rng(point.config.seed), reference=plan.reference)
    names, sizes = list(filter(None, plan.gain_methods)), (plan.gain_estimates, plan.gain_episodes)
    worth = gains(measured, names, plan.gain, shape, *sizes, compute=compute, tell=tell) if plan.gain else []
    return Report(measured, summaries, worth, reference=plan.reference)
