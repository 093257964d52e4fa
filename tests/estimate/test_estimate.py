"""What all estimators share: the stages of an estimate, variance estimates, and fallbacks."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from conftest import Collector
from linear_gaussian import POLICY, THETA, LinearGaussian
from threadpoolctl import threadpool_info, threadpool_limits

from quell.estimate import Estimator, Rows, estimate, total_variance
from quell.estimate.control_variate import ControlVariate
from quell.estimate.control_variate.coefficients import FixedCoefficient
from quell.estimate.control_variate.discount import FixedDiscounts
from quell.estimate.control_variate.discounted import DiscountedColumns
from quell.estimate.es import Es
from quell.estimate.reduce import calm, sum_by_loop
from quell.perturb.qmc import Qmc
from quell.types import Array, Batch, Sums

RULE: dict[str, Any] = {
    "columns": DiscountedColumns(discount=FixedDiscounts(gammas=(0.9,))),
    "coefficients": FixedCoefficient(value=-0.6),
}


@dataclass(frozen=True, kw_only=True)
class Watching(Es):
    """Notes how many threads a matrix product may take at every stage."""

    seen: ClassVar[dict[str, set[int]]] = {}

    def prepare(self, *args: Any) -> Any:
        self.seen.setdefault("prepare", set()).update(blas_threads())
        return super().prepare(*args)

    def terms(self, *args: Any) -> Any:
        self.seen.setdefault("terms", set()).update(blas_threads())
        return super().terms(*args)

    def combine(self, *args: Any) -> Any:
        self.seen.setdefault("combine", set()).update(blas_threads())
        return super().combine(*args)


def blas_threads() -> list[int]:
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def test_an_estimate_leaves_the_other_cores_alone() -> None:
    """Every BLAS stays on one thread in every stage, also on a pool's threads, and gets its threads back afterwards:
    SciPy's too, which may be loaded after the first estimate of a process."""
    with calm():
        pass
    import scipy.linalg  # noqa: F401

    Watching.seen.clear()
    data = Collector(LinearGaussian(), POLICY, pairs=6)
    batch = data.batch(THETA)
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        with ThreadPoolExecutor(2) as pool:

            def total(estimator: Estimator, batch: Batch, rows: Rows, theta: Array) -> Sums:
                (sums,) = sum_by_loop(estimator, data.problem, batch, rows, theta, mapper=pool.map).values()
                return sums

            estimate(Watching(), data.problem, batch, {}, total=total)
        assert blas_threads() == before
    if max(before, default=1) > 1:  # a BLAS that can take more than one thread at all
        assert Watching.seen == {stage: {1} for stage in ("prepare", "terms", "combine")}


def test_estimated_variance_is_the_variance_over_batches() -> None:
    """400 batches of 4 pairs: the mean estimate against the spread of the gradients, for ES and CV; 15% tolerance.

    A variance over 400 repeats has a relative error of about sqrt(2/400) = 7% per coordinate, less for their sum.
    """
    data = Collector(LinearGaussian(), POLICY, pairs=4)
    estimators: list[Estimator] = [Es(shaping="none"), ControlVariate(shaping="none", **RULE)]
    for estimator in estimators:
        estimates = [data.estimate(estimator, data.batch(THETA, t)) for t in range(400)]
        spread = np.var([e.gradient for e in estimates], axis=0, ddof=1).sum()
        assert np.mean([e.metrics["variance/method"] for e in estimates]) == pytest.approx(spread, rel=0.15)


@pytest.mark.parametrize("shift", [False, True], ids=["unshifted", "shifted"])
@pytest.mark.parametrize("estimator", [Es(shaping="none"), ControlVariate(shaping="none")], ids=["es", "cv"])
def test_the_variance_of_a_sequence_that_goes_on_is_not_known(estimator: Any, shift: bool) -> None:
    """Neighbouring points of an unshifted Halton sequence are alike: half their distance says nothing of their noise.
    Shifted at random, it is known from the second batch on."""
    data = Collector(LinearGaussian(), POLICY, pairs=3, directions=Qmc(sigma=0.3, shift=shift))
    state = estimator.init(data.problem)
    told = []
    for iteration in range(3):
        found = data.estimate(estimator, data.batch(THETA, iteration), state)
        state = found.state
        told.append([found.metrics.get(f"variance/{name}", np.nan) for name in ("method", "ratio")])
    assert np.isfinite(np.array(told)[1:, 0]).all() == shift
    if not shift:
        assert np.isnan(told).all()


def test_total_variance_by_hand() -> None:
    values = np.array([[1.0, 0.0], [3.0, 0.0], [5.0, 3.0]])
    expected = values.var(axis=0, ddof=1).sum() / 3
    assert total_variance(values.sum(axis=0), np.square(values).sum(axis=0), 3) == pytest.approx(expected)
    assert np.isnan(total_variance(values[0], values[0] ** 2, 1))


def test_an_overflowing_policy_gradient_falls_back_to_es() -> None:
    data = Collector(LinearGaussian(), POLICY, pairs=6)
    batch = data.batch(THETA)
    paths = batch.rollouts.trajectories
    assert paths is not None
    wild = dataclasses.replace(paths, actions=paths.actions * np.float32(1e30))
    batch = dataclasses.replace(batch, rollouts=dataclasses.replace(batch.rollouts, trajectories=wild))
    estimated = data.estimate(ControlVariate(**RULE), batch)
    assert estimated.metrics["trouble/cv_dropped"] == 1
    assert (estimated.gradient == data.estimate(Es(), batch).gradient).all()


def test_only_plain_es_is_compared_with_itself() -> None:
    """A ratio to ES is logged where the batch's own pairs tell the variance of ES."""
    for directions, known in ((None, True), (Qmc(sigma=0.3), False)):
        data = Collector(LinearGaussian(), POLICY, pairs=3, directions=directions)
        metrics = data.estimate(Es(), data.batch(THETA)).metrics
        assert ("variance/es" in metrics) == known
        assert ("variance/ratio" in metrics) == known
