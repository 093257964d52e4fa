"""A step of one's own that looks: along the gradient, as far as the policy may change (a KL limit).

A step that asks for `states` gets some of those that the policy visited, and on them the KL divergence and products
with the Fisher matrix. About fifteen seconds: python examples/own_step.py
"""

import sys
from dataclasses import dataclass

import numpy as np

import quell


@dataclass(frozen=True, kw_only=True)
class WithinKl:
    limit: float = 0.01
    """KL divergence that a step may cause."""

    name = "within-kl"
    states = 20  # observations of every episode

    def init(self, policy, theta):
        return ()  # nothing to remember between steps

    def metric(self, policy, state):
        return None  # noise is measured in the parameters themselves

    def step(self, theta, gradient, state, context):
        """The KL of a step s is about s'Fs / 2: scale the gradient to that, then shorten it while it is too much."""
        curvature = float(gradient @ context.fisher_product(gradient))
        length = np.sqrt(2 * self.limit / max(curvature, 1e-12))
        while (kl := context.kl(moved := theta + np.float32(length) * gradient)) > 1.5 * self.limit:
            length /= 2
        return moved, state, {"update/kl": kl, "learning_rate": length}


if __name__ == "__main__":
    result = quell.train(
        "hopper",
        method="natural-cv",
        step=WithinKl(limit=0.01),
        steps=int(sys.argv[1]) if len(sys.argv) > 1 else 50_000,
    )
    for row in result.history[:: max(1, len(result.history) // 8)]:
        print(f"iteration {row['iteration']:4d}  return {row['return/mean']:7.1f}  KL {row['update/kl']:.4f}")
