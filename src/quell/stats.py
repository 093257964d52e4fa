"""Means, spreads and intervals: of numbers, of scores over seeds and tasks, of learning curves.

Scores are given per task: {"swimmer": [one final score per seed], ...}, and tasks are never mixed: what is resampled
or counted is seeds within a task. IQM and probability of improvement follow Agarwal et al., "Deep Reinforcement
Learning at the Edge of the Statistical Precipice" (2021); the intervals do not, where theirs hold too rarely with the
three to ten seeds that there usually are. How often each holds is measured in tests/test_coverage.py.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from quell.errors import UsageError
from quell.types import Array

Scores = Mapping[str, ArrayLike]

LEVEL = 0.05
"""Of the rank test behind a verdict."""
UNRESOLVED = "cannot be distinguished"
TOO_FEW = "too few seeds"
POWER = (
    "With five seeds against five the rank test finds a difference of one standard deviation of the seeds in 21% of "
    "comparisons, of two in 68% and of three in 95%: methods that cannot be distinguished may well differ."
)
"""What stands wherever verdicts are printed: Gaussian seeds, equal spreads."""


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
    tails, x = _tails(level), _finite(resampled)
    low, high = np.quantile(x, tails) if len(x) else (math.nan, math.nan)
    return Interval(float(value), float(low), float(high))


def t_interval(values: ArrayLike, level: float = 0.95) -> Interval:
    """Mean of independent values and its Student interval."""
    from scipy.stats import t

    x = np.asarray(values, dtype=float)
    mean, half = float(x.mean()), float(t.ppf((1 + level) / 2, len(x) - 1)) * spread(x, ddof=1) / math.sqrt(len(x))
    return Interval(mean, mean - half, mean + half)


def mean_over_tasks(values: Scores, level: float = 0.95) -> Interval:
    """The mean of the tasks' means, and its interval, from the spread of independent values within each task.

    Welch's: Student's t with the degrees of freedom of Satterthwaite, (sum s^2/n)^2 / sum (s^2/n)^2/(n - 1). What tasks
    there are is not in it: it holds for these ones.
    """
    from scipy.stats import t

    tasks = [_seeds(x) for x in values.values()]
    if not tasks or min(map(len, tasks)) < 2:
        raise UsageError("an interval over tasks needs two or more values of each")
    squares = np.array([spread(x, ddof=1) ** 2 / len(x) for x in tasks])
    mean, total = float(np.mean([x.mean() for x in tasks])), float(squares.sum())
    if total == 0:
        return Interval(mean, mean, mean)
    freedom = total**2 / float((squares**2 / [len(x) - 1 for x in tasks]).sum())
    half = float(t.ppf((1 + level) / 2, freedom)) * math.sqrt(total) / len(tasks)
    return Interval(mean, mean - half, mean + half)


def share_won(wins: Scores, level: float = 0.95) -> Interval:
    """The share of comparisons won (1; a tie 1/2, a loss 0), averaged over tasks; its interval is that of coin throws.

    Jeffreys', as in `probability_of_improvement`, with K = T^2 / sum 1/n throws for n comparisons on each of T tasks.
    """
    tasks = [_seeds(x) for x in wins.values()]
    value = float(np.mean([x.mean() for x in tasks]))
    return _of_throws(value, len(tasks) ** 2 / sum(1 / len(x) for x in tasks), level)


def expected_best(count: int) -> float:
    """Expected largest of so many independent standard normal numbers.

    E max = integral of x n phi(x) Phi(x)^(n-1) dx,    0.5642 for two, 1.4850 for nine
    """
    from scipy.special import ndtr

    x = np.linspace(-12, 12, 20_001)
    density = np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    return float(np.trapezoid(x * count * density * ndtr(x) ** (count - 1), x))


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
    """IQM of scores on one scale, with a stratified bootstrap interval; a task counts as often as it has seeds.

    Of a task's n seeds n - 1 are drawn: the mean of n draws would vary (n - 1)/n times as much as that of n seeds does.
    With a single seed there is nothing to resample, and the interval shrinks to its estimate.
    """
    tasks = [_seeds(runs) for runs in scores.values()]
    if not tasks:
        raise UsageError("no scores to summarise")
    drawn = [runs[rng.integers(len(runs), size=(resamples, max(1, len(runs) - 1)))] for runs in tasks]
    return percentile_interval(iqm(np.concatenate(tasks)), _iqm(np.concatenate(drawn, axis=1)), level)


def probability_of_improvement(x: Scores, y: Scores, *, level: float = 0.95) -> Interval:
    """P(X > Y) + P(X = Y)/2 for a seed of each, averaged over tasks, and an interval that holds up to P = 0 and 1.

    It is that of a share of coin throws (Jeffreys: quantiles of Beta(K P + 1/2, K (1 - P) + 1/2)). Whatever the two
    distributions are, the share of comparisons that n seeds win against m varies at most as that of min(n, m)
    throws does, and the mean over T tasks as that of

        K = T^2 / sum 1 / min(n, m)

    It varies less where seeds of both methods are spread alike, and where tasks differ. So K is divided by the ratio of
    its variance, estimated from how often each seed wins, to P (1 - P) / K. As this says little while few comparisons
    were lost (or won), two such throws at a ratio of 1 are added to it. A ratio above 1, or one that single seeds do
    not tell, counts as 1.
    """
    if not x or x.keys() != y.keys():
        raise UsageError(f"two methods are compared on the same tasks, not on {sorted(x)} and {sorted(y)}")
    values, squares, fewest = np.transpose([_won(_seeds(x[task]), _seeds(y[task])) for task in x])
    value, throws = float(values.mean()), len(x) ** 2 / float((1 / fewest).sum())
    largest, rare = value * (1 - value) / throws, min(value, 1 - value) * throws
    square = float(squares.sum()) / len(x) ** 2
    ratio = square / largest if square < largest else 1.0
    return _of_throws(value, throws * (rare + DRAWN) / (ratio * rare + DRAWN), level)


def _of_throws(value: float, throws: float, level: float) -> Interval:
    """Jeffreys' interval of a share of so many coin throws."""
    from scipy.special import betaincinv

    low, high = _tails(level)
    shape = throws * value + 0.5, throws * (1 - value) + 0.5
    return Interval(
        value,
        float(betaincinv(*shape, low)) if value > 0 else 0.0,
        float(betaincinv(*shape, high)) if value < 1 else 1.0,
    )


DRAWN = 2.0
"""Throws of the rarer kind that draw the ratio of `probability_of_improvement` to 1."""


def _won(a: Array, b: Array) -> tuple[float, float, int]:
    """The share of comparisons that `a` wins, its variance (nan for a single seed), and the fewer seeds."""
    wins = (1 + np.sign(a[:, None] - b)) / 2
    square = spread(wins.mean(axis=1), ddof=1) ** 2 / len(a) + spread(wins.mean(axis=0), ddof=1) ** 2 / len(b)
    return float(wins.mean()), square, min(len(a), len(b))


def rank_test(x: ArrayLike, y: ArrayLike) -> float:
    """p of the two-sided rank test of Wilcoxon, Mann and Whitney: twice the smaller tail of a sum of midranks.

    Exact, with ties too: every split of the scores into groups of these sizes is counted. Above EXACT scores it is the
    normal approximation, corrected for ties.
    """
    from scipy.stats import mannwhitneyu, rankdata

    a, b = _seeds(x), _seeds(y)
    if len(a) + len(b) > EXACT:
        return float(mannwhitneyu(a, b, method="asymptotic").pvalue)
    ranks = np.rint(2 * rankdata(np.concatenate([a, b]))).astype(int)  # twice the midranks: whole numbers
    fewer = min(ranks[: len(a)], ranks[len(a) :], key=len)
    splits, found = _sums(ranks, len(fewer)), int(fewer.sum())
    return min(1.0, 2 * float(min(splits[: found + 1].sum(), splits[found:].sum()) / splits.sum()))


EXACT = 120
"""Scores of both methods together, up to which `rank_test` counts splits."""


def _sums(ranks: Array, chosen: int) -> Array:
    """How many choices of so many of these whole numbers have each sum."""
    counts = np.zeros((chosen + 1, int(ranks.sum()) + 1))
    counts[0, 0] = 1
    for rank in ranks:
        counts[1:, rank:] += counts[:-1, :-rank]
    return np.asarray(counts[chosen])


def verdict(x: ArrayLike, y: ArrayLike) -> tuple[Interval | None, str]:
    """P(X > Y) for a seed of each, and what the seeds allow to say: above or below, by an exact rank test at 5%.

    That takes four seeds against four or three against five; with fewer even the clearest order may be chance. The test
    asks whether both methods' seeds can be one distribution's, so it may speak where the interval of P, which assumes
    nothing about their distributions, still holds 1/2.
    """
    a, b = _seeds(x), _seeds(y)
    if min(len(a), len(b)) < 2:
        return None, TOO_FEW
    chance = probability_of_improvement({"": a}, {"": b})
    if 2 / math.comb(len(a) + len(b), len(a)) > LEVEL:
        return chance, TOO_FEW
    if rank_test(a, b) > LEVEL:
        return chance, UNRESOLVED
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


def _tails(level: float) -> tuple[float, float]:
    if not 0 < level < 1:
        raise UsageError(f"the level of an interval lies between 0 and 1, not at {level}")
    return (1 - level) / 2, (1 + level) / 2


def _finite(values: ArrayLike) -> Array:
    x = np.asarray(values, dtype=float)
    return x[np.isfinite(x)]


def _seeds(scores: ArrayLike) -> Array:
    x = np.asarray(scores, dtype=float)
    if x.ndim != 1 or not x.size or not np.isfinite(x).all():
        raise UsageError("scores must be a list of one or more finite numbers, one per seed")
    return x
