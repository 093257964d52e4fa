"""Value functions as baselines: V(s_t, t) for the reward-to-go, fitted by least squares on past batches only.

    b_t = w . phi(s_t, t),     w = argmin sum (G_t - w . phi)^2 + ridge     over the steps of earlier batches

A state is seen before its action is drawn and w is older than the batch, so sum_t b_t grad log pi(a_t | s_t) has mean
zero and any such baseline leaves a policy gradient unbiased. The sums behind w are additive over pairs.
"""

import functools
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from quell.keys import Purpose, generator
from quell.types import Array, State, Sums

Kind = Literal["linear", "network"]


def clipped(xp: Any, obs: Any) -> Any:
    """Observations as value functions see them: no further out than 10, so that a wild member cannot rule the fit."""
    return xp.clip(xp.nan_to_num(obs), -10.0, 10.0)


@dataclass(frozen=True)
class ValueFunction:
    """linear: 1, time and its powers, the observation, its square, and both times the time left.

    network: those, and `units` tanh units of observation and time whose (first) layer is random and stays so, which
    leaves a least-squares problem for the last layer.
    """

    kind: Kind
    obs_size: int
    decay: float = 0.95
    units: int = 48
    ridge: float = 1e-4

    @property
    def size(self) -> int:
        return 4 + 4 * self.obs_size + (self.units if self.kind == "network" else 0)

    def init(self) -> State:
        return self._named(np.zeros((self.size, self.size)), np.zeros((self.size, 1)))

    def _named(self, gram: Any, target: Any) -> dict[str, Any]:
        return {f"{self.kind}.gram": gram, f"{self.kind}.target": target}

    def features(self, obs: Any, xp: Any = np, time: Any = None) -> Any:
        """phi [t, f] for one member's observations [t, o]; `time` is the share of the horizon that is past at each."""
        seen = clipped(xp, obs.astype(np.float64) if xp is np else obs)
        past = (xp.arange(len(obs)) / len(obs) if time is None else time)[:, None]
        left = 1 - past
        square = xp.square(seen)
        parts = [past**0, past, past**2, past**3, seen, square, left * seen, left * square]
        if self.kind == "network":
            weights, time, bias = _first_layer(self.obs_size, self.units)
            parts.append(xp.tanh(seen @ weights + past * time + bias))
        return xp.concatenate(parts, axis=1)

    def weights(self, state: State) -> Array:
        """w [f, 1]; zeros while there is nothing to fit."""
        gram, target = state[f"{self.kind}.gram"], state[f"{self.kind}.target"]
        scale = np.diag(gram)
        if not scale[0] > 0:
            return np.zeros_like(target)
        damped = gram + np.diag(self.ridge * scale + 1e-9 * scale[0])
        return np.linalg.solve(damped, target)

    def apply(
        self, weights: Any, obs: Any, reward_to_go: Any, steps: Any, xp: Any = np, time: Any = None
    ) -> tuple[Any, dict[str, Any]]:
        """What is predicted for a pair's members, and what they add to the next fit.

        For obs [2, t, o], rewards-to-go [2, t] and the members' steps [2]: (V [2, t], zero after an episode's end, and
        the sums of phi phi' and phi G over real steps). One member at a time, to bound memory.
        """
        values, gram, target = [], 0.0, 0.0
        for member in range(2):
            phi = self.features(obs[member], xp, time)
            if xp is np:  # shapes may depend on data, and products over real steps alone are faster
                phi = phi[: steps[member]]
                value = np.zeros(len(obs[member]))
                value[: steps[member]] = (phi @ weights)[:, 0]
            else:
                phi = xp.where(xp.arange(len(phi))[:, None] < steps[member], phi, 0.0)
                value = (phi @ weights)[:, 0]
            values.append(value)
            gram = gram + phi.T @ phi
            target = target + phi.T @ reward_to_go[member, : len(phi), None]
        return xp.stack(values), self._named(gram, target)

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
