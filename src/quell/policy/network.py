"""A policy is an MLP over one flat parameter vector theta; its layout is defined here once."""

import functools
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from quell.types import Array, namespace

Kind = Literal["gaussian", "deterministic", "categorical"]
Activation = Literal["relu", "tanh"]
Bounding = Literal["as-is", "clip", "scale"]
"""What happens to an action on its way to the environment. The policy gradient always sees the action as drawn."""


@dataclass(frozen=True)
class Policy:
    """An MLP whose output is a Gaussian's mean, an action, or the logits of one or several independent choices.

    theta holds, in this order, each layer's weights [inputs, outputs] and biases, then, for a Gaussian policy that
    learns it, the state-independent log standard deviation of every action coordinate.

    A custom network is a subclass with `shapes` and `output` (examples/own_policy.py).
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
    choices: tuple[int, ...] = ()
    """Of a categorical policy: how many there are to choose from in each entry of an action (empty: one entry)."""

    @functools.cached_property
    def groups(self) -> list[slice]:
        """Where in the output the logits of each choice are."""
        stops = list(itertools.accumulate(self.choices or (self.action_size,)))
        return [slice(*ends) for ends in itertools.pairwise([0, *stops])]

    @functools.cached_property
    def table(self) -> tuple[Array, Array]:
        """(index, mask), [choices, most of one]: output[index] + mask has a row per choice, and -inf beyond its end."""
        sizes = np.array([where.stop - where.start for where in self.groups])
        index = np.array([where.start for where in self.groups])[:, None] + np.arange(sizes.max())
        there = np.arange(sizes.max()) < sizes[:, None]
        return np.where(there, index, 0), np.where(there, 0, -np.inf).astype(np.float32)

    def by_choice(self, xp: Any, function: Callable[..., Any], *arrays: Any) -> Any:
        """`function` of the logits (or what goes with them) of every choice on its own: arrays [..., action_size]."""
        if len(self.groups) == 1:
            return function(*arrays)
        if len(set(self.choices)) == 1:  # all at once
            split = (array.reshape(*array.shape[:-1], len(self.groups), self.choices[0]) for array in arrays)
            return function(*split).reshape(arrays[0].shape)
        return xp.concatenate([function(*(array[..., one] for array in arrays)) for one in self.groups], axis=-1)

    @property
    def own(self) -> bool:
        """Whether the network is a custom one, of which only its output is known."""
        return type(self).output is not Policy.output

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """name -> shape of every part of the network."""
        named = [{f"w{i}": sizes, f"b{i}": sizes[1:]} for i, sizes in enumerate(self.layers)]
        return {name: shape for layer in named for name, shape in layer.items()}

    def output(self, xp: Any, parts: dict[str, Any], obs: Any) -> Any:
        """The network's output [n, action_size] for observations [n, obs_size]; `xp` is numpy or jax.numpy."""
        squash = xp.tanh if self.activation == "tanh" else lambda h: xp.maximum(h, 0)
        return self.forward(parts, obs, squash)[1]

    @functools.cached_property
    def layers(self) -> list[tuple[int, int]]:
        """(inputs, outputs) of each layer; a custom network is one layer, of all its parameters by 1."""
        if self.own:
            return [(sum(map(math.prod, self.shapes.values())) - 1, 1)]
        return list(itertools.pairwise([self.obs_size, *self.hidden, self.action_size]))

    @functools.cached_property
    def layout(self) -> dict[str, tuple[slice, tuple[int, ...]]]:
        """name -> (where in theta, shape): w0, b0, w1, b1, ..., log_std."""
        shapes = dict(self.shapes)
        if self.kind == "gaussian" and self.learn_std:
            shapes["log_std"] = (self.action_size,)
        layout, start = {}, 0
        for name, shape in shapes.items():
            layout[name] = (slice(start, start + math.prod(shape)), shape)
            start += math.prod(shape)
        return layout

    @functools.cached_property
    def blocks(self) -> tuple[slice, ...]:
        """Where in theta each layer is, weights and biases together, and last the log standard deviations."""
        spread = [self.layout["log_std"][0]] if "log_std" in self.layout else []
        if self.own:
            return (slice(0, spread[0].start if spread else self.dim), *spread)
        layers = range(len(self.layers))
        blocks = [slice(self.layout[f"w{i}"][0].start, self.layout[f"b{i}"][0].stop) for i in layers]
        return (*blocks, *spread)

    @property
    def dim(self) -> int:
        """d, the number of parameters."""
        return list(self.layout.values())[-1][0].stop

    @property
    def stochastic(self) -> bool:
        return self.kind != "deterministic"

    def unflatten(self, theta: Any) -> dict[str, Any]:
        """Named views of theta [..., d]; works on NumPy and JAX arrays alike."""
        front = theta.shape[:-1]
        return {name: theta[..., where].reshape(*front, *shape) for name, (where, shape) in self.layout.items()}

    def forward(self, parts: dict[str, Any], obs: Any, squash: Any) -> tuple[list[Any], Any]:
        """(input of every layer, output of the last) for `unflatten`'s parts; `squash` is the activation."""
        inputs, last = [obs], len(self.layers) - 1
        for i in range(last):
            inputs.append(squash(inputs[-1] @ parts[f"w{i}"] + parts[f"b{i}"]))
        return inputs, inputs[-1] @ parts[f"w{last}"] + parts[f"b{last}"]

    def init(self, rng: np.random.Generator) -> Array:
        """theta_0: LeCun-normal weights (the last layer times output_scale), zero biases, std = init_std."""
        theta = np.zeros(self.dim, np.float32)
        parts = self.unflatten(theta)
        weights = [name for name, shape in self.shapes.items() if len(shape) > 1]
        for name in weights:
            scale = self.output_scale if name == weights[-1] else 1.0
            parts[name][:] = scale * rng.standard_normal(parts[name].shape) / np.sqrt(parts[name].shape[0])
        if "log_std" in parts:
            parts["log_std"][:] = np.log(self.init_std)
        return theta

    def std(self, theta: Array) -> Array:
        """Action standard deviations [..., action_size] (zeros for a deterministic policy)."""
        if "log_std" in self.layout:
            return np.exp(self.unflatten(theta)["log_std"])
        value = self.init_std if self.kind == "gaussian" else 0.0
        return np.full((*theta.shape[:-1], self.action_size), value, np.float32)

    def draw_noise(self, rng: np.random.Generator, steps: int) -> Array:
        """Action noise for one episode, [steps, action_size] float32."""
        shape = (steps, self.action_size)
        if self.kind == "categorical":
            waits = rng.standard_exponential(shape, dtype=np.float32)
            noise: Array = -namespace(waits).log(waits)
            return noise
        return rng.standard_normal(shape, dtype=np.float32)

    @property
    def recorded_size(self) -> int:
        """Numbers stored per action: the index of each choice, or the action vector."""
        return len(self.groups) if self.kind == "categorical" else self.action_size
