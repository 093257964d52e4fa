"""Means, spreads and intervals: of numbers, of scores over seeds and tasks, of learning curves.

Scores are given per task: {"swimmer": [one final score per seed], ...}. Intervals are percentile bootstraps
that resample seeds within each task and never mix tasks, from a generator the caller names. With few seeds
they are too narrow (five Gaussian seeds on three tasks: 95% intervals held the truth 91% of the time);
with one there is nothing to resample, and the interval shrinks to its estimate.

IQM, stratified bootstrap and probability of improvement follow Agarwal et al., "Deep Reinforcement Learning
at the Edge of the Statistical Precipice" (2021).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from quell.errors import UsageError
from quell.types import Array

Scores = Mapping[str, ArrayLike]


@dataclass(frozen=True)
class MeanStd:
    """mean ± std over seeds; `std` is the sample standard deviation (n - 1), nan for a single seed."""

    mean: float
    std: float

    def overlaps(self, other: "MeanStd") -> bool:
        """Whether [mean - std, mean + std] of the two share a point; an unknown std counts as none."""
        reach = sum(0 if math.isnan(r.std) else r.std for r in (self, other))
        return abs(self.mean - other.mean) <= reach


@dataclass(frozen=True)
class Interval:
    """An estimate and the interval about it, at 95% unless said otherwise; f"{interval:.2f}" is "0.50 [0.45, 0.55]"."""

    value: float
    low: float
    high: float

    def __format__(self, spec: str) -> str:
        return f"{self.value:{spec}} [{self.low:{spec}}, {self.high:{spec}}]"


def spread(values: ArrayLike, ddof: int = 0) -> float:
    """Standard deviation of the finite values, nan for too few; squares in units of 2^k, so that none overflows."""
    x = _finite(values)
    if len(x) <= ddof:
        return math.nan
    unit = 2.0 ** math.floor(math.log2(max(float(np.abs(x).max()), 1e-300)))
    return unit * float((x / unit).std(ddof=ddof))


def mean(values: ArrayLike) -> float:
    """Mean of the finite values, nan for none."""
    x = _finite(values)
    return float(x.mean()) if len(x) else math.nan


def percentile_interval(value: float, resampled: ArrayLike, level: float = 0.95) -> Interval:
    """A bootstrap interval: quantiles of the resampled values that are finite."""
    if not 0 < level < 1:
        raise UsageError(f"the level of an interval lies between 0 and 1, not at {level}")
    x = _finite(resampled)
    low, high = np.quantile(x, [(1 - level) / 2, (1 + level) / 2]) if len(x) else (math.nan, math.nan)
    return Interval(float(value), float(low), float(high))


def t_interval(values: ArrayLike, level: float = 0.95) -> Interval:
    """Mean of independent values and its Student interval."""
    from scipy.stats import t

    x = np.asarray(values, dtype=float)
    mean, half = float(x.mean()), float(t.ppf((1 + level) / 2, len(x) - 1)) * spread(x, ddof=1) / math.sqrt(len(x))
    return Interval(mean, mean - half, mean + half)


def mean_std(scores: ArrayLike) -> MeanStd:
    """Mean and sample standard deviation over seeds."""
    x = _seeds(scores)
    return MeanStd(float(x.mean()), spread(x, ddof=1))


def bold(results: Mapping[str, MeanStd]) -> set[str]:
    """The methods the paper prints in bold: the best mean, and all whose mean ± std overlaps it.

    This is the rule of the table captions. The paper's own tables depart from it in places.
    """
    if not results:
        return set()
    best = max(results.values(), key=lambda result: result.mean)
    return {name for name, result in results.items() if result.overlaps(best)}


def iqm(scores: ArrayLike) -> float:
    """Interquartile mean: the mean without the lowest and the highest int(n/4) of the n scores."""
    return float(_iqm(_seeds(scores)))


def iqm_interval(scores: Scores, rng: np.random.Generator, *, resamples: int = 2000, level: float = 0.95) -> Interval:
    """IQM of scores on one scale, with a stratified bootstrap interval; a task counts as often as it has seeds."""
    tasks = [_seeds(runs) for runs in scores.values()]
    if not tasks:
        raise UsageError("no scores to summarise")
    drawn = [runs[rng.integers(len(runs), size=(resamples, len(runs)))] for runs in tasks]
    return percentile_interval(iqm(np.concatenate(tasks)), _iqm(np.concatenate(drawn, axis=1)), level)


def probability_of_improvement(
    x: Scores, y: Scores, rng: np.random.Generator, *, resamples: int = 2000, level: float = 0.95
) -> Interval:
    """P(X > Y) + P(X = Y)/2 for a seed of each, averaged over tasks, with a stratified bootstrap interval."""
    if not x or x.keys() != y.keys():
        raise UsageError(f"two methods are compared on the same tasks, not on {sorted(x)} and {sorted(y)}")
    estimates, resampled = [], []
    for task in x:
        a, b = _seeds(x[task]), _seeds(y[task])
        wins = (1 + np.sign(a[:, None] - b)) / 2
        estimates.append(wins.mean())
        times_a, times_b = (times_drawn(rng, len(runs), resamples) for runs in (a, b))
        resampled.append(((times_a @ wins) * times_b).sum(axis=1) / wins.size)
    return percentile_interval(float(np.mean(estimates)), np.mean(resampled, axis=0), level)


def verdict(x: ArrayLike, y: ArrayLike) -> tuple[Interval | None, str]:
    """P(X > Y) for a seed of each, and what the seeds allow to say: above or below, by an exact rank test at 5%.

    That takes four seeds against four or three against five; with fewer even the clearest order may be chance.
    """
    from scipy.stats import mannwhitneyu

    a, b = _seeds(x), _seeds(y)
    if min(len(a), len(b)) < 2:
        return None, "too few seeds"
    chance = probability_of_improvement({"": a}, {"": b}, np.random.default_rng(0))
    if 2 / math.comb(len(a) + len(b), len(a)) > 0.05:
        return chance, "too few seeds"
    if chance.value == 0.5 or mannwhitneyu(a, b).pvalue > 0.05:
        return chance, "not resolved"
    return chance, "above" if chance.value > 0.5 else "below"


def area_under_curve(steps: ArrayLike, returns: ArrayLike) -> float:
    """Average height of a learning curve: its trapezoid area over environment steps, divided by their span."""
    x, y = np.asarray(steps, dtype=float), np.asarray(returns, dtype=float)
    if x.ndim != 1 or len(x) < 2 or y.shape != x.shape:
        raise UsageError(f"a curve needs as many returns as steps, two or more; not {y.shape} and {x.shape}")
    if not (np.diff(x) > 0).all():
        raise UsageError("the steps of a curve must increase")
    return float(np.trapezoid(y, x) / (x[-1] - x[0]))


def _iqm(x: Array) -> Array:
    """Along the last axis."""
    cut = x.shape[-1] // 4
    return np.asarray(np.sort(x, axis=-1)[..., cut : x.shape[-1] - cut].mean(axis=-1))


def times_drawn(rng: np.random.Generator, n: int, resamples: int) -> Array:
    """Bootstrap resamples of n things, as how often each was drawn [resamples, n]."""
    return rng.multinomial(n, np.full(n, 1 / n), size=resamples).astype(float)


def _finite(values: ArrayLike) -> Array:
    x = np.asarray(values, dtype=float)
    return x[np.isfinite(x)]


def _seeds(scores: ArrayLike) -> Array:
    x = np.asarray(scores, dtype=float)
    if x.ndim != 1 or not x.size or not np.isfinite(x).all():
        raise UsageError("scores must be a list of one or more finite numbers, one per seed")
    return x
