"""Value functions as baselines: V(s_t, t) for the reward-to-go, fitted by least squares on past batches only.

    b_t = w . phi(s_t, t),     w = argmin sum (G_t - w . phi)^2 + ridge     over the steps of earlier batches

A state is seen before its action is drawn and w is older than the batch, so sum_t b_t grad log pi(a_t | s_t) has mean
zero and any such baseline leaves a policy gradient unbiased. The sums behind w are additive over pairs.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from quell.estimate import State
from quell.keys import Purpose, generator
from quell.reduce import Sums

Array = NDArray[Any]
Kind = Literal["linear", "network"]
REACH = 10.0  # observations are clipped here, so that a wild member cannot rule the fit


@dataclass(frozen=True)
class ValueFunction:
    """linear: 1, time and its powers, the observation, its square, and both times the time left.

    network: those, and `units` tanh units of observation and time whose (first) layer is random and stays so, which
    leaves a least-squares problem for the last layer.
    """

    kind: Kind
    obs_size: int
    targets: int = 1  # discounts whose reward-to-go is predicted
    decay: float = 0.95
    units: int = 48
    ridge: float = 1e-4

    @property
    def size(self) -> int:
        return 4 + 4 * self.obs_size + (self.units if self.kind == "network" else 0)

    def init(self) -> State:
        return self._named(np.zeros((self.size, self.size)), np.zeros((self.size, self.targets)))

    def _named(self, gram: Array, target: Array) -> State:
        return {f"{self.kind}.gram": gram, f"{self.kind}.target": target}

    def features(self, obs: Array) -> Array:
        """phi [t, f] for one member's observations [t, o], padded to the horizon."""
        seen = np.clip(np.nan_to_num(obs.astype(np.float64)), -REACH, REACH)
        past = (np.arange(len(obs)) / len(obs))[:, None]
        left = 1 - past
        square = np.square(seen)
        parts = [past**0, past, past**2, past**3, seen, square, left * seen, left * square]
        if self.kind == "network":
            weights, time, bias = _first_layer(self.obs_size, self.units)
            parts.append(np.tanh(seen @ weights + past * time + bias))
        return np.concatenate(parts, axis=1)

    def weights(self, state: State) -> Array:
        """w [f, targets]; zeros while there is nothing to fit."""
        gram, target = state[f"{self.kind}.gram"], state[f"{self.kind}.target"]
        scale = np.diag(gram)
        if not scale[0] > 0:
            return np.zeros_like(target)
        damped = gram + np.diag(self.ridge * scale + 1e-9 * scale[0])
        return np.linalg.solve(damped, target)

    def apply(self, weights: Array, obs: Array, togo: Array, steps: Array) -> tuple[Array, Sums]:
        """What is predicted for some members, and what they add to the next fit.

        For obs [m, t, o], rewards-to-go [targets, m, t] and the members' steps [m]: (V [targets, m, t], zero after an
        episode's end, and the sums of phi phi' and phi G over real steps). One member at a time, to bound memory.
        """
        values, sums = np.zeros_like(togo), self.init()
        gram, target = sums.values()
        for member, count in enumerate(steps):
            phi = self.features(obs[member])[:count]
            values[:, member, :count] = (phi @ weights).T
            gram += phi.T @ phi
            target += phi.T @ togo[:, member, :count].T
        return values, sums

    def update(self, state: State, sums: Sums) -> State:
        """The state with a batch's sums added to what is left of the older ones."""
        fresh = {name: self.decay * state[name] + sums[name] for name in self.init()}
        return {**state, **fresh} if all(np.isfinite(a).all() for a in fresh.values()) else state


@functools.lru_cache(maxsize=4)
def _first_layer(obs_size: int, units: int) -> tuple[Array, Array, Array]:
    """Random weights of observation and time, and biases: the same in every run."""
    rng = generator(0, Purpose.FEATURES)
    weights = rng.standard_normal((obs_size, units)) / np.sqrt(obs_size)
    return weights, 2 * rng.standard_normal(units), rng.standard_normal(units)
