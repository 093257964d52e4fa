"""How members act, in NumPy: many small networks side by side."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from quell.errors import UsageError
from quell.policy.network import Policy
from quell.types import Array, Factored

CACHED = 1 << 17  # numbers of a shared matrix that are used for all members before the next ones
FEW = 4  # members up to which a product for each is faster than one call for all of them
Outputs = Callable[[Array], Array]  # observations [m, o] -> [m, a], which the next call may write over


class Actor:
    """How m members act, each with its own theta.

    Gaussian: mean + std * noise. Categorical: of each choice the index (as float32, [m, choices]) that maximises logits
    + noise, which samples the softmax when the noise is Gumbel. Without noise, where that is dropped.
    """

    def __init__(self, policy: Policy, outputs: Outputs, std: Array, *, noisy: bool) -> None:
        self._policy, self._outputs, self._std, self._noisy = policy, outputs, std, noisy
        self._categorical = policy.kind == "categorical"

    def __call__(self, obs: Array, noise: Array) -> Array:
        """Actions [m, recorded] for observations [m, o] and noise [m, a]."""
        actions = np.empty((len(obs), self._policy.recorded_size), np.float32)
        self.act(obs, self.added(noise), actions)
        return actions

    def added(self, noise: Array) -> Array:
        """What noise [..., m, a], of one step or of several at once, adds to the network's output."""
        return noise if self._categorical or not self._noisy else self._std * noise

    def act(self, obs: Array, added: Array, actions: Array) -> None:
        """Write the actions of one step into `actions`."""
        out = self._outputs(obs)
        if self._categorical:
            actions[:] = chosen(self._policy, out + added if self._noisy else out)
        elif self._noisy:
            np.add(out, added, actions)
        else:
            actions[:] = out


def actor(policy: Policy, thetas: Array | Factored, *, mean_action: bool = False) -> Actor:
    """m members, each with its own theta (rows of `thetas`, or factors of what differs); `mean_action`: without noise.

    A member's action does not depend on who else is in the batch, to the last bit: each row has its own vector-matrix
    product.
    """
    if isinstance(thetas, Factored):
        own = thetas.own.get("log_std")
        outputs, std = _factor_by_factor(policy, thetas), policy.std(thetas.theta[None]) if own is None else np.exp(own)
    else:
        outputs, std = (_member_by_member if policy.own else _side_by_side)(policy, thetas), policy.std(thetas)
    return Actor(policy, outputs, std, noisy=policy.stochastic and not mean_action)


def chosen(policy: Policy, logits: Array) -> Array:
    """The index of the largest logit of every choice, [m, choices]."""
    if len(policy.groups) == 1:
        return logits.argmax(axis=1)[:, None]
    index, mask = policy.table
    return (logits[:, index] + mask).argmax(axis=-1)


def _side_by_side(policy: Policy, thetas: Array) -> Outputs:
    """Outputs of all members' networks."""
    parts = {name: np.ascontiguousarray(part) for name, part in policy.unflatten(thetas).items()}
    weights = [(parts[f"w{i}"], parts[f"b{i}"]) for i in range(len(policy.layers))]
    if len(thetas) <= FEW:
        return _in_turn(policy, weights)
    relu, last = policy.activation == "relu", weights[-1][0]

    def outputs(h: Array) -> Array:
        for w, b in weights:
            h = np.vecmat(h, w)
            h += b
            if w is not last:
                h = np.maximum(h, 0, out=h) if relu else np.tanh(h, out=h)
        return h

    return outputs


def _in_turn(policy: Policy, weights: list[tuple[Array, Array]]) -> Outputs:
    """The same, to the last bit, with a product for each member, and all that is the same at every step looked up once
    per array of observations: a third of the time where there is one member."""
    relu, last = policy.activation == "relu", len(weights) - 1
    seen: Array | None = None
    layers: list[tuple[list[partial[Any]], Array, Array, bool]] = []

    def look_up(h: Array) -> None:
        layers.clear()
        for i, (w, b) in enumerate(weights):
            out = np.empty((len(h), w.shape[-1]), np.float32)
            products = [partial(row.dot, matrix, into) for row, matrix, into in zip(h, w, out, strict=True)]
            layers.append((products, out, b, i < last))
            h = out

    def outputs(obs: Array) -> Array:
        nonlocal seen
        obs = np.asarray(obs, np.float32)
        if obs is not seen:
            look_up(obs)
            seen = obs
        for products, h, b, hidden in layers:
            for product in products:
                product()
            np.add(h, b, h)
            if hidden:
                np.maximum(h, 0, out=h) if relu else np.tanh(h, h)
        return h

    return outputs


def _factor_by_factor(policy: Policy, members: Factored) -> Outputs:
    """The same of members W + A B', each of which is multiplied by an observation in turn: h W + (h A) B'. The shared W
    is gone through in parts that stay in the cache for all members."""
    shared, last = policy.unflatten(members.theta), len(policy.layers) - 1

    def layer(i: int, h: Array) -> Array:
        w, own = shared[f"w{i}"], members.own.get(f"b{i}")
        out = np.empty((len(h), w.shape[1]), np.float32)
        columns = max(1, CACHED // len(w))
        for start in range(0, w.shape[1], columns):
            out[:, start : start + columns] = np.vecmat(h, w[:, start : start + columns])
        if f"w{i}" in members.factors:
            left, right = members.factors[f"w{i}"]
            out += np.vecmat(np.vecmat(h, left), right)
        out += shared[f"b{i}"] if own is None else own
        return out

    def outputs(h: Array) -> Array:
        for i in range(last + 1):
            h = layer(i, h)
            if i < last:
                h = np.maximum(h, 0, out=h) if policy.activation == "relu" else np.tanh(h, out=h)
        return h

    return outputs


def _member_by_member(policy: Policy, thetas: Array) -> Outputs:
    """The same for custom networks."""
    members = [policy.unflatten(theta) for theta in thetas]

    def outputs(obs: Array) -> Array:
        rows = [policy.output(np, parts, row[None])[0] for parts, row in zip(members, obs, strict=True)]
        return np.asarray(rows, np.float32)

    return outputs


def to_environment(policy: Policy, bounds: tuple[Array, Array] | None, xp: Any = np) -> Callable[[Array], Array] | None:
    """None (as-is), or what cuts actions at the bounds (clip), or at -1 and 1, stretched to the bounds (scale)."""
    if policy.actions == "as-is" or policy.kind == "categorical":
        return None
    if bounds is None or (policy.actions == "scale" and not np.isfinite(bounds).all()):
        raise UsageError(f"policy.actions {policy.actions!r} needs a task whose actions have bounds; use as-is")
    low, high = bounds

    def cut(actions: Array, least: Any, most: Any) -> Any:
        return xp.minimum(xp.maximum(actions, least), most)  # NumPy's clip takes five times as long

    if policy.actions == "clip":
        return lambda actions: cut(actions, low, high)
    return lambda actions: low + (cut(actions, -1, 1) + 1) / 2 * (high - low)
