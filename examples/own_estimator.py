"""An estimator of one's own: ES that listens to its better pairs only ("top directions", Mania et al., 2018).

It says what one pair adds (`terms`); who sums, in one process or on many machines, is the engine's business. Its
fields are its settings. About fifteen seconds: python examples/own_estimator.py
"""

import sys
from dataclasses import dataclass

import numpy as np

import quell
from quell.estimate.es import pair_score


@dataclass(frozen=True, kw_only=True)
class TopDirections:
    keep: int = 4
    """Pairs that count: those whose better member is among the best."""

    name = "top-directions"
    needs = quell.Needs(perturbed=True, trajectories=False)
    biased = True  # for `quell.variance`: its mean is not the gradient

    def init(self, problem):
        return {}  # nothing to remember between iterations

    def prepare(self, problem, batch, state):
        """What is global: which pairs are kept, and the spread of their returns."""
        returns = batch.rollouts.returns.reshape(-1, 2)
        good = np.isfinite(returns).all(axis=1)  # the terms of a pair that is not good count 0
        best = np.argsort(np.where(good, returns.max(axis=1), -np.inf))[-self.keep :]
        kept = good & np.isin(np.arange(len(good)), best)
        return quell.Rows({"good": kept, "fitness": returns / max(returns[kept].std(), 1e-8)})

    def terms(self, problem, pair, row, theta, xp=np):
        """What one pair adds to the sums."""
        return {"count": 1.0, "x": pair_score(xp, row["fitness"], pair, problem.directions)}

    def combine(self, problem, sums, rows, state):
        return quell.Estimate((sums["x"] / max(sums["count"], 1)).astype(np.float32), state, {})


if __name__ == "__main__":
    result = quell.train(
        "swimmer",
        method="det",  # a deterministic policy; the estimator below replaces the method's own
        estimator=TopDirections(keep=4),
        pairs=8,
        sigma=0.1,
        step="sgd",
        lr=0.01,
        steps=int(sys.argv[1]) if len(sys.argv) > 1 else 400_000,
    )
    for row in result.history[:: max(1, len(result.history) // 8)]:
        print(f"iteration {row['iteration']:3d}  return {row['return/mean']:7.1f}")
