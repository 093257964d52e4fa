"""Directions of one's own: every pair perturbs one layer of the policy, the layers taking turns at random.

With probability p_l a pair's direction is N(0, I / p_l) in layer l and 0 elsewhere, so E[eps eps'] = I and the estimate
is unbiased in the limit of small sigma. Every random number comes from the pair's own key: the run does not depend on
how many processes play it. About ten seconds: python examples/own_directions.py
"""

import sys
from dataclasses import dataclass

import numpy as np

import quell


@dataclass(frozen=True, kw_only=True)
class LayerByLayer(quell.Directions):
    sizes: tuple[int, ...] = ()
    """Parameters in each layer, in the order of theta."""

    name = "layer-by-layer"  # `sigma` is inherited, and so is eps_minus = -eps_plus

    def plus(self, draw, pair):
        rng = draw.generator(pair)
        layer = rng.integers(len(self.sizes))
        start = sum(self.sizes[:layer])
        eps = np.zeros(draw.dim, np.float32)
        eps[start : start + self.sizes[layer]] = rng.standard_normal(self.sizes[layer], dtype=np.float32)
        return eps * np.float32(np.sqrt(len(self.sizes)))


if __name__ == "__main__":
    task, policy = quell.task("swimmer"), quell.GaussianPolicy()
    layers = policy.make(task).layout.values()  # weights, biases, ..., log-std
    result = quell.train(
        task,
        method="natural-cv",  # the control variate works on any directions
        policy=policy,
        directions=LayerByLayer(sizes=tuple(where.stop - where.start for where, _ in layers)),
        steps=int(sys.argv[1]) if len(sys.argv) > 1 else 100_000,
    )
    print(f"return {result.last('eval/return'):.1f} after {result.steps:,} steps")
