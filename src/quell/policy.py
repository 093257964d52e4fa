"""Policies over one flat parameter vector theta, and how members act with them in NumPy.

The layout of theta is defined here once; `quell.scores` reads the same layout in JAX.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from quell.errors import UsageError

Array = NDArray[Any]
Kind = Literal["gaussian", "deterministic", "categorical"]
Activation = Literal["relu", "tanh"]
Bounding = Literal["as-is", "clip", "scale"]
"""What happens to an action on its way to the environment. The policy gradient always sees the action as drawn."""


@dataclass(frozen=True)
class Policy:
    """An MLP whose output is a Gaussian's mean, an action, or the logits of a choice.

    theta holds, in this order, each layer's weights [inputs, outputs] and biases, then, for a Gaussian policy that
    learns it, the state-independent log standard deviation of every action coordinate.
    """

    obs_size: int
    action_size: int
    kind: Kind = "gaussian"
    hidden: tuple[int, ...] = (32, 32)
    activation: Activation = "relu"
    init_std: float = 1.0
    learn_std: bool = True
    output_scale: float = 1.0
    actions: Bounding = "as-is"

    @functools.cached_property
    def layers(self) -> list[tuple[int, int]]:
        """(inputs, outputs) of each layer."""
        sizes = [self.obs_size, *self.hidden, self.action_size]
        return list(itertools.pairwise(sizes))

    @functools.cached_property
    def layout(self) -> dict[str, tuple[slice, tuple[int, ...]]]:
        """name -> (where in theta, shape): w0, b0, w1, b1, ..., log_std."""
        shapes: dict[str, tuple[int, ...]] = {}
        for i, (inputs, outputs) in enumerate(self.layers):
            shapes[f"w{i}"] = (inputs, outputs)
            shapes[f"b{i}"] = (outputs,)
        if self.kind == "gaussian" and self.learn_std:
            shapes["log_std"] = (self.action_size,)
        layout, start = {}, 0
        for name, shape in shapes.items():
            layout[name] = (slice(start, start + math.prod(shape)), shape)
            start += math.prod(shape)
        return layout

    @property
    def dim(self) -> int:
        """d, the number of parameters."""
        return list(self.layout.values())[-1][0].stop

    @property
    def stochastic(self) -> bool:
        return self.kind != "deterministic"

    def unflatten(self, theta: Any) -> dict[str, Any]:
        """Named views of theta [..., d]; works on NumPy and JAX arrays alike."""
        return {
            name: theta[..., where].reshape(*theta.shape[:-1], *shape) for name, (where, shape) in self.layout.items()
        }

    def init(self, rng: np.random.Generator) -> Array:
        """theta_0: LeCun-normal weights (the last layer times output_scale), zero biases, std = init_std."""
        theta = np.zeros(self.dim, np.float32)
        parts = self.unflatten(theta)
        for i, (inputs, outputs) in enumerate(self.layers):
            scale = self.output_scale if i == len(self.layers) - 1 else 1.0
            parts[f"w{i}"][:] = scale * rng.standard_normal((inputs, outputs)) / np.sqrt(inputs)
        if "log_std" in parts:
            parts["log_std"][:] = np.log(self.init_std)
        return theta

    def std(self, theta: Array) -> Array:
        """Action standard deviations [..., action_size] (zeros for a deterministic policy)."""
        if "log_std" in self.layout:
            return np.exp(self.unflatten(theta)["log_std"])
        value = self.init_std if self.kind == "gaussian" else 0.0
        return np.full((*theta.shape[:-1], self.action_size), value, np.float32)

    def actor(self, thetas: Array, *, mean_action: bool = False) -> Callable[[Array, Array], Array]:
        """`act(obs [m, o], noise [m, a]) -> actions` for m members, each with its own theta (rows of `thetas`).

        Gaussian: mean + std * noise. Categorical: the index (as float32, [m, 1]) that maximises logits + noise, which
        samples the softmax when the noise is Gumbel. `mean_action` drops the noise. A member's action does not depend
        on who else is in the batch, to the last bit: each row has its own vector-matrix product.
        """
        parts = {name: np.ascontiguousarray(part) for name, part in self.unflatten(thetas).items()}
        weights = [(parts[f"w{i}"], parts[f"b{i}"]) for i in range(len(self.layers))]
        *inner, (last_w, last_b) = weights
        squash = _relu if self.activation == "relu" else _tanh
        std = self.std(thetas)
        noisy = self.stochastic and not mean_action

        def act(obs: Array, noise: Array) -> Array:
            h = obs
            for w, b in inner:
                h = np.vecmat(h, w)
                h += b
                squash(h)
            out: Array = np.vecmat(h, last_w)
            out += last_b
            if self.kind == "categorical":
                if noisy:
                    out += noise
                return out.argmax(axis=1)[:, None].astype(np.float32)
            if noisy:
                out += std * noise
            return out

        return act

    def to_environment(self, bounds: tuple[Array, Array] | None) -> Callable[[Array], Array] | None:
        """What turns drawn actions into the environment's, or None to pass them on.

        clip: cut at the bounds. scale: cut at -1 and 1, then stretch that to the bounds.
        """
        if self.actions == "as-is" or self.kind == "categorical":
            return None
        if bounds is None or (self.actions == "scale" and not np.isfinite(bounds).all()):
            raise UsageError(f"policy.actions {self.actions!r} needs a task whose actions have bounds; use as-is")
        low, high = bounds
        if self.actions == "clip":
            return lambda actions: np.clip(actions, low, high)
        return lambda actions: low + (np.clip(actions, -1, 1) + 1) / 2 * (high - low)

    def draw_noise(self, rng: np.random.Generator, steps: int) -> Array:
        """Action noise for one episode, [steps, action_size] float32."""
        shape = (steps, self.action_size)
        if self.kind == "categorical":
            return -np.log(rng.standard_exponential(shape, dtype=np.float32))
        return rng.standard_normal(shape, dtype=np.float32)

    @property
    def recorded_size(self) -> int:
        """Numbers stored per action: the choice's index, or the action vector."""
        return 1 if self.kind == "categorical" else self.action_size


def _relu(x: Array) -> None:
    np.maximum(x, 0, out=x)


def _tanh(x: Array) -> None:
    np.tanh(x, out=x)
