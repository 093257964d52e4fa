"""Perturbed parameters inside a compiled program: what members act with, and the directions that estimators look at."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from quell.estimate import Problem
from quell.perturb import Draw, Kind, draw_of, draw_pair, perturbed, sigma_of
from quell.policy.fisher import Metric
from quell.policy.network import Policy
from quell.types import Episodes, Factored, Shape


def packed(shape: Shape | None) -> dict[str, Any]:
    """A shape as named arrays, which a compiled program takes."""
    if shape is None:
        return {}
    arrays = {"sigma": shape.sigma, "nats": shape.nats}
    if shape.metric is not None:
        arrays |= {"damping": shape.metric.damping, "known": shape.metric.known}
        for k, block in enumerate(shape.metric.blocks):
            arrays |= {f"left{k}": block.left, f"right{k}": block.right, f"values{k}": block.values}
    return {name: jnp.asarray(value) for name, value in arrays.items()}


def unpacked(policy: Policy, arrays: Mapping[str, Any]) -> Shape | None:
    """The shape again."""
    if not arrays:
        return None
    metric = None
    if "damping" in arrays:
        metric = Metric.from_arrays(policy, arrays, arrays["damping"], arrays["known"])
    return Shape(arrays["sigma"], metric, arrays["nats"])


def both(directions: Kind, draw: Draw, pair: Any, shape: Shape | None) -> Any:
    """(eps_plus, eps_minus) of a pair, [2, d]."""
    plus = directions.shaped(directions.plus(draw, pair), shape)
    return jnp.stack([plus, directions.minus(plus)])


def parameters(
    directions: Kind, draw: Draw, theta: Any, pair: Any, sign: Any, shape: Shape | None, eps: Any = None
) -> Any:
    """What members (pair [m], sign [m]) act with: [m, d], or what they share and their factors.

    `eps` [m, d] are their directions where they were drawn before. `draw.seed` is the key of the run's seed.
    """
    if directions.factored and draw.layout:
        return directions.factors(theta, draw, pair, sign, shape)  # type: ignore[attr-defined]
    sigma = sigma_of(directions, shape)

    def one(pair: Any, sign: Any) -> Any:
        two = both(directions, draw, pair, shape)
        return jnp.where(sign < 0, two[1], two[0])

    eps = jax.vmap(one)(pair, sign) if eps is None else eps
    return perturbed(theta, sigma * (sign != 0)[:, None].astype(np.float32), eps)


def drawn_before(problem: Problem, episodes: Episodes) -> np.ndarray[Any, Any]:
    """Directions that no compiled program can draw: both of every pair, [N, 2, d]; the CPU engine's own."""
    draw, pairs = draw_of(problem.policy, problem.seed, episodes), episodes.planned or episodes.pairs
    return np.array([draw_pair(problem.directions, draw, pair, episodes.shape) for pair in range(pairs)])


def outputs(policy: Policy, parameters: Any, obs: Any) -> Any:
    """The networks' outputs [m, a] for observations [m, o]; parameters are [m, d], [d] that all share, or factors."""
    if isinstance(parameters, Factored):
        return _factor_by_factor(policy, parameters, obs)
    parts = policy.unflatten(parameters)
    if parameters.ndim == 1:
        return policy.output(jnp, parts, obs)
    return jax.vmap(lambda own, row: policy.output(jnp, own, row[None])[0])(parts, obs)


def deviations(policy: Policy, parameters: Any) -> Any:
    """Standard deviations of the actions, one row for each member or one for all."""
    if not policy.learn_std:
        return policy.init_std
    if isinstance(parameters, Factored):
        own = parameters.own.get("log_std")
        return jnp.exp(policy.unflatten(parameters.theta)["log_std"] if own is None else own)
    return jnp.exp(policy.unflatten(parameters)["log_std"])


def _factor_by_factor(policy: Policy, members: Factored, obs: Any) -> Any:
    """Of members W + A B': h W for all at once, and (h A) B' for each."""
    shared, h, last = policy.unflatten(members.theta), obs, len(policy.layers) - 1
    for i in range(last + 1):
        out, own = h @ shared[f"w{i}"], members.own.get(f"b{i}")
        if f"w{i}" in members.factors:
            left, right = members.factors[f"w{i}"]
            out = out + jnp.einsum("mr,mro->mo", jnp.einsum("mi,mir->mr", h, left), right)
        out = out + (shared[f"b{i}"] if own is None else own)
        h = out if i == last else jnp.tanh(out) if policy.activation == "tanh" else jnp.maximum(out, 0)
    return h
