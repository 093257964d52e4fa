"""Running statistics of observations, for policies that normalise what they see."""

from dataclasses import dataclass

import numpy as np

from quell.types import Array


@dataclass(frozen=True)
class ObsStats:
    """Count, sum and sum of squares of every observation of real steps so far (float64)."""

    count: float
    total: Array
    squares: Array

    @staticmethod
    def empty(size: int) -> "ObsStats":
        return ObsStats(0.0, np.zeros(size), np.zeros(size))

    def add(self, obs_sums: Array, steps: Array) -> "ObsStats":
        """Include episodes given by their sums [n, 2, o], added in member order; non-finite ones are left out."""
        good = np.isfinite(obs_sums).all(axis=(1, 2))
        summed = obs_sums[good].sum(axis=0)
        return ObsStats(self.count + float(steps[good].sum()), self.total + summed[0], self.squares + summed[1])

    def normaliser(self) -> tuple[Array, Array]:
        """(mean, 1/std), float32: what the policy applies; the identity until there is data."""
        if self.count < 2:
            return np.zeros(len(self.total), np.float32), np.ones(len(self.total), np.float32)
        mean = self.total / self.count
        variance = np.maximum(self.squares / self.count - mean**2, 0.0)
        return mean.astype(np.float32), (1 / np.sqrt(variance + 1e-6)).astype(np.float32)
