"""Numbers from repeated gradients: variance, bias, their sum, signal; intervals by bootstrap over iterations.

With M independent gradients g_m of an estimator (each from N pairs), K their Gram matrix, w the counts of a resample,

    V[g] = (sum_m w_m K_mm - w'Kw / M) / (M - 1)        total variance, the sum over coordinates

so one Gram matrix serves every resample, and nothing of size d is resampled. The bias is measured against a reference
that has none: ES, or an estimator as unbiased whose mean is known better. With e_m the gradients of the reference,

    B^2 = mean over m != n of (g_m - e_m)'(g_n - e_n)    free of the noise's own square: unbiased, possibly negative
    error = V[g] + B^2                                   mean squared error of one estimate

Rows that share their episodes with it are compared iteration by iteration, and resampled together; others (orthogonal
directions, a Halton sequence, common action noise) have episodes of their own and are resampled on their own.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from quell.estimate.control_variate import ControlVariate
from quell.measure.fisher import METRICS, Geometry
from quell.measure.session import Measured, Measurement
from quell.perturb import Kind
from quell.stats import Interval, percentile_interval, times_drawn
from quell.types import Array

Layout = Mapping[str, tuple[slice, tuple[int, ...]]]
Weights = Mapping[tuple[Kind, bool], Array]  # A row's sampling -> the counts of its resamples
RESAMPLES = 2000
COLUMNS = 1 << 16  # coordinates handled at a time


@dataclass(frozen=True)
class Bias:
    """How far an estimator's mean is from the reference's, in standard errors."""

    along: float  # z-score along the gradient's direction (as the warm-up estimated it)
    layers: dict[str, float]  # layer -> z-score along the gradient's part in that layer
    p: float
    """Probability of a |z| as large as the largest of all coordinates, in any of them, without bias (Bonferroni)."""

    @property
    def worst(self) -> float:
        """The z-score along the gradient or a layer's part of it that is farthest from 0."""
        return max([self.along, *self.layers.values()], key=abs)


@dataclass(frozen=True)
class Errors:
    """One estimator in one metric: `variance` in units of reward (squared), the rest relative to the variance of ES."""

    variance: Interval
    ratio: Interval  # variance
    bias: Interval  # squared norm of the difference of its mean from the reference's, free of the noise's own square
    error: Interval  # variance and squared bias: the mean squared error of one estimate


@dataclass(frozen=True)
class Summary:
    """One estimator at one point."""

    name: str
    biased: bool  # whether the estimator declares a bias
    metrics: dict[str, Errors]  # metric (see quell.measure.fisher) -> variance, bias and their sum
    cosine: Interval
    bias: Bias
    share: dict[str, float]  # layer -> its share of the estimator's variance
    eta: dict[str, float]  # layer -> mean coefficient of the (first) control variate; empty for estimators without
    seconds: float
    pace: float  # time of an iteration, relative to plain ES

    @property
    def variance(self) -> Interval:
        """Total variance."""
        return self.metrics["parameters"].variance

    @property
    def ratio(self) -> Interval:
        """Total variance relative to ES."""
        return self.metrics["parameters"].ratio

    @property
    def fisher_ratio(self) -> Interval:
        """Variance in the policy's metric relative to ES."""
        return self.metrics["policy"].ratio

    @property
    def cost(self) -> float:
        """ratio times the time of an iteration, relative to plain ES: below 1 it pays."""
        return self.ratio.value * self.pace

    @property
    def step(self) -> float:
        """How long a step it bears, relative to ES, under an optimiser that rescales coordinates: sqrt(T) / F.

        A step of Adam at rate a climbs like a / sqrt(T) and shakes the policy like a^2 F / T, with T the ratio and F
        the Fisher ratio. The best rate goes with sqrt(T) / F, and what it gains with 1 / F.
        """
        fisher = self.fisher_ratio.value
        return self.ratio.value**0.5 / fisher if fisher > 0 else float("nan")


def summarise(
    measurement: Measurement, geometry: Geometry, rng: np.random.Generator, *, reference: str = "es"
) -> list[Summary]:
    """A summary of every row, in every metric."""
    es, truth = measurement.find("es"), measurement.find(reference)
    samplings = {row.row.sampling: len(row.gradients) for row in measurement.rows}
    weights = {sampling: times_drawn(rng, count, RESAMPLES) for sampling, count in samplings.items()}
    errors = {metric: _errors(measurement, geometry, metric, weights, truth) for metric in METRICS}
    best = min(measurement.rows, key=lambda row: errors["parameters"][row.row.name].variance.value)
    direction, layout, played = _direction(measurement), measurement.point.policy.layout, measurement.rollout_seconds
    return [
        Summary(
            name=row.row.name,
            biased=row.row.biased,
            metrics={name: of_rows[row.row.name] for name, of_rows in errors.items()},
            cosine=cosines(row, best, weights[row.row.sampling]),
            bias=bias(row, truth, direction, layout),
            share=_share(row, layout),
            eta=coefficients(row),
            seconds=row.seconds,
            pace=(played + row.seconds) / (played + es.seconds),
        )
        for row in measurement.rows
    ]


def _errors(
    measured: Measurement, geometry: Geometry, metric: str, weights: Weights, truth: Measured
) -> dict[str, Errors]:
    """Row -> its errors in one metric."""

    def sample(row: Measured) -> tuple[Array, Sample]:
        vectors = geometry.mapped(metric, row.gradients)
        return vectors, Sample(gram(vectors), weights[row.row.sampling])

    (_, plain), (known, reference), found = sample(measured.find("es")), sample(truth), {}
    for row in measured.rows:
        given, own = sample(row)
        cross = own.gram if row is truth else gram(given, known)
        gap = squared_bias(own, reference, cross, paired=row.row.sampling == truth.row.sampling)
        found[row.row.name] = compare(own, plain, gap, unit=measured.scale**2)
    return found


@dataclass(frozen=True)
class Sample:
    """Gradients of one estimator, as their Gram matrix [M, M] and the counts of its resamples [RESAMPLES, M]."""

    gram: Array
    weights: Array


def compare(own: Sample, plain: Sample, bias: tuple[float, Array], *, unit: float = 1.0) -> Errors:
    """An estimator relative to ES, with its `squared_bias`; variances are times `unit`."""
    gap, gap_again = bias
    with np.errstate(all="ignore"):
        noise, again = variances(own.gram)[0], variances(own.gram, own.weights)
        es, es_again = variances(plain.gram)[0], variances(plain.gram, plain.weights)
        return Errors(
            variance=percentile_interval(noise * unit, again * unit),
            ratio=percentile_interval(float(noise / es), again / es_again),
            bias=percentile_interval(float(gap / es), gap_again / es_again),
            error=percentile_interval(float((noise + gap) / es), (again + gap_again) / es_again),
        )


def squared_bias(own: Sample, truth: Sample, cross: Array, *, paired: bool) -> tuple[float, Array]:
    """B^2, and that of every resample; `cross` [M, M'] holds the products of the two estimators' gradients."""
    between = own.gram + truth.gram - cross - cross.T if paired else None

    def value(w: Array, v: Array) -> Array:
        if between is not None:
            return squared_mean(between, w)
        products = _form(cross, w, v) / cross.size
        return np.asarray(squared_mean(own.gram, w) + squared_mean(truth.gram, v) - 2 * products)

    once = value(*(np.ones((1, count)) for count in cross.shape))
    return float(once[0]), value(own.weights, truth.weights)


def squared_mean(matrix: Array, weights: Array) -> Array:
    """|E g|^2 of each resample, without bias: the mean product of two different gradients.

    What was drawn twice is not multiplied with itself: that would be the noise's square, which swamps the mean's.
    """
    others = matrix - np.diag(np.diag(matrix))
    with np.errstate(all="ignore"):
        return np.asarray(_form(others, weights, weights) / (len(matrix) ** 2 - np.square(weights).sum(axis=1)))


def gram(gradients: Array, others: Array | None = None) -> Array:
    """g_m . h_n in float64, a slice of coordinates at a time; h is g unless given."""
    total = np.zeros((len(gradients), len(gradients if others is None else others)))
    for start in range(0, gradients.shape[1], COLUMNS):
        part = gradients[:, start : start + COLUMNS].astype(np.float64)
        total += part @ (part if others is None else others[:, start : start + COLUMNS].astype(np.float64)).T
    return total


def _form(matrix: Array, w: Array, v: Array) -> Array:
    """w' K v for every resample."""
    return np.asarray(((w @ matrix) * v).sum(axis=1))


def variances(matrix: Array, weights: Array | None = None) -> Array:
    """V[g] of all repeats, or of each resample, which repeats itself: the factor M/(M-1) makes up for that."""
    count = len(matrix)
    drawn = np.ones((1, count)) if weights is None else weights
    spread = drawn @ np.diag(matrix) - _form(matrix, drawn, drawn) / count
    return np.asarray(np.maximum(spread, 0) / (count - 1) * (1 if weights is None else count / (count - 1)))


def cosines(row: Measured, best: Measured, weights: Array) -> Interval:
    """Mean cosine between one estimate and the mean of the least noisy estimator's *other* estimates."""
    total = best.gradients.sum(axis=0, dtype=np.float64)
    values = []
    for m, g in enumerate(row.gradients):
        reference = total - (best.gradients[m] if row.row.sampling == best.row.sampling else 0.0)
        scale = np.linalg.norm(reference) * np.linalg.norm(g.astype(np.float64))
        values.append(float(reference @ g) / scale if scale > 0 else 0.0)
    found = np.array(values)
    return percentile_interval(float(found.mean()), weights @ found / len(found))


def bias(row: Measured, truth: Measured, direction: Array, layout: Layout) -> Bias:
    """z-scores of mean(g) - mean(g of the reference): paired where both saw the same episodes, Welch's where not."""
    from scipy.stats import norm, t

    if row is truth:
        return Bias(0.0, dict.fromkeys(layout, 0.0), 1.0)
    paired = row.row.sampling == truth.row.sampling
    count, dim = row.gradients.shape

    def z(values: Array, plain: Array) -> Array:
        gap = values - plain if paired else values
        square = gap.var(axis=0, ddof=1) / count + (0.0 if paired else plain.var(axis=0, ddof=1) / len(plain))
        mean = values.mean(axis=0) - plain.mean(axis=0)
        return np.asarray(mean / np.where(square > 0, np.sqrt(square), np.inf))

    freedom = count - 1 + (0 if paired else len(truth.gradients) - 1)

    def projected(where: slice) -> float:
        value = float(z(*((one.gradients[:, where] @ direction[where])[:, None] for one in (row, truth)))[0])
        return float(np.copysign(norm.isf(t.sf(abs(value), freedom)), value))

    largest = 0.0
    for start in range(0, dim, COLUMNS):
        part = slice(start, start + COLUMNS)
        each = z(row.gradients[:, part].astype(np.float64), truth.gradients[:, part].astype(np.float64))
        largest = max(largest, float(np.abs(each).max()))
    p = min(1.0, 2 * float(t.sf(largest, freedom)) * dim)
    layers = {name: projected(where) for name, (where, _) in layout.items()}
    return Bias(projected(slice(None)), layers, p)


def _direction(measurement: Measurement) -> Array:
    """The gradient's direction, from warm-ups alone: the mean of the row whose warm-up was shortest (least noise)."""
    found = [row.warm for row in measurement.rows if row.warm.any()]
    if not found:
        return np.full(len(measurement.point.theta), len(measurement.point.theta) ** -0.5)
    shortest = min(found, key=lambda warm: float(np.linalg.norm(warm)))
    return np.asarray(shortest / np.linalg.norm(shortest))


def _share(row: Measured, layout: Layout) -> dict[str, float]:
    """Share of the variance, per layer."""
    parts = {name: row.gradients[:, where].astype(np.float64) for name, (where, _) in layout.items()}
    noise = {name: float(part.var(axis=0, ddof=1).sum()) for name, part in parts.items()}
    total = sum(noise.values())
    return {name: value / total if total > 0 else float("nan") for name, value in noise.items()}


def coefficients(row: Measured) -> dict[str, float]:
    """Mean eta per layer, as learned in the warm-up."""
    estimator = row.row.estimator
    if not isinstance(estimator, ControlVariate):
        return {}
    beta = estimator.per_parameter(row.problem, row.state)
    return {name: float(beta[0, where].mean()) for name, (where, _) in row.problem.policy.layout.items()}
