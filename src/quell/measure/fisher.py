"""Metrics in which gradients are compared: what of an estimate's noise matters depends on the step that is taken.

    parameters  |g|^2           every parameter counts the same
    policy      g' F g          how far g moves the policy: KL(theta + g, theta) is about g' F g / 2
    step        g' F^-1 g       how far the natural step F^-1 g moves the policy

with F = E_s[ grad log pi grad log pi' ] over a sample of states that the policy visits. Each is |M g|^2 for a matrix M
that is never formed: F = A'A, and A g is one Jacobian-vector product (`quell.policy.likelihood.policy_change`);
F^-1/2 g comes from Kronecker factors with damping (`quell.policy.fisher`). A variance in a metric is the total variance
of M g.
"""

import functools
from dataclasses import dataclass

import numpy as np

from quell.errors import UsageError
from quell.keys import Stream
from quell.measure.points import Point
from quell.perturb import Kind, Unperturbed
from quell.policy.fisher import Metric, factors
from quell.policy.likelihood import policy_change
from quell.policy.network import Policy
from quell.rollout import Compute
from quell.training.iteration import visited
from quell.types import Array, Episodes

STATES = 512
EPISODES = 4
LARGEST = 1e9  # of a state: squared and summed, more would overflow the Fisher matrix
TURNS = 3  # of shaping directions by the states that they lead to
FEW = 8  # gradients mapped at a time
METRICS = {"parameters": "parameters", "policy": "policy (Fisher)", "step": "natural step (inverse Fisher)"}
"""Name -> in words."""


@dataclass(frozen=True)
class Geometry:
    """A policy's metrics at theta, over some states [n, o] as it sees them."""

    policy: Policy
    theta: Array
    states: Array

    @functools.cached_property
    def kronecker(self) -> Metric:
        return Metric.of(self.policy, factors(self.policy)(self.theta.astype(np.float64), self.states))

    def mapped(self, metric: str, gradients: Array) -> Array:
        """M g for every row g of `gradients` [m, d]: its squared length is g's in the metric."""
        if metric == "parameters":
            return gradients
        moved = self._moved if metric == "policy" else lambda part: self.kronecker.apply(part, -0.5).astype(np.float32)
        return np.concatenate([moved(gradients[i : i + FEW]) for i in range(0, len(gradients), FEW)])

    def kl_length(self, step: Array) -> float:
        """sqrt(2 KL) of a small step, to second order: |A step|."""
        return float(np.linalg.norm(self._moved(step[None])[0].astype(np.float64)))

    def _moved(self, gradients: Array) -> Array:
        """A g for every row."""
        return np.asarray(policy_change(self.policy)(self.theta, self.states, np.asarray(gradients, np.float32)))


def geometry(point: Point, *, compute: Compute, directions: Kind | None = None) -> Geometry:
    """The metrics over states of the policy's own, unperturbed episodes, every step of which counts the same; or over
    those of members that are perturbed along `directions`, shaped by the states of the members before them."""
    request = Episodes.unperturbed(0, EPISODES, Stream.STATES, states=STATES)
    with compute.make(point.task, point.problem(Unperturbed()), members=EPISODES, states=STATES) as engine:
        states = visited(engine.rollout(point.theta, request, point.obs_stats), STATES)
    for turn in range(TURNS if directions is not None else 0):
        assert directions is not None
        shape = directions.prepare(Geometry(point.policy, point.theta, states).kronecker)
        facts = {"stream": Stream.MEASURE, "block": (turn, 1), "states": STATES, "shape": shape}
        request = Episodes.of_pairs(0, EPISODES, **facts)
        with compute.make(point.task, point.problem(directions), members=2 * EPISODES, states=STATES) as engine:
            states = visited(engine.rollout(point.theta, request, point.obs_stats), STATES)
    if not np.abs(states).max() < LARGEST:
        far = f"{point.task.name} diverges at this policy, to states beyond {LARGEST:g}"
        raise UsageError(f"{far}: it can only be measured with a shorter horizon")
    return Geometry(point.policy, point.theta, states)
