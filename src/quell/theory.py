"""Theorem 1: how much variance a control variate can remove, exactly, and by simulation.

One step, reward alpha·a, action a ~ N(mu, s2² I), ES noise s1, rho = s2/s1, n samples, d parameters. With
eps1 (parameter noise) and eps2 (action noise) standard normal, and the reward of mu itself subtracted,

    J_i = s1 alpha·eps1_i + s2 alpha·eps2_i
    ES  = 1/n sum_i J_i eps1_i / s1        RE = 1/n sum_i J_i eps2_i / s2        CV = ES + eta (ES - RE)

are all unbiased for alpha. ORTHO is ES with mutually orthogonal eps1_i, in blocks of d where n > d. The
variance of a vector is the sum of its components' variances, and **every variance here is in units of
|alpha|²/n**, so it depends on nothing but d, rho and, for ORTHO, n. Derivation: docs/theory.md.
"""

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass

import numpy as np

from quell.errors import UsageError
from quell.limits import require_memory
from quell.types import Array

_CHUNK = 1 << 18  # numbers per simulated noise array: 2 MB, whatever the size of the question


def variance_es(d: int, rho: float) -> float:
    """V[ES] = (1 + rho²) d + 1"""
    return (1 + rho**2) * d + 1


def variance_re(d: int, rho: float) -> float:
    """V[RE] = (1 + 1/rho²) d + 1"""
    return (1 + rho**-2) * d + 1


def variance_ortho(d: int, n: int, rho: float) -> float:
    """V[ORTHO] = V[ES] - m(d, n); for n <= d this is (1 + rho²) d + 2 - n"""
    return variance_es(d, rho) - orthogonal_partners(d, n)


def variance_cv(d: int) -> float:
    """V[CV] = d + 1 at eta*: nothing is left of the action noise, whatever rho is"""
    return d + 1.0


def variance_ortho_cv(d: int, n: int, rho: float) -> float:
    """V[ORTHO+CV] = V[ORTHO] - (V[ORTHO] - 1)² / (V[ORTHO] + V[RE] - 2), at the best shared eta"""
    ortho = variance_ortho(d, n, rho)
    return ortho - (ortho - 1) ** 2 / (ortho + variance_re(d, rho) - 2)


def optimal_eta(rho: float) -> float:
    """eta* = -Cov(ES, ES - RE) / V[ES - RE] = -rho² / (1 + rho²), in every coordinate"""
    return -(rho**2) / (1 + rho**2)


def optimal_eta_ortho(d: int, n: int, rho: float) -> float:
    """eta = -(V[ORTHO] - 1) / (V[ORTHO] + V[RE] - 2), one number shared by all coordinates"""
    ortho = variance_ortho(d, n, rho)
    return -(ortho - 1) / (ortho + variance_re(d, rho) - 2)


def threshold(d: int, n: int) -> float:
    """rho_0 = sqrt(m(d, n) / d), sqrt((n-1)/d) for n <= d: V[CV] <= V[ORTHO] exactly when rho >= rho_0"""
    return math.sqrt(orthogonal_partners(d, n) / d)


def orthogonal_partners(d: int, n: int) -> float:
    """m(d, n): how many others a direction is orthogonal to, on average; n - 1 for n <= d, below d always

    With n = q d + r there are q full blocks and one of r: m = (q d (d-1) + r (r-1)) / n.
    """
    q, r = divmod(n, d)
    return (q * d * (d - 1) + r * (r - 1)) / n


def printed_variance_cv(d: int, rho: float) -> float:
    """The paper's bound on V[CV]: d + 1 + 4 rho²/(1 + rho²)

    Printed as V[CV]/V[ES] <= 1 - rho² [d (1 + rho²) - 4] / ([(1 + rho²) d + 1] (1 + rho²)). True, but loose.
    """
    es, s = variance_es(d, rho), rho**2
    return es * (1 - s * (d * (1 + s) - 4) / (es * (1 + s)))


def printed_threshold(d: int, n: int) -> float:
    """The paper's rho_0, where its bound meets V[ORTHO] (n <= d); the exact one is smaller for n >= 2"""
    b = d - n - 3
    return math.sqrt((math.sqrt(b**2 + 4 * (n - 1) * d) - b) / (2 * d))


@dataclass(frozen=True)
class Exact:
    """Theorem 1 at one (d, n, rho); variances in units of |alpha|²/n."""

    d: int
    n: int
    rho: float
    es: float
    ortho: float
    re: float
    cv: float
    ortho_cv: float
    eta: float
    ortho_eta: float
    threshold: float
    """rho_0: from here on CV beats ORTHO."""
    printed_cv: float
    """The paper's upper bound on `cv`."""


def exact(d: int, n: int, rho: float) -> Exact:
    """Every quantity of the theorem, in closed form."""
    _check(d, n, rho)
    variances = {"es": variance_es(d, rho), "re": variance_re(d, rho), "ortho": variance_ortho(d, n, rho)}
    variances |= {"cv": variance_cv(d), "ortho_cv": variance_ortho_cv(d, n, rho)}
    etas = {"eta": optimal_eta(rho), "ortho_eta": optimal_eta_ortho(d, n, rho)}
    return Exact(d, n, rho, threshold=threshold(d, n), printed_cv=printed_variance_cv(d, rho), **variances, **etas)


@dataclass(frozen=True)
class Estimate:
    """A simulated value and its standard error."""

    value: float
    error: float

    def z(self, truth: float) -> float:
        """How many standard errors the simulation lies above the truth."""
        return (self.value - truth) / self.error


@dataclass(frozen=True)
class Simulated:
    """What `simulate` measured; each field estimates the field of `Exact` with the same name."""

    es: Estimate
    ortho: Estimate
    re: Estimate
    cv: Estimate
    ortho_cv: Estimate
    eta: Estimate
    ortho_eta: Estimate


def sample_gradients(
    rng: np.random.Generator, alpha: Array, n: int, rho: float, *, repeats: int
) -> tuple[Array, Array, Array, Array]:
    """ES, RE, ORTHO and RE on ORTHO's directions, drawn `repeats` times [repeats, d] straight from their definitions
    (s1 = 1, s2 = rho); all four of a repeat share their action noise."""
    noise = rng.standard_normal((repeats, n, len(alpha)))
    action_noise = rng.standard_normal(noise.shape)

    def es_and_re(directions: Array) -> tuple[Array, Array]:
        rewards = directions @ alpha + rho * (action_noise @ alpha)
        weights = rewards[:, None, :] / n
        return (weights @ directions)[:, 0], (weights @ action_noise)[:, 0] / rho

    return (*es_and_re(noise), *es_and_re(_orthogonalise(noise)))


def simulate(
    d: int, n: int, rho: float, *, repeats: int, rng: np.random.Generator, alpha: Array | None = None
) -> Simulated:
    """Measure every variance and both etas with `repeats` independent gradients of each kind.

    All estimators have mean alpha, so V = E|g - alpha|² is a plain mean over repeats, and its standard error that of a
    mean. CV uses the exact eta, fixed beforehand. The etas are measured too, as the ratio -sum (X - alpha)·Y / sum Y·Y
    with Y = X - RE, whose error is the delta method's. `alpha` is drawn when not given.
    """
    _check(d, n, rho)
    check_simulation(d, n, repeats)
    alpha = rng.standard_normal(d) if alpha is None else np.asarray(alpha, dtype=float)
    if alpha.shape != (d,) or not alpha.any():
        raise UsageError(f"alpha must be {d} numbers, not all zero")
    chunk = max(1, _CHUNK // (n * d))
    parts = [
        _moments(*sample_gradients(rng, alpha, n, rho, repeats=min(chunk, repeats - start)), alpha, n, rho)
        for start in range(0, repeats, chunk)
    ]
    re, es, cv, xy, yy, ortho, ortho_cv, ortho_xy, ortho_yy = np.concatenate(parts, axis=1)
    variances = map(_mean, (es, ortho, re, cv, ortho_cv))
    return Simulated(*[*variances, _ratio(-xy, yy), _ratio(-ortho_xy, ortho_yy)])


def check_simulation(d: int, n: int, repeats: int) -> None:
    """Raise UsageError if `simulate` would not give an error, or not fit into memory."""
    if repeats < 2:
        raise UsageError(f"a standard error needs at least 2 repeats, not {repeats}")
    numbers = max(_CHUNK, n * d) + 2 * repeats
    require_memory(64 * numbers, f"simulating `d={d}` and `n={n}` {repeats:,} times")


def table(
    grid: Iterable[tuple[int, int, float]], *, repeats: int = 0, rng: np.random.Generator | None = None
) -> list[dict[str, float]]:
    """One row per (d, n, rho): exact values, ratios to ES and, with repeats, `*_simulated` and `*_error`."""
    points = [exact(*point) for point in grid]
    if repeats and rng is None:
        raise UsageError("a simulated table needs a generator")
    for point in points if repeats else ():  # complain before the first simulation
        check_simulation(point.d, point.n, repeats)
    rows = []
    for point in points:
        row = asdict(point)
        row |= {f"{name}_ratio": row[name] / point.es for name in ("ortho", "cv", "ortho_cv", "printed_cv")}
        if repeats and rng is not None:
            for name, estimate in vars(simulate(point.d, point.n, point.rho, repeats=repeats, rng=rng)).items():
                row |= {f"{name}_simulated": estimate.value, f"{name}_error": estimate.error}
        rows.append(row)
    return rows


def _check(d: int, n: int, rho: float) -> None:
    for name, value in (("d", d), ("n", n)):
        if not 1 <= value <= 10**15:
            raise UsageError(f"`{name}={value}` must be at least 1, and at most 10**15")
    if not 1e-50 <= rho <= 1e50:
        raise UsageError(f"`rho={rho}` must lie between 1e-50 and 1e50: without action noise there is no RE")


def _orthogonalise(noise: Array) -> Array:
    """Gram-Schmidt within blocks of d directions, keeping each direction's own length.

    A new frame vector is the direction of what earlier ones leave of a Gaussian, which is independent of how
    long the Gaussian is. So the lengths are chi_d, independent of the frame, and each row is still N(0, I).
    """
    d = noise.shape[2]
    blocks = []
    for start in range(0, noise.shape[1], d):
        block = noise[:, start : start + d]
        q, r = np.linalg.qr(block.swapaxes(1, 2))
        signs = np.sign(np.diagonal(r, axis1=1, axis2=2))
        lengths = np.linalg.norm(block, axis=2)
        blocks.append(q.swapaxes(1, 2) * (signs * lengths)[:, :, None])
    return np.concatenate(blocks, axis=1)


def _moments(es: Array, re: Array, ortho: Array, ortho_re: Array, alpha: Array, n: int, rho: float) -> Array:
    """Per repeat [9, repeats], in units of |alpha|²/n: squared errors and the moments behind each eta."""
    scale = n / (alpha @ alpha)

    def dot(a: Array, b: Array) -> Array:
        return np.asarray(scale * np.einsum("rd,rd->r", a, b))

    def mixed(x: Array, re: Array, eta: float) -> list[Array]:
        error, y = x - alpha, x - re
        cv = error + eta * y
        return [dot(error, error), dot(cv, cv), dot(error, y), dot(y, y)]

    eta, ortho_eta = optimal_eta(rho), optimal_eta_ortho(len(alpha), n, rho)
    return np.stack([dot(re - alpha, re - alpha), *mixed(es, re, eta), *mixed(ortho, ortho_re, ortho_eta)])


def _mean(x: Array) -> Estimate:
    return Estimate(float(x.mean()), float(x.std(ddof=1) / math.sqrt(len(x))))


def _ratio(a: Array, b: Array) -> Estimate:
    """mean(a)/mean(b); to first order its error is that of mean(a - ratio b)/mean(b)."""
    value = float(a.mean() / b.mean())
    return Estimate(value, _mean(a - value * b).error / float(b.mean()))
