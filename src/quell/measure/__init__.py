"""Gradient estimators side by side at a fixed policy: `quell.variance(...)` in Python, `quell variance` as a command.

points     where: a task, theta, and the settings it is measured with
rows       what: estimators with their directions, by name or as objects
session    how: repeat whole iterations at the paper's N, every estimator on the same episodes
summary    variance, bias, their sum, signal, with intervals
fisher     the metrics in which they are measured: of the parameters, the policy, the natural step
gain       what a step along an estimate is worth
report     table and JSON

Variances are measured across whole iterations. The spread of the pairs within one would be wrong for directions that
are drawn jointly (a Halton sequence: 55 to 85 times too small).
"""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from quell import registry, tasks
from quell.api import compute_for
from quell.config import Preset
from quell.errors import UsageError
from quell.estimate import Estimator
from quell.measure.fisher import geometry
from quell.measure.gain import gains, parse_step
from quell.measure.points import find_point
from quell.measure.report import Report
from quell.measure.rows import Row, find_rows
from quell.measure.session import Session
from quell.measure.summary import summarise
from quell.perturb import Kind
from quell.rollout import Compute
from quell.terminal.progress import counter

METHODS = ("es", "ortho", "gcmc", "qmc", "cv", "cv-moments", "natural-cv")


def variance(
    task: str | Any,
    *,
    at: str = "init",
    methods: str | Sequence[str | Row | Estimator | Kind] = METHODS,
    pairs: int = 400,
    pairs_other: int | None = None,
    warmup: int = 150,
    preset: Preset = "paper",
    settings: Mapping[str, Any] | None = None,
    reference: str = "es",
    gain: Sequence[str] = (),
    gain_methods: Sequence[str] = ("es", "cv", "natural-cv"),
    gain_estimates: int = 40,
    gain_episodes: int = 4,
    seed: int = 0,
    trust_files: bool = False,
    workers: int | None = None,
    engine: Compute | str | None = None,
    progress: bool = True,
) -> Report:
    """Measure gradient estimators at a fixed policy; `print` the report, or take its `values()`.

    `task` is what `quell.train` takes: a name, an environment, or a function that makes one.
    `at` is "init" (untrained, with the settings of `preset`), a run folder, or RUN@ITERATION. `methods` are names
    (`quell.measure.rows.BASES`, with -ortho, -gcmc, -qmc, -crn), estimators, or `quell.measure.rows.Row` objects;
    ES is always among them. They are measured on `pairs` pairs in iterations as training has them, after `warmup`
    pairs to learn coefficients and value functions on; directions other than those of ES need separate episodes,
    `pairs_other` if not as many. Biases are measured against the mean of `reference`; one that is unbiased and less
    noisy than ES ("cv-moments") shows smaller ones. `gain` names steps whose gain in return is measured too
    ("sign:0.01", "kl:0.01"). If settings of a run's task name files, these are opened only with
    `trust_files=True`.
    """
    seed, compute = registry.whole("seed", seed), compute_for(engine, workers)
    pairs, warmup = registry.whole("pairs", pairs, 2), registry.whole("warmup", warmup)
    others = None if pairs_other is None else registry.whole("pairs_other", pairs_other, 2)
    estimates = registry.whole("gain_estimates", gain_estimates, 2)
    episodes = registry.whole("gain_episodes", gain_episodes, 1)
    steps = [parse_step(word) for word in gain]
    own = dict(settings or {})
    named = task if isinstance(task, str) else tasks.from_given(task, own.get("horizon"))
    point = find_point(named, at, preset=preset, seed=seed, settings=own, trust_files=trust_files)
    batch = point.config.pairs
    iterations, learn = max(2, pairs // batch), max(1, warmup // batch)
    if steps and estimates > iterations:
        raise UsageError(f"`gain_estimates={estimates}` needs {estimates * batch} pairs or more")
    stepped = [name.strip() for name in gain_methods if steps and name.strip()]
    given = methods.split(",") if isinstance(methods, str) else methods
    rows = find_rows(given, point.sigma, needed=[reference, *stepped])
    if any(row.biased for row in rows if row.name == reference):
        raise UsageError(f"{reference!r} declares a bias, so biases cannot be measured against it")
    with counter(shown=progress and sys.stderr.isatty()) as tell:
        shape = geometry(point, compute=compute)
        session = Session(point, compute, shape.kronecker, tell)
        found = session.measure(rows, iterations, learn, max(2, others // batch) if others else None)
        summaries = summarise(found, shape, np.random.default_rng(point.config.seed), reference=reference)
        worth = gains(session, found, stepped, steps, shape, estimates, episodes) if steps else []
    return Report(found, summaries, worth, reference=reference)
