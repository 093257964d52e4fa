"""Directions: marginals, orthogonality, coupling, Halton values, antithesis and keys."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from scipy import stats

from quell.perturb import Directions, Draw, draw_pair
from quell.perturb.gaussian import Gaussian
from quell.perturb.gcmc import Gcmc, coupled_length_ratio
from quell.perturb.orthogonal import Orthogonal
from quell.perturb.qmc import Qmc, halton, primes

KINDS: dict[str, Directions] = {
    "gaussian": Gaussian(),
    "orthogonal": Orthogonal(),
    "gcmc": Gcmc(),
    "qmc": Qmc(shift=True),
}


def draw(kind: str, *, pairs: int, dim: int, iterations: int, seed: int = 3) -> np.ndarray:
    """[iterations, pairs, 2, dim]"""
    draws = [Draw(seed, t, pairs, dim) for t in range(iterations)]
    return np.array([[draw_pair(KINDS[kind], address, i) for i in range(pairs)] for address in draws])


@pytest.mark.parametrize("kind", KINDS)
def test_each_coordinate_is_standard_normal(kind: str) -> None:
    """4,000 draws of each of 8 coordinates and both signs: a KS test at 1e-4/16 would see a 4% error of scale.

    Randomised QMC points share one shift per iteration, so only one pair per iteration is used there.
    """
    sample = draw(kind, pairs=2, dim=8, iterations=4000)[:, 0]
    for sign in range(2):
        for coordinate in range(8):
            assert stats.kstest(sample[:, sign, coordinate], "norm").pvalue > 1e-4 / 16


@pytest.mark.parametrize("kind", ["gaussian", "orthogonal", "gcmc"])
def test_second_moment_is_the_identity(kind: str) -> None:
    """E[eps eps'] = I within 5 standard errors (1/sqrt(n) off the diagonal, sqrt(2/n) on it)."""
    sample = draw(kind, pairs=4, dim=6, iterations=3000)[:, :, 0].reshape(-1, 6).astype(float)
    z = (sample.T @ sample / len(sample) - np.eye(6)) * np.sqrt(len(sample) / (1 + np.eye(6)))
    assert np.abs(z).max() < 5


@pytest.mark.parametrize("pairs", [3, 6, 8])
def test_orthogonal_within_blocks_of_d(pairs: int) -> None:
    rows = draw("orthogonal", pairs=pairs, dim=6, iterations=1)[0, :, 0].astype(float)
    for start in range(0, pairs, 6):
        block = rows[start : start + 6]
        cosines = block @ block.T / np.outer(np.linalg.norm(block, axis=1), np.linalg.norm(block, axis=1))
        assert np.abs(cosines - np.eye(len(block))).max() < 1e-6


def test_orthogonal_in_many_dimensions() -> None:
    rows = draw("orthogonal", pairs=20, dim=1836, iterations=1)[0, :, 0].astype(float)
    cosines = rows @ rows.T / np.outer(np.linalg.norm(rows, axis=1), np.linalg.norm(rows, axis=1))
    assert np.abs(cosines - np.eye(20)).max() < 1e-6


def test_orthogonal_lengths_are_chi_distributed() -> None:
    lengths = np.linalg.norm(draw("orthogonal", pairs=5, dim=7, iterations=800)[:, :, 0], axis=-1)
    assert stats.kstest(lengths.reshape(-1), stats.chi(7).cdf).pvalue > 1e-4


@pytest.mark.parametrize("dim", [2, 30, 1836])
def test_gcmc_lengths_satisfy_their_identity(dim: int) -> None:
    """F(|eps+|) + F(|eps-|) = 1, and the two point in opposite directions."""
    for plus, minus in draw("gcmc", pairs=20, dim=dim, iterations=1)[0].astype(float):
        chi = stats.chi(dim)
        assert chi.cdf(np.linalg.norm(plus)) + chi.cdf(np.linalg.norm(minus)) == pytest.approx(1, abs=2e-5)
        cosine = plus @ minus / np.linalg.norm(plus) / np.linalg.norm(minus)
        assert cosine == pytest.approx(-1, abs=1e-6)


def test_gcmc_couples_long_with_short() -> None:
    median = np.ones(50) / np.sqrt(50) * stats.chi(50).median()
    assert coupled_length_ratio(median) == pytest.approx(1)
    assert coupled_length_ratio(median * 1.2) < 1 < coupled_length_ratio(median / 1.2)


@pytest.mark.parametrize("kind", ["gaussian", "orthogonal", "qmc"])
def test_pairs_are_antithetic(kind: str) -> None:
    sample = draw(kind, pairs=5, dim=11, iterations=3)
    assert (sample[:, :, 0] == -sample[:, :, 1]).all()


def test_halton_values() -> None:
    """The first points, by hand, and a longer stretch against SciPy."""
    assert halton(1, 3) == pytest.approx([1 / 2, 1 / 3, 1 / 5])
    assert halton(2, 3) == pytest.approx([1 / 4, 2 / 3, 2 / 5])
    assert halton(6, 3) == pytest.approx([3 / 8, 2 / 9, 1 / 5 + 1 / 25])
    reference = stats.qmc.Halton(50, scramble=False).random(300)
    assert np.array([halton(i, 50) for i in range(300)]) == pytest.approx(reference, abs=1e-12)


def test_primes() -> None:
    assert primes(10).tolist() == [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]
    for count in (1, 2, 5, 6, 7, 1836):
        assert len(primes(count)) == count
    assert primes(1000)[-1] == 7919


def test_unshifted_qmc_is_the_inverse_cdf_of_the_sequence() -> None:
    expected = stats.norm.ppf(halton(2 * 5 + 3 + 1, 4))
    assert draw_pair(Qmc(), Draw(0, 2, 5, 4), 3)[0] == pytest.approx(expected, rel=1e-6)
    assert np.isfinite(draw_pair(Qmc(), Draw(0, 0, 5, 4), 0)[0]).all()


@pytest.mark.parametrize("kind", ["gaussian", "gcmc", "orthogonal"])
def test_keys_are_independent(kind: str) -> None:
    """Directions of different iterations, pairs and seeds are uncorrelated: |r| sqrt(d) < 5 for d = 20,000."""
    dim = 20_000 if kind != "orthogonal" else 4_000
    found = [
        draw_pair(KINDS[kind], Draw(seed, iteration, 2, dim), pair)[0].astype(float)
        for seed in (0, 1)
        for iteration in (0, 1, 2)
        for pair in (0, 1)
    ]
    correlation = np.corrcoef(found) - np.eye(len(found))
    assert np.abs(correlation).max() * np.sqrt(dim) < 5


@pytest.mark.parametrize("kind", KINDS)
def test_a_pair_is_a_function_of_its_key(kind: str) -> None:
    """Same bits in any order of asking."""
    asked = {(t, i): draw_pair(KINDS[kind], Draw(5, t, 4, 33), i)[1].copy() for t in range(3) for i in range(4)}
    for t, i in reversed(asked):
        assert (draw_pair(KINDS[kind], Draw(5, t, 4, 33), i)[1] == asked[t, i]).all()


def test_a_million_dimensions_are_regenerated_not_held() -> None:
    tracemalloc.start()
    for pair in range(8):
        draw_pair(Gaussian(), Draw(0, 0, 256, 1_000_000), pair)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4.1 * 4e6  # two directions of 4 MB each, and the last pair's while they are drawn
