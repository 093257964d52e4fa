"""Theorem 1: closed forms against a simulation strong enough to tell a 5% mistake from luck.

A formula is rejected beyond 4 standard errors (6e-5 by luck alone). One that is 5% off is then caught with
probability 95% once the standard error is below 5% / (4 + 1.645) = 0.89%. `_repeats` is chosen for that, and
the tests check that it was reached, so a pass means something.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from quell import cli, theory
from quell.errors import UsageError
from quell.theory import Exact, Simulated

LIMIT = 4.0
ERROR = 0.05 / (LIMIT + 1.645)
VARIANCES = ("es", "ortho", "re", "cv", "ortho_cv")
ETAS = ("eta", "ortho_eta")

SIZES = [
    (1, 1),
    (2, 1),
    (2, 2),
    (3, 7),
    (5, 1),
    (5, 3),
    (5, 5),
    (5, 12),
    (10, 4),
    (20, 10),
    (30, 30),
    (80, 5),
]
RHOS = [0.1, 0.5, 1.0, 2.0, 8.0]
GRID = [(d, n, rho) for (d, n), rho in itertools.product(SIZES, RHOS)]


def _repeats(d: int, n: int) -> int:
    """Relative variance of |g - alpha|² is near 2/d + 2.3/n (1 + 8/d), a fit; with a third to spare."""
    return round(1.5 * (2 / d + 2.3 / n * (1 + 8 / d)) / ERROR**2)


@pytest.fixture(scope="module")
def measured() -> dict[tuple[int, int, float], Simulated]:
    return {
        (d, n, rho): theory.simulate(
            d, n, rho, repeats=_repeats(d, n), rng=np.random.Generator(np.random.SFC64([7, i]))
        )
        for i, (d, n, rho) in enumerate(GRID)
    }


@pytest.mark.parametrize(("d", "n", "rho"), GRID)
def test_simulation_agrees(measured: dict[tuple[int, int, float], Simulated], d: int, n: int, rho: float) -> None:
    simulated, exact = measured[d, n, rho], theory.exact(d, n, rho)
    for name in VARIANCES:
        estimate, truth = getattr(simulated, name), getattr(exact, name)
        assert estimate.error / truth < ERROR, f"{name}: too few repeats for the stated power"
        assert abs(estimate.z(truth)) < LIMIT, name
    for name in ETAS:
        estimate = getattr(simulated, name)
        assert estimate.error < 0.01, name
        assert abs(estimate.z(getattr(exact, name))) < LIMIT, name


def test_z_scores_look_standard_normal(measured: dict[tuple[int, int, float], Simulated]) -> None:
    """Errors that were too large would pass every check above; their spread gives them away."""
    z = [measured[p].es.z(theory.exact(*p).es) for p in GRID] + [measured[p].re.z(theory.exact(*p).re) for p in GRID]
    assert 0.75 < np.std(z) < 1.25
    assert abs(np.mean(z)) < 4 / np.sqrt(len(z))


@pytest.mark.parametrize("factor", [0.95, 1.05])
def test_five_percent_mistakes_are_caught(measured: dict[tuple[int, int, float], Simulated], factor: float) -> None:
    caught = [
        abs(getattr(measured[p], name).z(factor * getattr(theory.exact(*p), name))) > LIMIT
        for p in GRID
        for name in VARIANCES
    ]
    assert np.mean(caught) > 0.95


MISPRINTS: dict[str, tuple[str, Callable[[Exact], float]]] = {
    "(1+rho)^2 for 1+rho^2": ("es", lambda e: (1 + e.rho) ** 2 * e.d + 1),
    "V[ES] = d + 1": ("es", lambda e: e.d + 1),
    "eps_1 and eps_2 swapped": ("es", lambda e: (1 + e.rho**-2) * e.d + 1),
    "V[ORTHO] with E[x^2] lacking one alpha_p^2": ("ortho", lambda e: (1 + e.rho**2) * e.d + 1 - e.n),
    "V[CV] with covariance -2 alpha_p^2": ("cv", lambda e: e.printed_cv),
    "eta of V[CV] with covariance -2 alpha_p^2": (
        "eta",
        lambda e: e.eta * (1 - 2 / (e.d * (1 + e.rho**2))),
    ),
    "CV's eta on ORTHO": ("ortho_eta", lambda e: e.eta),
}


@pytest.mark.parametrize("name", MISPRINTS)
def test_printed_mistakes_are_caught(measured: dict[tuple[int, int, float], Simulated], name: str) -> None:
    field, wrong = MISPRINTS[name]
    at = (5, 3, 0.5)
    assert abs(getattr(measured[at], field).z(wrong(theory.exact(*at)))) > LIMIT


def test_estimators_are_unbiased() -> None:
    alpha = np.array([2.0, -1.0, 0.5])
    gradients = theory.sample_gradients(np.random.default_rng(3), alpha, 5, 0.7, repeats=40_000)
    for samples in gradients:
        z = (samples.mean(0) - alpha) / (samples.std(0) / len(samples) ** 0.5)
        assert np.abs(z).max() < 4


def test_answer_does_not_depend_on_alpha() -> None:
    """One coordinate or all alike, long or short: in units of |alpha|²/n nothing changes."""
    for alpha in (np.array([300.0, 0, 0, 0]), np.full(4, 0.01)):
        simulated = theory.simulate(4, 3, 0.6, repeats=40_000, rng=np.random.default_rng(5), alpha=alpha)
        exact = theory.exact(4, 3, 0.6)
        assert all(abs(estimate.z(getattr(exact, name))) < 4 for name, estimate in vars(simulated).items())


def test_orthogonal_directions() -> None:
    noise = np.random.default_rng(0).standard_normal((20_000, 5, 3))
    made = theory._orthogonalise(noise)
    gram = made @ made.swapaxes(1, 2)
    assert np.abs(gram[:, [0, 0, 1, 3], [1, 2, 2, 4]]).max() < 1e-9  # within {0, 1, 2} and within {3, 4}
    np.testing.assert_allclose(np.linalg.norm(made, axis=2), np.linalg.norm(noise, axis=2))
    z = (made**4 - 3).mean(0) / ((made**4).std(0) / len(made) ** 0.5)
    assert np.abs(z).max() < 4, "each direction is still a standard normal vector"
    assert np.abs(made.mean(0)).max() < 4 / len(made) ** 0.5


@pytest.mark.parametrize(("d", "n", "rho"), GRID)
def test_identities(d: int, n: int, rho: float) -> None:
    e = theory.exact(d, n, rho)
    assert e.cv <= e.printed_cv
    assert e.cv < min(e.es, e.re)
    assert e.ortho_cv <= min(e.ortho, e.cv) + 1e-9
    assert (e.cv <= e.ortho + 1e-9) == (rho >= e.threshold - 1e-9)
    if n <= d:
        assert e.ortho == pytest.approx((1 + rho**2) * d + 2 - n)
        assert e.threshold == pytest.approx(((n - 1) / d) ** 0.5)
        assert theory.printed_threshold(d, n) >= e.threshold - 1e-9
    if n == 1:
        assert (e.ortho, e.ortho_cv, e.ortho_eta) == pytest.approx((e.es, e.cv, e.eta))
    swapped = theory.exact(d, n, 1 / rho)  # exchanging the two noises exchanges ES and RE
    assert (swapped.re, swapped.cv, -1 - swapped.eta) == pytest.approx((e.es, e.cv, e.eta))


def test_optimal_etas_minimise_the_quadratic() -> None:
    """V[(1 + eta) X - eta RE] = (1 + eta)² V[X] + eta² V[RE] - 2 eta (1 + eta) Cov, Cov = 1"""

    def variance(eta: np.ndarray, x: float, re: float) -> np.ndarray:
        return (1 + eta) ** 2 * x + eta**2 * re - 2 * eta * (1 + eta)

    etas = np.linspace(-1, 0, 100_001)
    for point in GRID:
        e = theory.exact(*point)
        for x, eta, best in ((e.es, e.eta, e.cv), (e.ortho, e.ortho_eta, e.ortho_cv)):
            curve = variance(etas, x, e.re)
            assert etas[curve.argmin()] == pytest.approx(eta, abs=1e-5)
            assert curve.min() == pytest.approx(best)


def test_thresholds_mark_the_crossings() -> None:
    for d, n in [(10, 2), (50, 50), (7, 20)]:
        rho = theory.threshold(d, n)
        assert theory.variance_ortho(d, n, rho) == pytest.approx(theory.variance_cv(d))
    rho = theory.printed_threshold(50, 8)
    assert theory.variance_ortho(50, 8, rho) == pytest.approx(theory.printed_variance_cv(50, rho))
    # the paper's limit sqrt(N/d) needs N large as well as d
    assert theory.printed_threshold(10**9, 2) / (2 / 10**9) ** 0.5 == pytest.approx(0.5**0.5, rel=1e-3)
    assert theory.printed_threshold(10**9, 10**6) / (10**6 / 10**9) ** 0.5 == pytest.approx(1, rel=1e-3)


def test_table_rows() -> None:
    grid = [(4, 2, 1.0), (4, 9, 0.5)]
    rows = theory.table(grid, repeats=50, rng=np.random.default_rng(0))
    assert [(row["d"], row["n"], row["rho"]) for row in rows] == grid
    assert rows[0]["cv_ratio"] == pytest.approx(5 / 9)
    assert {"ortho_cv_simulated", "ortho_cv_error", "eta_simulated"} <= rows[1].keys()
    assert theory.table(grid)[0] == {k: v for k, v in rows[0].items() if k in theory.table(grid)[0]}


def test_simulation_is_a_function_of_its_generator() -> None:
    once, again = (theory.simulate(4, 3, 0.5, repeats=9, rng=np.random.default_rng(1)) for _ in range(2))
    assert asdict(once) == asdict(again)


def test_refusals() -> None:
    rng = np.random.default_rng(0)
    for d, n, rho in [(0, 1, 1.0), (1, 0, 1.0), (1, 1, 0.0), (1, 1, float("inf")), (1, 1, float("nan"))]:
        with pytest.raises(UsageError):
            theory.exact(d, n, rho)
    with pytest.raises(UsageError, match="repeats"):
        theory.simulate(2, 2, 1.0, repeats=1, rng=rng)
    with pytest.raises(UsageError, match="alpha"):
        theory.simulate(2, 2, 1.0, repeats=9, rng=rng, alpha=np.zeros(2))
    with pytest.raises(UsageError, match="generator"):
        theory.table([(2, 2, 1.0)], repeats=9)


def test_import_is_cheap() -> None:
    code = "import sys, quell.theory; print({'jax', 'matplotlib', 'scipy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["paper", "theorem", "--d", "10", "--n", "3", "20", "--rho", "0.5", "2", "--simulate", "400"]
    assert cli.main([*words, "--json", str(tmp_path / "t.json"), "--figure", str(tmp_path / "t.png")]) == 0
    assert "worst z" in capsys.readouterr().out
    assert len(json.loads((tmp_path / "t.json").read_text())) == 4
    assert (tmp_path / "t.png").exists()
    for bad in (["--rho", "0"], ["--d", "0"], ["--simulate", "1"], ["--seed", "-1"]):
        assert cli.main(["paper", "theorem", *bad]) == 2
