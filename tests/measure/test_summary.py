"""The statistics of repeated gradients, on gradients whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from quell.measure import summary
from quell.measure.summary import (
    RESAMPLES,
    Errors,
    Sample,
    compare,
    gram,
    squared_bias,
    squared_mean,
    variances,
)
from quell.stats import times_drawn


def errors(own: np.ndarray, plain: np.ndarray, rng: np.random.Generator, *, paired: bool) -> Errors:
    weights = times_drawn(rng, len(plain), summary.RESAMPLES)
    first = Sample(gram(own), weights if paired else times_drawn(rng, len(own), summary.RESAMPLES))
    second = Sample(gram(plain), weights)
    return compare(first, second, squared_bias(first, second, gram(own, plain), paired=paired))


def test_variance_of_known_vectors() -> None:
    g = np.random.default_rng(0).standard_normal((30, 7)) * np.arange(1, 8) + 5
    assert variances(gram(g))[0] == pytest.approx(g.var(axis=0, ddof=1).sum())


def test_gram_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    g, h = np.random.default_rng(0).standard_normal((2, 6, 50))
    monkeypatch.setattr("quell.measure.summary.COLUMNS", 7)
    assert gram(g) == pytest.approx(g @ g.T)
    assert gram(g, h[:4]) == pytest.approx(g @ h[:4].T)


def test_intervals_of_ratios_hold_the_truth() -> None:
    """60 samples of 40 gradients, true ratio 0.25: 95% intervals should hold it about 57 times."""
    rng, hits = np.random.default_rng(1), 0
    for _ in range(60):
        plain = rng.standard_normal((40, 20)) + 1
        exact = errors(0.5 * plain + 0.5, plain, rng, paired=True).ratio  # on the same episodes
        assert exact.low == pytest.approx(0.25)
        assert exact.high == pytest.approx(0.25)
        found = errors(0.5 * rng.standard_normal((40, 20)), plain, rng, paired=False).ratio
        hits += found.low <= 0.25 <= found.high
    assert hits >= 51


@pytest.mark.slow
@pytest.mark.parametrize(("tail", "wanted"), [(0.0, 0.93), (0.7, 0.88)])
def test_how_often_intervals_of_ratios_hold(tail: float, wanted: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixty gradients of each estimator, as pages have them: Gaussian, and with batches whose size is log-normal."""
    monkeypatch.setattr("quell.measure.summary.RESAMPLES", 500)
    rng, hits, repeats = np.random.default_rng(5), 0, 500

    def gradients() -> np.ndarray:
        return np.asarray(rng.standard_normal((60, 100)) * np.exp(tail * rng.standard_normal((60, 1))))

    for _ in range(repeats):
        found = errors(0.5 * gradients(), gradients() + 0.3, rng, paired=False).ratio
        hits += found.low <= 0.25 <= found.high
    assert hits / repeats >= wanted - 3 * np.sqrt(wanted * (1 - wanted) / repeats)


def test_resampled_variance_is_unbiased() -> None:
    rng = np.random.default_rng(2)
    matrix = gram(rng.standard_normal((15, 30)))
    assert variances(matrix, times_drawn(rng, 15, RESAMPLES)).mean() == pytest.approx(variances(matrix)[0], rel=0.03)


def test_squared_mean_is_free_of_noise() -> None:
    """Over 400 samples of 10 vectors of mean 0 its mean is 0 within 4 standard errors, where that of the plain square
    is a tenth of the variance; and a bootstrap's mean is the sample's own value."""
    rng = np.random.default_rng(3)
    samples = [rng.standard_normal((10, 30)) for _ in range(400)]
    values = np.array([squared_mean(gram(g), np.ones((1, 10)))[0] for g in samples])
    assert abs(values.mean()) < 4 * values.std() / 20
    assert 4 * values.std() / 20 < 0.1 * 3, "a plain square would be 3"
    matrix = gram(samples[0] + 0.5)
    once, again = squared_mean(matrix, np.ones((1, 10)))[0], squared_mean(matrix, times_drawn(rng, 10, RESAMPLES))
    assert again.mean() == pytest.approx(once, abs=4 * again.std() / np.sqrt(len(again)) + 0.05 * once)


@pytest.mark.parametrize(
    ("paired", "shift"),
    [
        (True, 0.5),
        (False, 0.05),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in [(True, 0.0), (True, 0.05), (False, 0.0), (False, 0.5)]
        ),
    ],
)
def test_bias_is_measured(paired: bool, shift: float) -> None:
    """60 samples of 40 gradients in 50 dimensions, a bias of `shift` in each coordinate: B^2 = 50 shift^2. Estimates
    are right on average, and 95% intervals hold the truth at least 51 times (without bias, they err on the wide side).
    """
    rng, values, hits = np.random.default_rng(4), [], 0
    for _ in range(60):
        plain = 2 * rng.standard_normal((40, 50)) + 1
        own = (0.3 * plain + 0.7 if paired else 1.0) + shift + 0.2 * rng.standard_normal((40, 50))
        weights = times_drawn(rng, 40, RESAMPLES)
        first = Sample(gram(own), weights if paired else times_drawn(rng, 40, RESAMPLES))
        values.append(squared_bias(first, Sample(gram(plain), weights), gram(own, plain), paired=paired)[0])
        found = errors(own, plain, rng, paired=paired)
        hits += found.bias.low <= 50 * shift**2 / 200 <= found.bias.high
        assert found.error.value == pytest.approx(found.ratio.value + found.bias.value)
        assert found.error.low <= found.error.value <= found.error.high
    error = np.std(values) / np.sqrt(60)
    assert abs(np.mean(values) - 50 * shift**2) < 4 * error
    assert 4 * error < (2.5 if paired else 5) / 2, "the noise's own square is 2.5 paired and 5 unpaired"
    assert hits >= 51
