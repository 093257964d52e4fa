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
Normaliser = tuple[Array, Array] | None  # (mean, 1 / std) of observations, for policies that normalise


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


def actor(
    policy: Policy, thetas: Array | Factored, normaliser: Normaliser = None, *, mean_action: bool = False
) -> Actor:
    """m members, each with its own theta (rows of `thetas`, or factors of what differs), that see observations as the
    environment gives them, or normalised; `mean_action`: without noise.

    A member's action does not depend on who else is in the batch, to the last bit: each row has its own vector-matrix
    product.
    """
    if isinstance(thetas, Factored):
        own = thetas.own.get("log_std")
        outputs, std = _factor_by_factor(policy, thetas), policy.std(thetas.theta[None]) if own is None else np.exp(own)
    elif policy.own:
        outputs, std = _member_by_member(policy, thetas), policy.std(thetas)
    else:
        acting = _side_by_side(policy, thetas, normaliser)
        return Actor(policy, acting, policy.std(thetas), noisy=policy.stochastic and not mean_action)
    noisy = policy.stochastic and not mean_action
    return Actor(policy, lambda obs: outputs(as_seen(obs, normaliser)), std, noisy=noisy)


def as_seen(obs: Array, normaliser: Normaliser) -> Array:
    """Observations as the policy sees them: float32, normalised if it normalises."""
    seen = obs.astype(np.float32)
    if normaliser is not None:
        seen -= normaliser[0]
        seen *= normaliser[1]
    return seen


def chosen(policy: Policy, logits: Array) -> Array:
    """The index of the largest logit of every choice, [m, choices]."""
    if len(policy.groups) == 1:
        return logits.argmax(axis=1)[:, None]
    index, mask = policy.table
    return (logits[:, index] + mask).argmax(axis=-1)


def _side_by_side(policy: Policy, thetas: Array, normaliser: Normaliser) -> Outputs:
    """Outputs of all members' networks.

    This goes on at every step of a run, and with one or two members NumPy's calls take longer than what they compute:
    which calls they are, and on which arrays, is found beforehand.
    """
    count, relu, parts = len(thetas), policy.activation == "relu", policy.unflatten(thetas)
    seen = h = np.empty((count, policy.obs_size), np.float32)
    calls: list[Callable[[], Any]] = []
    if normaliser is not None:  # a row for every member: NumPy takes several times as long to repeat one itself
        mean, scale = (np.tile(part, (count, 1)) for part in normaliser)
        calls += [partial(np.subtract, seen, mean, seen), partial(np.multiply, seen, scale, seen)]
    for layer, (_, width) in enumerate(policy.layers):
        w, b = (np.ascontiguousarray(parts[f"{kind}{layer}"]) for kind in "wb")
        out = np.empty((count, width), np.float32)
        each = [partial(row.dot, matrix, place) for row, matrix, place in zip(h, w, out, strict=True)]
        calls += each if count <= FEW else [partial(np.vecmat, h, w, out)]
        calls.append(partial(np.add, out, b, out))
        if layer < len(policy.hidden):
            nothing = np.zeros_like(out)  # a plain 0 would be made an array at every call
            calls.append(partial(np.maximum, out, nothing, out=out) if relu else partial(np.tanh, out, out))
        h = out

    def outputs(obs: Array) -> Array:
        seen[:] = obs
        for call in calls:
            call()
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
