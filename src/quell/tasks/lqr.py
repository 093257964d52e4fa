"""LQR: an unstable linear system with quadratic cost, and its exact optimum.

    x' = A x + B u + noise * w,   reward = -(x'Qx + u'Ru),   x0 ~ x0_std * N(0, I),   w ~ N(0, I)

A has 1.01 on the diagonal and 0.01 beside it, B = I, Q = I/1000, R = I. The paper prints a horizon of 2000; its
scores beat the optimum there and fit 302 steps, so both are tasks and every result is shown beside the optimum.
"""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from quell.registry import COUNT
from quell.tasks.arrays import BLUE, ArrayTask, Shape
from quell.tasks.base import Array, Draws, State, within

A = 1.01 * np.eye(3) + 0.01 * (np.eye(3, k=1) + np.eye(3, k=-1))
B = np.eye(3)
Q = np.eye(3) / 1000
R = np.eye(3)
LIMIT = 1e18  # states saturate here, so that a wild policy yields an awful but finite return


@dataclass(frozen=True, kw_only=True)
class Lqr(ArrayTask):
    name = "lqr"
    summary = "unstable linear system, quadratic cost"
    obs_size, action_size = 3, 3
    horizon: int = 2000
    noise: Annotated[float, COUNT] = 1.0
    x0_std: Annotated[float, COUNT] = 1.0

    def draw(self, rng: np.random.Generator) -> Draws:
        return rng.standard_normal(3), rng.standard_normal((self.horizon, 3))

    def initial(self, xp: Any, draws: Draws) -> tuple[dict[str, Any], Any]:
        x = self.x0_std * draws[0]
        return {"x": x, "noise": self.noise * draws[1], "time": 0}, x

    def step(self, xp: Any, state: State, action: Any) -> tuple[dict[str, Any], Any, Any]:
        x, noise, time = state["x"], state["noise"], state["time"]
        control = within(xp, action, -LIMIT, LIMIT)
        reward = -(xp.square(x).sum(axis=1) / 1000 + xp.square(control).sum(axis=1))  # Q = I/1000, R = I
        # A x + B u, B = I, in an order of additions that does not depend on how many members there are
        drift = x[:, :1] * A[:, 0] + x[:, 1:2] * A[:, 1] + x[:, 2:] * A[:, 2]
        following = within(xp, drift + control + noise[:, time], -LIMIT, LIMIT)
        return {"x": following, "noise": noise, "time": time + 1}, following, reward

    def scene(self, state: State) -> list[Shape]:
        """Each coordinate on a line of its own, asinh-scaled: 0 in the middle, 100 at the ends."""
        places = np.clip(np.arcsinh(state["x"][0]) / np.arcsinh(100), -1, 1) * 0.9
        lines = [Shape(0, y, 0.9, 0.004) for y in (0.6, 0, -0.6)]
        lines += [Shape(0, y, 0.004, 0.06) for y in (0.6, 0, -0.6)]
        return lines + [Shape(x, y, 0.05, 0.05, BLUE, True) for x, y in zip(places, (0.6, 0, -0.6), strict=True)]

    def notes(self) -> list[str]:
        optimum, noisy = optimal_return(self, 0.0), optimal_return(self, 1.0)
        return [f"Riccati optimum over {self.horizon} steps: {optimum:.4g} (with action std 1: {noisy:.4g})"]


@dataclass(frozen=True, kw_only=True)
class Lqr302(Lqr):
    """The same system over 302 steps, where the paper's scores fit."""

    name = "lqr-302"
    summary = "unstable linear system, quadratic cost, 302 steps"
    horizon: int = 302


def riccati_gains(horizon: int) -> Array:
    """K_t [horizon, 3, 3] of the optimal control u_t = -K_t x_t for the finite horizon (backward Riccati recursion)."""
    value = np.zeros((3, 3))
    gains = np.empty((horizon, 3, 3))
    for t in reversed(range(horizon)):
        gains[t] = np.linalg.solve(R + B.T @ value @ B, B.T @ value @ A)
        value = Q + A.T @ value @ (A - B @ gains[t])
    return gains


def linear_return(task: Lqr, gains: Array, action_std: float = 0.0) -> float:
    """Exact expected return of u_t = -K_t x_t + action_std * N(0, I), from the state's second moment."""
    second = task.x0_std**2 * np.eye(3)
    total = 0.0
    for gain in gains:
        total -= np.trace((Q + gain.T @ R @ gain) @ second) + action_std**2 * np.trace(R)
        closed = A - B @ gain
        second = closed @ second @ closed.T + (task.noise**2 + action_std**2) * np.eye(3)
    return float(total)


def optimal_return(task: Lqr, action_std: float = 0.0) -> float:
    """The best expected return any controller can reach when its actions carry N(0, action_std^2 I) noise."""
    return linear_return(task, riccati_gains(task.horizon), action_std)


TASKS = [Lqr, Lqr302]
