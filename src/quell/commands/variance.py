"""quell variance TASK: gradient estimators side by side at a fixed policy."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro

from quell.config import Preset, default_workers, parse_value
from quell.errors import UsageError, require

DESCRIPTION = """Measure gradient estimators on TASK at a fixed policy: total variance V[g] of an estimate from N pairs,
its ratio to plain ES, the same in the policy's Fisher metric, cosine to the gradient, bias in standard errors, and
optionally what a step along an estimate gains. Coefficients are learned on a warm-up and measured on other episodes."""
SWEEPS = {"gamma": "cv.gamma", "sigma": "sigma", "std": "policy.init_std", "pairs": "pairs"}


@dataclass(frozen=True)
class Arguments:
    task: Annotated[str, tyro.conf.Positional]
    """`quell tasks` lists the names."""
    at: str = "init"
    """init, a run folder, or RUN@ITERATION."""
    methods: str = "es,ortho,gcmc,qmc,cv-paper,cv,auto"
    """Estimators, separated by commas: es re cv-paper cv cv-layer cv-linear cv-network auto auto-policy, each also with
    -ortho, -gcmc, -qmc (directions) or -crn (common action noise in a pair); ortho, gcmc, qmc and crn mean ES."""
    pairs: int = 400
    """Pairs to measure on, in iterations of N (the setting `pairs`, 5 in the paper)."""
    pairs_other: int | None = None
    """Pairs for directions and noise other than plain ES has, which need episodes of their own (default: as many)."""
    warmup: int = 150
    """Pairs to learn coefficients and value functions on first."""
    preset: Preset = "paper"
    """At init: whose settings."""
    settings: dict[str, str] = field(default_factory=dict)
    """Other settings, e.g. --settings sigma 0.05 policy.init_std 0.3"""
    sweep: tuple[str, ...] = ()
    """A name (gamma, sigma, std: the action noise, pairs: N) and its values, e.g. --sweep gamma 0.9 0.99 1"""
    gain: tuple[str, ...] = ()
    """Steps whose gain to measure: raw:NORM, sign:RATE (Adam's first step) or kl:DIVERGENCE."""
    gain_methods: str = "es,cv-paper,auto"
    gain_estimates: int = 40
    """Independent estimates to step along."""
    gain_episodes: int = 4
    """Episodes played before and after each step."""
    seed: int = 0
    workers: int | None = None
    json: Path | None = None
    """Write all numbers here."""
    figure: Path | None = None
    """Draw them here (needs the extra plot)."""


def main(arguments: list[str]) -> int:
    parsed = tyro.cli(Arguments, args=arguments, prog="quell variance", description=DESCRIPTION)
    steps = [_gain(word) for word in parsed.gain]
    sweep = _sweep(parsed.sweep)
    _check(parsed)

    from quell.figures.variance import variance_figure
    from quell.variances.points import find_point
    from quell.variances.report import Report, lines
    from quell.variances.rows import find_rows, gamma_rows

    rows = find_rows(parsed.methods.split(","))
    if steps:
        rows = find_rows([row.name for row in rows] + parsed.gain_methods.split(","))
    settings = {name: parse_value(text) for name, text in parsed.settings.items()}
    point = find_point(parsed.task, parsed.at, preset=parsed.preset, seed=parsed.seed, settings=settings)
    points = [(point, "")]
    if sweep and sweep[0] == "gamma":
        rows = [*rows, *gamma_rows(sweep[1])]
    elif sweep:
        name, values = sweep
        points = [(point.with_settings({SWEEPS[name]: _number(name, v)}), f"{name}={v:g}") for v in values]
    reports: list[Report] = []
    for where, label in points:
        reports.append(_measure(parsed, where, rows, steps, label))
        print("\n".join(lines(reports[-1])), flush=True)
    if parsed.json is not None:
        found = [report.values() for report in reports]
        parsed.json.parent.mkdir(parents=True, exist_ok=True)
        parsed.json.write_text(json.dumps(found[0] if len(found) == 1 else found, indent=1) + "\n")
    if parsed.figure is not None:
        variance_figure([report.values() for report in reports], parsed.figure)
    return 0


def _measure(parsed: Arguments, point: Any, rows: list[Any], steps: list[Any], label: str) -> Any:
    import numpy as np

    from quell.terminal.counter import Counter
    from quell.variances.fisher import in_metric, visited_states
    from quell.variances.gain import gains
    from quell.variances.measure import measure
    from quell.variances.report import Report
    from quell.variances.summary import summarise

    workers, size = parsed.workers or default_workers(), point.config.pairs
    iterations, warmup = max(2, parsed.pairs // size), max(1, parsed.warmup // size)
    if steps and parsed.gain_estimates > iterations:
        raise UsageError(
            f"--gain-estimates {parsed.gain_estimates} needs --pairs {parsed.gain_estimates * size} or more"
        )
    with Counter() as tell:
        others = max(2, parsed.pairs_other // size) if parsed.pairs_other else None
        found = measure(point, rows, iterations=iterations, warmup=warmup, workers=workers, others=others, tell=tell)
        states = visited_states(point, episodes=4, workers=workers)
        theta, policy = point.theta, point.policy
        metric = {one.row.name: in_metric(policy, theta, states, one.gradients) for one in found.rows}
        summaries = summarise(found, metric, np.random.default_rng(parsed.seed))
        worth = []
        if steps:
            names = [name for name in parsed.gain_methods.split(",") if name]
            counts = {"estimates": parsed.gain_estimates, "episodes": parsed.gain_episodes, "workers": workers}
            worth = gains(found, names, steps, states, tell=tell, **counts)
    return Report(found, summaries, worth, label)


def _check(parsed: Arguments) -> None:
    for name, low in (("pairs", 2), ("warmup", 0), ("seed", 0), ("gain_estimates", 2), ("gain_episodes", 1)):
        if getattr(parsed, name) < low:
            raise UsageError(f"--{name.replace('_', '-')} must be at least {low}, got {getattr(parsed, name)}")
    if parsed.workers is not None and parsed.workers < 1:
        raise UsageError(f"--workers must be at least 1, got {parsed.workers}")
    if parsed.figure is not None:
        require("plot", "`quell variance --figure`")


def _gain(word: str) -> tuple[str, float]:
    kind, _, size = word.partition(":")
    try:
        value = float(size)
    except ValueError:
        value = math.nan
    if kind not in ("raw", "sign", "kl") or not (0 < value < math.inf):
        raise UsageError(f"--gain takes raw:NORM, sign:RATE or kl:DIVERGENCE with a positive number, got {word!r}")
    return kind, value


def _sweep(words: tuple[str, ...]) -> tuple[str, list[float]] | None:
    if not words:
        return None
    name, *texts = words
    if name not in SWEEPS or len(texts) < 2:
        raise UsageError(f"--sweep takes one of {', '.join(SWEEPS)} and at least two values, got {' '.join(words)!r}")
    try:
        values = [float(text) for text in texts]
    except ValueError:
        raise UsageError(f"--sweep needs numbers, got {' '.join(texts)!r}") from None
    if not all(0 < value < math.inf for value in values) or (name == "gamma" and max(values) > 1):
        raise UsageError(f"--sweep {name}: values out of range: {' '.join(texts)}")
    return name, values


def _number(name: str, value: float) -> float:
    return int(value) if name == "pairs" else value
