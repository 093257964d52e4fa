"""Numbers from repeated gradients: total variance, ratio to ES, bias, signal; intervals by bootstrap over iterations.

With M independent gradients g_m of an estimator (each from N pairs), K their Gram matrix, w the counts of a resample,

    V[g] = (sum_m w_m K_mm - w'Kw / M) / (M - 1)        total variance, the sum over coordinates
    |grad|^2 = (w'Kw - sum_m w_m K_mm) / (M (M - 1))     squared norm of the mean, free of the noise's own square

so one Gram matrix serves every resample, and nothing of size d is resampled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quell.stats import Interval
from quell.variances.measure import Measurement
from quell.variances.session import Measured

Array = NDArray[Any]
Layout = Mapping[str, tuple[slice, tuple[int, ...]]]
RESAMPLES = 2000
COLUMNS = 1 << 16  # coordinates handled at a time


@dataclass(frozen=True)
class Bias:
    """How far an estimator's mean is from that of ES, in standard errors."""

    along: float
    """z-score along the gradient's direction (as the warm-up estimated it)."""
    layers: dict[str, float]
    """layer -> z-score along the gradient's part in that layer."""
    coordinate: float
    """Largest |z| of any coordinate. Of a thousand, one in sixteen unbiased estimators has one above 4; hence p."""
    p: float
    """Probability of one at least so large without bias, in any coordinate (Bonferroni, t distribution)."""

    @property
    def worst(self) -> float:
        """The z-score along the gradient or a layer's part of it that is farthest from 0."""
        return max([self.along, *self.layers.values()], key=abs)


@dataclass(frozen=True)
class Summary:
    """One estimator at one point."""

    name: str
    variance: Interval
    ratio: Interval
    fisher_ratio: Interval
    cosine: Interval
    bias: Bias
    signal: dict[str, float]
    """layer -> squared norm of the gradient / variance of one estimate, in that layer (NaN: nothing measurable)."""
    share: dict[str, float]
    """layer -> its share of the estimator's variance."""
    eta: dict[str, float]
    """layer -> mean coefficient of the (first) control variate; empty for estimators without."""
    seconds: float
    cost: float
    """ratio times the time of an iteration, relative to plain ES: below 1 it pays."""

    @property
    def step(self) -> float:
        """How long a step it bears, relative to ES, under an optimiser that rescales coordinates: sqrt(T) / F.

        A step of Adam at rate a climbs like a / sqrt(T) and shakes the policy like a^2 F / T, with T the ratio and F
        the Fisher ratio. The best rate goes with sqrt(T) / F, and what it gains with 1 / F.
        """
        fisher = self.fisher_ratio.value
        return self.ratio.value**0.5 / fisher if fisher > 0 else float("nan")


def summarise(measurement: Measurement, fisher: dict[str, Array], rng: np.random.Generator) -> list[Summary]:
    """A summary of every row; `fisher` holds each row's gradients in the policy's metric (see quell.variances.fisher)."""
    es = measurement.find("es")
    samplings = {row.row.sampling: len(row.gradients) for row in measurement.rows}
    weights = {sampling: resamples(count, rng) for sampling, count in samplings.items()}
    square = measurement.scale**2
    grams = {row.row.name: gram(row.gradients) for row in measurement.rows}
    best = min(measurement.rows, key=lambda row: variance(grams[row.row.name]))
    direction = _direction(measurement)
    found = []
    for row in measurement.rows:
        name, own, plain = row.row.name, weights[row.row.sampling], weights[es.row.sampling]
        ratio = ratio_interval(grams[name], own, grams["es"], plain)
        in_metric = ratio_interval(gram(fisher[name]), own, gram(fisher["es"]), plain) if fisher else _unknown()
        pace = (measurement.rollout_seconds + row.seconds) / (measurement.rollout_seconds + es.seconds)
        signal, share = _layers(measurement, row)
        found.append(
            Summary(
                name,
                interval(variance(grams[name]) * square, variances(grams[name], own) * square),
                ratio,
                in_metric,
                cosines(row, best, own),
                bias(row, es, direction, measurement.point.policy.layout),
                signal,
                share,
                coefficients(measurement, row),
                row.seconds,
                ratio.value * pace,
            )
        )
    return found


def resamples(count: int, rng: np.random.Generator) -> Array:
    """Counts [RESAMPLES, count] of draws with replacement."""
    return rng.multinomial(count, np.full(count, 1 / count), RESAMPLES).astype(np.float64)


def gram(gradients: Array) -> Array:
    """g_m . g_n in float64, a slice of coordinates at a time."""
    total = np.zeros((len(gradients), len(gradients)))
    for start in range(0, gradients.shape[1], COLUMNS):
        part = gradients[:, start : start + COLUMNS].astype(np.float64)
        total += part @ part.T
    return total


def variance(matrix: Array) -> float:
    """V[g] from the Gram matrix of all repeats."""
    return float(variances(matrix, np.ones((1, len(matrix))), resampled=False)[0])


def variances(matrix: Array, weights: Array, *, resampled: bool = True) -> Array:
    """V[g] of each resample; a resample repeats itself, which the factor M/(M-1) makes up for."""
    count = len(matrix)
    spread = weights @ np.diag(matrix) - np.einsum("bm,mn,bn->b", weights, matrix, weights) / count
    return np.asarray(np.maximum(spread, 0) / (count - 1) * (count / (count - 1) if resampled else 1))


def interval(value: float, resampled: Array) -> Interval:
    finite = resampled[np.isfinite(resampled)]
    low, high = np.quantile(finite, [0.025, 0.975]) if len(finite) else (np.nan, np.nan)
    return Interval(float(value), float(low), float(high))


def ratio_interval(matrix: Array, weights: Array, plain: Array, plain_weights: Array) -> Interval:
    """V / V[ES]; estimators on the same episodes are resampled together."""
    with np.errstate(all="ignore"):
        value = np.float64(variance(matrix)) / variance(plain)
        return interval(float(value), variances(matrix, weights) / variances(plain, plain_weights))


def cosines(row: Measured, best: Measured, weights: Array) -> Interval:
    """Mean cosine between one estimate and the mean of the least noisy estimator's *other* estimates."""
    total = best.gradients.sum(axis=0, dtype=np.float64)
    values = []
    for m, g in enumerate(row.gradients):
        own = best.gradients[m] if row.row.sampling == best.row.sampling else 0.0
        reference = total - own
        scale = np.linalg.norm(reference) * np.linalg.norm(g.astype(np.float64))
        values.append(float(reference @ g) / scale if scale > 0 else 0.0)
    found = np.array(values)
    return interval(float(found.mean()), weights @ found / len(found))


def bias(row: Measured, es: Measured, direction: Array, layout: Layout) -> Bias:
    """z-scores of mean(g) - mean(g of ES): paired where both saw the same episodes, Welch's where not."""
    from scipy.stats import norm, t

    if row is es:
        return Bias(0.0, dict.fromkeys(layout, 0.0), 0.0, 1.0)
    paired = row.row.sampling == es.row.sampling
    count, dim = row.gradients.shape

    def z(values: Array, plain: Array) -> Array:
        gap = values - plain if paired else values
        square = gap.var(axis=0, ddof=1) / count + (0.0 if paired else plain.var(axis=0, ddof=1) / len(plain))
        mean = values.mean(axis=0) - plain.mean(axis=0)
        return np.asarray(mean / np.where(square > 0, np.sqrt(square), np.inf))

    def projected(where: slice) -> float:
        return as_normal(float(z(*((one.gradients[:, where] @ direction[where])[:, None] for one in (row, es)))[0]))

    freedom = count - 1 + (0 if paired else len(es.gradients) - 1)

    def as_normal(value: float) -> float:
        return float(np.copysign(norm.isf(t.sf(abs(value), freedom)), value))

    largest = 0.0
    for start in range(0, dim, COLUMNS):
        part = slice(start, start + COLUMNS)
        each = z(row.gradients[:, part].astype(np.float64), es.gradients[:, part].astype(np.float64))
        largest = max(largest, float(np.abs(each).max()))
    p = min(1.0, 2 * float(t.sf(largest, freedom)) * dim)
    layers = {name: projected(where) for name, (where, _) in layout.items()}
    return Bias(projected(slice(None)), layers, as_normal(largest), p)


def _direction(measurement: Measurement) -> Array:
    """The gradient's direction, from warm-ups alone: the mean of the row whose warm-up was shortest (least noise)."""
    found = [row.warm for row in measurement.rows if row.warm.any()]
    if not found:
        return np.full(len(measurement.point.theta), len(measurement.point.theta) ** -0.5)
    shortest = min(found, key=lambda warm: float(np.linalg.norm(warm)))
    return np.asarray(shortest / np.linalg.norm(shortest))


def _layers(measurement: Measurement, row: Measured) -> tuple[dict[str, float], dict[str, float]]:
    """(signal to noise, share of the variance) per layer."""
    count = len(row.gradients)
    signal, noise = {}, {}
    for name, (where, _) in measurement.point.policy.layout.items():
        part = row.gradients[:, where].astype(np.float64)
        noise[name] = float(part.var(axis=0, ddof=1).sum())
        squared = float(np.square(part.mean(axis=0)).sum()) - noise[name] / count
        signal[name] = squared / noise[name] if noise[name] > 0 else float("nan")
    total = sum(noise.values())
    return signal, {name: value / total if total > 0 else float("nan") for name, value in noise.items()}


def coefficients(measurement: Measurement, row: Measured) -> dict[str, float]:
    """Mean eta per layer, as learned in the warm-up."""
    from quell.estimate.auto import AutoControlVariate
    from quell.estimate.control_variate import ControlVariate

    if isinstance(row.estimator, ControlVariate):
        eta = row.estimator.eta.eta(row.state)
    elif isinstance(row.estimator, AutoControlVariate):
        eta = row.estimator.chooser.coefficients(row.state)[0][0]
    else:
        return {}
    return {name: float(eta[where].mean()) for name, (where, _) in measurement.point.policy.layout.items()}


def _unknown() -> Interval:
    return Interval(float("nan"), float("nan"), float("nan"))
