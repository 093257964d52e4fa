"""What a program takes and returns as arrays, and what the host makes of it."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from quell.rollout import Played
from quell.rollout.device.play import Asked
from quell.types import Batch, Episodes, Rollouts, Trajectories
from quell.update import STATES

NO_SUMS = np.zeros((0, 2, 0))


def troubles(found: dict[str, Any]) -> dict[str, float]:
    """How many episodes had trouble, as a run's metrics tell it."""
    named = {name.replace("trouble.", "trouble/"): value for name, value in found.items()}
    return {name: float(np.sum(value)) for name, value in named.items() if name.startswith("trouble/")}


def batch_of(episodes: Episodes, theta: Any, metric: Any, found: dict[str, Any], left: Any) -> tuple[Batch, Any]:
    """The batch inside a program, and which members were played: no pair is begun once the budget is spent. The rewards
    of the others are no numbers, so that they count for nothing."""
    steps = found["steps"].reshape(-1, 2).sum(axis=1)
    kept = jnp.repeat(jnp.cumsum(steps) - steps < left, 2)
    rewards = jnp.where(kept[:, None], found["rewards"], jnp.nan)
    paths = Trajectories(found["obs"], found["actions"]) if "actions" in found else None
    rollouts: Any = Rollouts(rewards, found["steps"], found["terminated"], paths, NO_SUMS)  # type: ignore[arg-type]
    return Batch(theta, episodes, rollouts, metric), kept


def for_host(found: dict[str, Any], kept: Any) -> dict[str, Any]:
    """What the host needs to know of a batch: every member's steps (0 where it was not played) and return, and the sums
    of observations."""
    sound = kept & jnp.isfinite(found["sums"]).all(axis=(1, 2))
    steps = jnp.where(kept, found["steps"], 0)
    obs = {"sums": jnp.where(sound[:, None, None], found["sums"], 0.0).sum(axis=0)}
    obs["count"] = jnp.where(sound, steps, 0).sum()
    return {"obs": obs, "returns": found["rewards"].sum(axis=1), "steps": steps, "terminated": found["terminated"]}


def played_of(state: Any, seen: dict[str, Any], started: float) -> Played:
    """What `for_host` sent, in double precision."""
    played = seen["steps"] > 0
    returns, steps = seen["returns"][played, None].astype(np.float64), seen["steps"][played].astype(np.int64)
    rollouts = Rollouts(returns, steps, seen["terminated"][played], None, NO_SUMS)
    obs = state.obs.add(seen["obs"]["sums"][None].astype(np.float64), seen["obs"]["count"][None])
    return Played(rollouts, obs, float(seen["nats"]), started)


def visited_states(obs: Any, steps: Any, each: int) -> Any:
    """`STATES` of a batch's states, evenly spread over all its steps, out of `each` of every episode, evenly spread
    over it: those that the stages look at (`quell.training.iteration.visited`)."""
    ends, k = jnp.cumsum(steps), jnp.arange(STATES)
    whole, rest = jnp.divmod(jnp.maximum(ends[-1] - 1, 0), STATES - 1)
    positions = k * whole + k * rest // (STATES - 1)  # in two parts, since the product may exceed 32 bits
    episode = jnp.searchsorted(ends, positions, side="right")
    last = jnp.maximum(steps[episode] - 1, 0)
    nearest = (positions - (ends - steps)[episode]) * (each - 1) // jnp.maximum(last, 1)
    return obs[episode, last * nearest // max(each - 1, 1)]


def spread_states(obs: Any, steps: Any, count: int) -> Any:
    """`count` of every episode's observations [n, t, o], evenly spread from its first to its last."""
    chosen = (steps[:, None] - 1) * jnp.arange(count) // max(count - 1, 1)
    return jnp.take_along_axis(obs, chosen[:, :, None], axis=1)


def request_of(episodes: Episodes) -> dict[str, Any]:
    """All fields of a request but its members."""
    return {item.name: getattr(episodes, item.name) for item in dataclasses.fields(episodes) if item.name != "members"}


def first_members(rollouts: Rollouts, count: int) -> Rollouts:
    """The first of the members."""
    if count == len(rollouts.steps):
        return rollouts
    names = ("rewards", "steps", "terminated", "obs_sums", "states")
    cut: dict[str, Any] = {
        name: getattr(rollouts, name)[:count] for name in names if getattr(rollouts, name) is not None
    }
    return dataclasses.replace(rollouts, trajectories=None, **cut)


def of_members(eps: Any) -> Any:
    """[N, 2, d] -> [2N, d]."""
    return eps.reshape(-1, eps.shape[-1])


def block_numbers(block: tuple[int, ...]) -> tuple[Any, ...]:
    """`Episodes.block` as arguments of a program."""
    return tuple(jnp.int32(number) for number in block)


def one_seed(arrays: dict[str, Any]) -> dict[str, Any]:
    """With an axis of seeds in front, which there is one of."""
    return {name: array[None] for name, array in arrays.items()}


def single(value: Any) -> Any:
    """As JAX has it: single precision."""
    array = jnp.asarray(value)
    return array.astype(np.float32) if jnp.issubdtype(array.dtype, np.floating) else array


def stacked(trees: list[Any]) -> Any:
    """Several runs' arrays as one, in front."""
    if len(trees) == 1:
        return jax.tree.map(lambda leaf: single(leaf)[None], trees[0])
    return jax.tree.map(lambda *leaves: jnp.stack([single(leaf) for leaf in leaves]), *trees)


def asked_together(asked: list[Asked]) -> Asked:
    """What several seeds ask for as one."""
    if len(asked) == 1:
        return asked[0]
    own = ("theta", "root", "iteration", "centre", "scale", "eps")
    found = {
        name: jnp.concatenate([getattr(one, name) for one in asked])
        for name in own
        if getattr(asked[0], name) is not None
    }
    whole: Any = asked[0]._replace(**found)  # type: ignore[arg-type]
    return whole
