"""The Fisher matrix as a metric that can be inverted: Kronecker factors, layer by layer (K-FAC; Martens & Grosse 2015).

    F = E_s[grad log pi grad log pi'],    F_l ~ A_l x G_l,    A = E_s[h h'],    G = E_s[sum_k g_k g_k']

h is a layer's input with a 1 appended, so that weights and biases make one block, and g_k what reaches the layer's
output from row k of B, where B'B is the Fisher matrix of the network's own output:

    Gaussian        B = diag(1 / std)                     Deterministic   as a Gaussian of unit std
    categorical     B_k = sqrt(p_k) (e_k - p)', with p in the choice alone that k belongs to

One exact backward pass for each row, no sampled actions. The block of the log standard deviations is exactly 2. The
form is exact where a layer's h and g are independent; in a policy of one layer, wherever B is the same at all states.

Of a network that is not quell's own only the output is known. It is one layer, with A = E_s[J'B'BJ], J its Jacobian,
and G = 1: exact, and d^2 numbers, which is for networks of a few hundred parameters.

Sums over states are additive, so shards, threads or episodes may each make theirs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from quell.policy.network import Policy
from quell.types import Array, Sums, namespace

DAMPING = 0.01
LOG_STD = 2.0
"""E[(d log pi / d log std)^2]: that of every coordinate of a Gaussian, whatever its std."""


def factors(policy: Policy) -> Callable[..., dict[str, Any]]:
    """(theta [d], obs [n, o]) -> sums over states: count, and a0, g0, a1, g1, ... of every layer.

    `weights` [n] count a state more or less than once (0: padding); `xp` is numpy or jax.numpy.
    """

    if policy.own:
        return _whole(policy)

    def sums(theta: Any, obs: Any, weights: Any = None, xp: Any = np) -> dict[str, Any]:
        parts = policy.unflatten(theta)
        relu = policy.activation == "relu"
        inputs, out = policy.forward(parts, obs, (lambda h: xp.maximum(h, 0)) if relu else xp.tanh)
        times = xp.ones(len(obs), obs.dtype) if weights is None else weights
        back = _output_rows(policy, parts, out, xp)  # [n, k, outputs]
        found: dict[str, Any] = {"count": times.sum()}
        for layer in reversed(range(len(policy.layers))):
            h = xp.concatenate([inputs[layer], xp.ones_like(obs[:, :1])], axis=1)
            rows = (back * times[:, None, None]).reshape(-1, back.shape[-1])
            found[f"a{layer}"] = (h * times[:, None]).T @ h
            found[f"g{layer}"] = rows.T @ back.reshape(-1, back.shape[-1])
            if layer:
                h = inputs[layer]
                slope = (h > 0).astype(h.dtype) if relu else 1 - h * h
                back = (back @ parts[f"w{layer}"].T) * slope[:, None]
        return found

    return sums


def _whole(policy: Policy) -> Callable[..., dict[str, Any]]:
    """`factors` of a network of which only the output is known: one layer."""

    def sums(theta: Any, obs: Any, weights: Any = None, xp: Any = np) -> dict[str, Any]:
        import jax
        import jax.numpy as jnp

        def output(theta: Any, row: Any) -> Any:
            return policy.output(jnp, policy.unflatten(theta), row[None])[0]

        theta, obs = jnp.asarray(theta, jnp.float32), jnp.asarray(obs, jnp.float32)
        times = jnp.ones(len(obs)) if weights is None else jnp.asarray(weights)
        out = jax.vmap(output, (None, 0))(theta, obs)
        slopes = jax.vmap(jax.jacrev(output), (None, 0))(theta, obs)[..., policy.blocks[0]]
        rows = _output_rows(policy, policy.unflatten(theta), out, jnp) @ slopes  # [n, k, parameters]
        square = jnp.einsum("n,nki,nkj->ij", times, rows, rows)
        found = {"count": times.sum(), "a0": square, "g0": times.sum()[None, None]}
        return {name: np.asarray(value, np.float64) for name, value in found.items()} if xp is np else found

    return sums


def _output_rows(policy: Policy, parts: Mapping[str, Any], out: Any, xp: Any) -> Any:
    """B at every state: [n, k, action_size]."""
    identity = xp.eye(policy.action_size, dtype=out.dtype)
    if policy.kind == "categorical":
        p = policy.by_choice(xp, lambda logits: _softmax(xp, logits), out)
        mine = np.repeat(np.arange(len(policy.groups)), [where.stop - where.start for where in policy.groups])
        together = xp.asarray(mine[:, None] == mine, dtype=out.dtype)
        return xp.sqrt(p)[:, :, None] * (identity[None] - together * p[:, None])
    if policy.kind == "gaussian":
        std = xp.exp(parts["log_std"]) if policy.learn_std else policy.init_std
        identity = identity / std
    return xp.broadcast_to(identity, (len(out), *identity.shape))


def _softmax(xp: Any, logits: Any) -> Any:
    p = xp.exp(logits - logits.max(axis=-1, keepdims=True))
    return p / p.sum(axis=-1, keepdims=True)


@dataclass(frozen=True)
class Block:
    """One layer: eigenvectors and eigenvalues of its two factors."""

    where: slice
    left: Array  # [inputs + 1, inputs + 1]
    right: Array  # [outputs, outputs]
    values: Array  # [inputs + 1, outputs] products of their eigenvalues

    def apply(self, vectors: Any, power: float, damping: float) -> Any:
        """(A x G + damping)^power times the layer's part [m, (inputs + 1) * outputs] of some vectors."""
        turned = self.left.T @ vectors.reshape(-1, *self.values.shape) @ self.right
        scaled = turned * (self.values + damping) ** power
        return (self.left @ scaled @ self.right.T).reshape(vectors.shape)


@dataclass(frozen=True)
class Metric:
    """F + damping of a policy, as blocks that can be raised to any power; in float64 where arrays are NumPy's."""

    blocks: tuple[Block, ...]
    log_std: slice | None
    damping: float
    known: Any = True
    """Whether any states were seen; without, it is that of the parameters."""

    @staticmethod
    def of(policy: Policy, sums: Sums, damping: float = DAMPING) -> "Metric":
        """From `factors`, summed over as many states as there are; `damping` is added to every eigenvalue."""
        return Metric.from_arrays(policy, decomposed(policy, sums), damping)

    @staticmethod
    def from_arrays(policy: Policy, arrays: Mapping[str, Any], damping: float, known: Any = True) -> "Metric":
        """From what `decomposed` found."""
        names = ("left", "right", "values")
        layers = range(len(policy.layers))
        blocks = tuple(Block(policy.blocks[k], *(arrays[f"{name}{k}"] for name in names)) for k in layers)
        return Metric(blocks, policy.layout["log_std"][0] if "log_std" in policy.layout else None, damping, known)

    @property
    def xp(self) -> Any:
        """The library that its arrays are of."""
        return namespace(self.blocks[0].values)

    def whitening(self) -> tuple[tuple[Any, Any, Any], ...]:
        """What `layered_products` needs, as plain arrays: per layer two rotations and (eigenvalue + damping)^-1/2."""
        parts = [(block.left, block.right, (block.values + self.damping) ** -0.5) for block in self.blocks]
        if self.log_std is not None:
            parts.append((self.xp.eye(1), self.xp.eye(1), self.xp.full((1, 1), self._spread(-0.5))))
        return tuple(parts)

    def spectrum(self) -> Array:
        """The eigenvalues of F, without the damping: [d]."""
        parts = [block.values.ravel() for block in self.blocks]
        if self.log_std is not None:
            parts.append(self.xp.full(self.log_std.stop - self.log_std.start, LOG_STD))
        found: Array = self.xp.concatenate(parts)
        return found

    def coloured(self, noise: Array) -> Array:
        """A draw of covariance (F + damping)^-1, from one of covariance 1 [d], in its precision."""
        parts = []
        for block in self.blocks:
            turned = noise[block.where].reshape(block.values.shape) * (block.values + self.damping) ** -0.5
            parts.append((block.left @ turned @ block.right.T).ravel())
        if self.log_std is not None:
            parts.append(noise[self.log_std] * self._spread(-0.5))
        found: Array = self.xp.concatenate(parts)
        return found

    def _spread(self, power: float) -> Any:
        """(LOG_STD + damping)^power, once anything is known."""
        return self.xp.where(self.xp.asarray(self.known), (LOG_STD + self.damping) ** power, 1.0)

    def apply(self, vectors: Any, power: float) -> Any:
        """(F + damping)^power v for every row v of [m, d], or for one [d].

        Power -1 makes a gradient a natural one, and |apply(v, -1/2)|^2 = v' F^-1 v.
        """
        xp = namespace(vectors)
        rows = xp.atleast_2d(vectors.astype(np.float64) if xp is np else vectors)
        parts = [block.apply(rows[:, block.where], power, self.damping) for block in self.blocks]
        if self.log_std is not None:
            parts.append(rows[:, self.log_std] * self._spread(power))
        return xp.concatenate(parts, axis=1).reshape(vectors.shape)


def decomposed(policy: Policy, sums: Mapping[str, Any]) -> dict[str, Any]:
    """Eigenvectors and products of eigenvalues of every layer's factors: left0, right0, values0, left1, ..."""
    xp = namespace(sums["count"])
    count, found = xp.maximum(sums["count"], 1.0), {}
    for layer in range(len(policy.layers)):
        a, found[f"left{layer}"] = _eigen(xp, sums[f"a{layer}"] / count)
        g, found[f"right{layer}"] = _eigen(xp, sums[f"g{layer}"] / count)
        found[f"values{layer}"] = xp.outer(a, g)
    return found


def undecided(policy: Policy, damping: float) -> dict[str, Array]:
    """Arrays as `decomposed` makes them, before any state was seen: with the damping they are the identity."""
    found: dict[str, Array] = {}
    for layer, (inputs, outputs) in enumerate(policy.layers):
        found |= {f"left{layer}": np.eye(inputs + 1), f"right{layer}": np.eye(outputs)}
        found[f"values{layer}"] = np.full((inputs + 1, outputs), 1 - damping)
    return found


def _eigen(xp: Any, matrix: Any) -> tuple[Any, Any]:
    """Eigenvalues, none negative, and eigenvectors of a factor; NaN where it has none."""
    if xp is np and not np.isfinite(matrix).all():
        return np.full(len(matrix), np.nan), np.full_like(matrix, np.nan)
    values, vectors = xp.linalg.eigh(matrix)
    return xp.maximum(values, 0.0), vectors


def layered_products(xp: Any, policy: Policy, whitening: Any, vectors: Any, *, crossed: bool = True) -> Any:
    """v_i' P v_j for i <= j of some vectors [..., k, d] in each layer, [..., k (k + 1) / 2, layers].

    P = (F + damping)^-1. `whitening` is that of a Metric, or empty: then P = 1. Not `crossed`: only i = j, [..., k,
    layers].
    """
    count = vectors.shape[-2]
    couples = [(i, j) for i in range(count) for j in range(i, count if crossed else i + 1)]
    found = []
    for number, where in enumerate(policy.blocks):
        part = vectors[..., where]
        if len(whitening):
            left, right, root = whitening[number]
            matrices = part.reshape(*part.shape[:-1], len(left), -1)
            turned = left.T @ matrices @ right if number < len(policy.layers) else matrices
            part = (turned * root).reshape(part.shape)
        found.append(xp.stack([(part[..., i, :] * part[..., j, :]).sum(axis=-1) for i, j in couples], axis=-1))
    return xp.stack(found, axis=-1)
