"""Directions of equal divergence: shaped by the inverse of the step's metric.

    eps_i ~ N(0, C),    C = (F + floor)^-1,    X_i = (J_i+ - J_i-) / (2 sigma) C^-1 eps_i

F is the policy's Fisher matrix in Kronecker factors, over the states of earlier batches: a layer's part of eps is
A^-1/2 Z G^-1/2, Z standard normal. Every direction then changes the policy by the same divergence, whereas isotropic
ones spend nearly all of it along the few that change the policy most. The score of N(theta, sigma^2 C) is C^-1 eps /
sigma, so the estimate of the smoothed objective's gradient is unbiased whatever C is, as long as it does not come from
the batch itself. sigma follows from the divergence, sigma^2 tr(F C) / 2 = nats.

Parameters that hardly change the policy would be moved so far that its divergence is no longer quadratic: with the
step's own damping of 0.01 as the floor, a perturbation meant to be of 0.05 nats has 0.65 on hopper.

Where `least` is given, the size follows what ES is worth: nats if it carries the estimate, `least` if the policy
gradient does, in between by ES's share w of the estimate, as it would be at nats: least^(1 - w) nats^w. So large
perturbations, which cost return, are used only if ES gains by them.

The first batch, before there is a metric, has isotropic directions of the given sigma.
"""

import dataclasses
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from quell.perturb import Weight, alone, sized
from quell.perturb.gaussian import Gaussian
from quell.policy.fisher import Metric
from quell.registry import POSITIVE
from quell.types import Array, Shape


@dataclass(frozen=True, kw_only=True)
class Fisher(Gaussian):
    """Shaped by the inverse Fisher matrix, so that the divergence is the same in every direction."""

    name: ClassVar[str] = "fisher"
    traceable: ClassVar[bool] = True
    nats: Annotated[float, POSITIVE] = 0.05
    """Mean KL between the perturbed and the plain policy: about 1 where the perturbation carries the estimate (rewards
    at the end of an episode, few parameters), a few hundredths where the policy gradient does."""
    floor: Annotated[float, POSITIVE] = 0.1
    """Added to every eigenvalue of the Fisher matrix; larger keeps the divergence nearer to `nats`."""

    @property
    def needs_metric(self) -> bool:
        return True

    def prepare(self, metric: Metric | None, weight: Weight = alone) -> Shape | None:
        if metric is None or (metric.xp is np and not metric.known):
            return None
        felt, nats = metric.spectrum(), self.wanted(self.nats, weight)
        # Of what nobody knows yet, the metric with its own damping is 1.
        floor = self.floor if metric.xp is np else metric.xp.where(metric.known, self.floor, metric.damping)
        shaped = dataclasses.replace(metric, damping=floor)
        return sized(metric, nats, lambda: (felt / (felt + self.floor)).sum(), self.sigma, shaped)

    def shaped(self, eps: Array, shape: Shape | None) -> Array:
        if shape is None:
            return eps
        wide = eps.astype(np.float64) if shape.metric.xp is np else eps
        found: Array = shape.metric.coloured(wide).astype(np.float32)
        return found

    def inverse(self, vectors: Array, shape: Shape | None) -> Array:
        if shape is None:
            return vectors
        rows = vectors.reshape(-1, vectors.shape[-1])
        found: Array = shape.metric.apply(rows, 1).reshape(vectors.shape).astype(vectors.dtype)
        return found


DIRECTIONS = [Fisher]
