"""Optimisers and schedules, from optax: gradient in, ascent direction out."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import optax
from numpy.typing import NDArray

from quell.config import Config
from quell.errors import QuellError

Array = NDArray[Any]


class Optimiser:
    """theta <- theta + learning_rate(steps) * transform(gradient)."""

    def __init__(self, config: Config) -> None:
        self._transform = {
            "adam": optax.scale_by_adam,
            "sgd": optax.identity,
            "momentum": lambda: optax.trace(decay=0.9),
            "rmsprop": optax.scale_by_rms,
            "sign": optax.scale_by_sign,
        }[config.optimizer]()
        self._schedule = {
            "constant": lambda: optax.constant_schedule(config.lr),
            "linear": lambda: optax.linear_schedule(config.lr, 0.0, config.steps),
            "cosine": lambda: optax.cosine_decay_schedule(config.lr, config.steps),
        }[config.lr_schedule]()
        self._update = jax.jit(self._transform.update)

    def init(self, theta: Array) -> Any:
        return self._transform.init(theta)

    def learning_rate(self, steps: int) -> float:
        """Learning rate after `steps` environment steps."""
        return float(self._schedule(steps))

    def step(self, theta: Array, gradient: Array, state: Any, rate: float) -> tuple[Array, Any]:
        """The next theta and optimiser state."""
        direction, state = self._update(gradient, state)
        return theta + np.float32(rate) * np.asarray(direction), state

    @staticmethod
    def to_arrays(state: Any) -> dict[str, Array]:
        """The state's leaves by position, for a checkpoint."""
        return {f"optimiser.{i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(state))}

    def from_arrays(self, theta: Array, arrays: dict[str, Array]) -> Any:
        """The state a checkpoint holds."""
        fresh = self.init(theta)
        leaves, tree = jax.tree.flatten(fresh)
        names = [f"optimiser.{i}" for i in range(len(leaves))]
        if any(
            name not in arrays or arrays[name].shape != np.shape(leaf) for name, leaf in zip(names, leaves, strict=True)
        ):
            raise QuellError("the checkpoint's optimiser state does not fit this configuration")
        return jax.tree.unflatten(tree, [arrays[name] for name in names])
