"""A task whose smoothed gradient is known in closed form.

    x_{t+1} = A x_t + a_t,   reward_t = -|x_{t+1}|^2,   observation = 1 always

With a linear policy the action is a_t = mu + s * z_t, mu = w + b. Then J^gamma is quadratic in mu and exponential in
log s, so smoothing theta with N(0, sigma^2 I) leaves d/dmu unchanged and multiplies d/dlog s by exp(2 sigma^2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from quell.policy import Policy
from quell.tasks.arrays import ArrayTask
from quell.tasks.base import Array, Draws, State

A = np.array([[0.9, 0.3], [-0.2, 0.8]])
START = np.array([1.0, -0.5])
POLICY = Policy(1, 2, hidden=(), init_std=0.7)
THETA = np.array([0.1, -0.2, 0.15, 0.1, -0.4, -0.2], np.float32)


@dataclass(frozen=True, kw_only=True)
class LinearGaussian(ArrayTask):
    horizon: int = 6
    name = "linear-gaussian"
    summary = "closed-form test task"
    obs_size = 1
    action_size = 2

    def draw(self, rng: np.random.Generator) -> Draws:
        return (START,)

    def initial(self, xp: Any, draws: Draws) -> tuple[dict[str, Any], Any]:
        (x,) = draws
        return {"x": x}, xp.ones_like(x[:, :1])

    def step(self, xp: Any, state: State, action: Any) -> tuple[dict[str, Any], Any, Any]:
        x = (A * state["x"][:, None]).sum(axis=-1) + action
        return {"x": x}, xp.ones_like(x[:, :1]), -xp.square(x).sum(axis=1)


def smoothed_gradient(theta: Array, sigma: float, gamma: float, horizon: int) -> Array:
    """Gradient of F^{sigma,gamma} at theta = (w, b, log s)."""
    w, b, log_s = theta[:2].astype(float), theta[2:4].astype(float), theta[4:].astype(float)
    mean, power, carried = START.copy(), np.eye(2), np.zeros((2, 2))
    spread = np.zeros(2)
    d_mu, d_log_s = np.zeros(2), np.zeros(2)
    for t in range(horizon):
        mean = A @ mean + w + b
        carried = carried + power  # sum_k A^k: d mean / d mu
        spread = spread + np.square(power).sum(axis=0)  # d trace(cov) / d s_j^2
        power = A @ power
        d_mu -= gamma**t * 2 * carried.T @ mean
        d_log_s -= gamma**t * 2 * np.exp(2 * log_s + 2 * sigma**2) * spread
    return np.concatenate([d_mu, d_mu, d_log_s])
