"""How members act, in NumPy: many small networks side by side, one batched product per layer."""

from collections.abc import Callable
from typing import Any

import numpy as np

from quell.errors import UsageError
from quell.policy.network import Policy
from quell.types import Array, Factored

CACHED = 1 << 17  # numbers of a shared matrix that are used for all members before the next ones
Act = Callable[[Array, Array], Array]  # (obs [m, o], noise [m, a]) -> actions [m, recorded]


def actor(policy: Policy, thetas: Array | Factored, *, mean_action: bool = False) -> Act:
    """`act(obs, noise)` for m members, each with its own theta (rows of `thetas`, or factors of what differs).

    Gaussian: mean + std * noise. Categorical: of each choice the index (as float32, [m, choices]) that maximises logits
    + noise, which samples the softmax when the noise is Gumbel. `mean_action` drops the noise. A member's action does
    not depend on who else is in the batch, to the last bit: each row has its own vector-matrix product.
    """
    if isinstance(thetas, Factored):
        own = thetas.own.get("log_std")
        outputs, std = _factor_by_factor(policy, thetas), policy.std(thetas.theta[None]) if own is None else np.exp(own)
    else:
        outputs, std = (_member_by_member if policy.own else _side_by_side)(policy, thetas), policy.std(thetas)
    categorical = policy.kind == "categorical"
    noisy = policy.stochastic and not mean_action

    def act(obs: Array, noise: Array) -> Array:
        out = outputs(obs)
        if noisy:
            out += noise if categorical else std * noise
        return chosen(policy, out).astype(np.float32) if categorical else out

    return act


def chosen(policy: Policy, logits: Array) -> Array:
    """The index of the largest logit of every choice, [m, choices]."""
    if len(policy.groups) == 1:
        return logits.argmax(axis=1)[:, None]
    index, mask = policy.table
    return (logits[:, index] + mask).argmax(axis=-1)


def _side_by_side(policy: Policy, thetas: Array) -> Callable[[Array], Array]:
    """Outputs of all members' networks."""
    parts = {name: np.ascontiguousarray(part) for name, part in policy.unflatten(thetas).items()}
    weights = [(parts[f"w{i}"], parts[f"b{i}"]) for i in range(len(policy.layers))]
    relu, last = policy.activation == "relu", weights[-1][0]

    def outputs(h: Array) -> Array:
        for w, b in weights:
            h = np.vecmat(h, w)
            h += b
            if w is not last:
                h = np.maximum(h, 0, out=h) if relu else np.tanh(h, out=h)
        return h

    return outputs


def _factor_by_factor(policy: Policy, members: Factored) -> Callable[[Array], Array]:
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


def _member_by_member(policy: Policy, thetas: Array) -> Callable[[Array], Array]:
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
    if policy.actions == "clip":
        return lambda actions: xp.clip(actions, low, high)
    return lambda actions: low + (xp.clip(actions, -1, 1) + 1) / 2 * (high - low)
