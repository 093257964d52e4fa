"""Episodes of all members at once, inside a compiled program: one flat batch of worlds, in lockstep.

Members of several seeds stand side by side: every array has seeds in front, then members. The worlds see one flat
batch, because what simulates them (MJX on Warp) allows one level of mapping.

An episode that has ended goes on being simulated, unseen: its steps, rewards and observations count for nothing. Steps
are run in blocks; after each one it is seen whether anybody is left.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from quell.estimate import Problem
from quell.keys import Traced, at
from quell.perturb import Draw
from quell.policy.act import chosen, to_environment
from quell.rollout.device import directions
from quell.rollout.device.worlds import World

BLOCK = 64  # steps
LARGEST = 1e38  # of a return: rewards of all steps are cut so that their sum is a number in single precision


class Asked(NamedTuple):
    """What episodes are asked for; all that a compiled program may be told anew. Seeds in front, but for members."""

    theta: Any  # [s, d]
    root: Any  # [s] keys of the seeds
    iteration: Any  # [s]
    centre: Any  # [s, o] of observations
    scale: Any  # [s, o]
    shape: Mapping[str, Any]  # what `directions.packed` made of the directions' shape, [s, ...] each
    eps: Any  # [s, m, d] directions that were drawn before, or None
    purposes: Any  # [3] of the keys: environment, action noise, directions
    block: tuple[Any, ...]  # of the address
    noisy: Any  # whether actions are drawn, not the mean ones
    shared_reset: Any
    shared_noise: Any
    longest: Any  # steps


@dataclass(frozen=True, eq=False)
class Setting:
    """What is fixed when a program is compiled."""

    world: World
    problem: Problem
    perturbed: bool
    record: bool
    """Keep observations, actions and rewards of every step."""
    looks: bool
    """Keep observations of every step."""
    layout: Any = ()
    """Of the policy, as `Draw` has it."""
    pairs: int = 0
    """That directions are drawn for."""


def play(setting: Setting, asked: Asked, pair: Any, sign: Any) -> dict[str, Any]:
    """Episodes of the members (pair [m], sign [m]) of every seed: arrays [s, m, ...] by name."""
    seeds, count = len(asked.theta), len(pair)
    keys = jax.vmap(lambda root, when: _keys(asked, root, when, pair, sign))(asked.root, asked.iteration)
    act = _acting(setting, asked, pair, sign)
    flat = jax.tree.map(lambda array: array.reshape(-1), keys)
    found = _episodes(setting, asked, flat, act, seeds)
    return {name: array.reshape(seeds, count, *array.shape[1:]) for name, array in found.items()}


def _keys(asked: Asked, root: Any, iteration: Any, pair: Any, sign: Any) -> tuple[Any, Any]:
    """(environment, action noise) of every member of a seed; the addresses that other engines use."""
    mark = jnp.where(sign == 0, 0, 1 + (sign < 0))

    def one(pair: Any, mark: Any) -> tuple[Any, Any]:
        ends = jnp.where(asked.shared_reset, 0, mark), jnp.where(asked.shared_noise, 0, mark)
        address = (iteration, *asked.block, pair)
        return at(root, asked.purposes[0], *address, ends[0]), at(root, asked.purposes[1], *address, ends[1])

    return jax.vmap(one)(pair, mark)


def _acting(setting: Setting, asked: Asked, pair: Any, sign: Any) -> Any:
    """act(obs [s, m, o], noise [s, m, a]) -> what is recorded of the actions."""
    policy, kind = setting.problem.policy, setting.problem.directions

    def own(theta: Any, root: Any, iteration: Any, shape: Any, eps: Any) -> Any:
        if not setting.perturbed:
            return theta
        draw = Draw(root, iteration, setting.pairs, policy.dim, asked.purposes[2], asked.block, setting.layout)
        return directions.parameters(kind, draw, theta, pair, sign, directions.unpacked(policy, shape), eps)

    members = jax.vmap(own)(asked.theta, asked.root, asked.iteration, dict(asked.shape), asked.eps)

    def act(obs: Any, noise: Any) -> Any:
        out = jax.vmap(lambda own, obs: directions.outputs(policy, own, obs))(members, obs)
        if policy.kind == "categorical":
            logits = (out + asked.noisy * noise).reshape(-1, policy.action_size)
            return chosen(policy, logits).astype(np.float32).reshape(*obs.shape[:2], -1)
        if policy.stochastic:
            std = jax.vmap(lambda own: directions.deviations(policy, own))(members) if policy.learn_std else None
            spread = policy.init_std if std is None else std.reshape(len(out), -1, policy.action_size)
            out = out + asked.noisy * spread * noise
        return out

    return act


class _Going(NamedTuple):
    """Episodes on their way."""

    world: Any
    obs: Any  # [n, o] as the environment gives them
    alive: Any  # [n]
    steps: Any  # [n]
    terminated: Any  # [n]
    earned: Any  # [n]
    sums: Any  # [n, 2, o]


def _episodes(setting: Setting, asked: Asked, keys: tuple[Any, Any], act: Any, seeds: int) -> dict[str, Any]:
    """From reset until nobody is left or the horizon is reached; arrays [n, ...] of all seeds' members."""
    world, policy, horizon = setting.world, setting.problem.policy, setting.world.horizon
    state, obs = world.reset(keys[0])
    count, block = len(obs), min(BLOCK, horizon)
    never, zeros = jnp.zeros(count, bool), jnp.zeros(count)
    sums = jnp.zeros((count, 2, policy.obs_size))
    start = _Going(state, obs.astype(np.float32), ~never, zeros.astype(np.int32), never, zeros, sums)
    kept: dict[str, Any] = {}
    padded = -(-horizon // block) * block
    if setting.record or setting.looks:
        kept["obs"] = jnp.zeros((count, padded, policy.obs_size))
    if setting.record:
        kept |= {"actions": jnp.zeros((count, padded, policy.recorded_size)), "rewards": jnp.zeros((count, padded))}
    one = _step(setting, asked, keys[1], act, seeds)

    def some(carried: Any) -> Any:
        going, kept, first = carried
        going, told = jax.lax.scan(one, going, first + jnp.arange(block))
        for name, array in kept.items():
            part, zero = jnp.moveaxis(told[name], 0, 1), jnp.zeros_like(first)
            at = (zero, first, zero)[: array.ndim]
            kept = kept | {name: jax.lax.dynamic_update_slice(array, part, at)}
        return going, kept, first + block

    def unfinished(carried: Any) -> Any:
        return carried[0].alive.any() & (carried[-1] < horizon)

    going, kept, _ = jax.lax.while_loop(unfinished, some, (start, kept, jnp.int32(0)))
    found = {name: array[:, :horizon] for name, array in kept.items()}
    found.setdefault("rewards", going.earned[:, None])
    facts = {"steps": going.steps, "terminated": going.terminated, "sums": going.sums}
    return found | facts | {f"trouble.{name}": value for name, value in world.trouble(going.world).items()}


def _step(setting: Setting, asked: Asked, keys: Any, act: Any, seeds: int) -> Any:
    """One step of all episodes."""
    world, policy, horizon = setting.world, setting.problem.policy, setting.world.horizon
    bounded = to_environment(policy, world.bounds, jnp)
    last = jnp.minimum(asked.longest, horizon)

    def noise_of(key: Any, time: Any) -> Any:
        return policy.draw_noise(Traced(at(key, time)), 1)[0]  # type: ignore[arg-type]

    def one(going: _Going, time: Any) -> tuple[_Going, dict[str, Any]]:
        alive = going.alive
        seen = going.obs.reshape(seeds, -1, policy.obs_size)
        seen = (seen - asked.centre[:, None]) * asked.scale[:, None]
        noise = jax.vmap(noise_of, (0, None))(keys, time).reshape(seeds, -1, policy.action_size)
        actions = act(seen, noise).reshape(len(alive), -1)
        over = time + 1 >= last
        world_, obs, rewards, ended = world.step(going.world, bounded(actions) if bounded else actions, over)
        # An engine may take an action that is no number for 0; what it earns then means nothing.
        rewards = jnp.where(jnp.isfinite(actions).all(axis=1), rewards, jnp.nan)
        rewards = jnp.where(alive, jnp.clip(rewards, -LARGEST / horizon, LARGEST / horizon), 0.0).astype(np.float32)
        raw = jnp.where(alive[:, None], going.obs, 0.0)
        told = {"obs": jnp.where(alive[:, None], seen.reshape(raw.shape), 0.0)}
        told |= {"actions": jnp.where(alive[:, None], actions, 0.0), "rewards": rewards}
        following = _Going(
            world_,
            obs.astype(np.float32),
            alive & ~ended & ~over,
            going.steps + alive,
            going.terminated | (alive & ended),
            going.earned + rewards,
            going.sums + jnp.stack([raw, jnp.square(raw)], axis=1),
        )
        kept = (["obs"] if setting.record or setting.looks else []) + (["actions", "rewards"] if setting.record else [])
        return following, {name: told[name] for name in kept}

    return one


def play_in_groups(setting: Setting, chunk: int | None, asked: Asked, pair: Any, sign: Any) -> dict[str, Any]:
    """`play`, so many members at a time."""
    count, seeds = len(pair), len(asked.theta)
    groups = 1 if chunk is None else -(-count * seeds // chunk)
    if groups <= 1:
        return play(setting, asked, pair, sign)
    each = -(-count // groups)
    groups = -(-count // each)
    behind = groups * each - count
    pair, sign = (jnp.pad(side, (0, behind)).reshape(groups, each) for side in (pair, sign))
    eps = asked.eps
    if eps is not None:
        eps = jnp.moveaxis(jnp.pad(eps, ((0, 0), (0, behind), (0, 0))).reshape(seeds, groups, each, -1), 1, 0)
    found = jax.lax.map(lambda own: play(setting, asked._replace(eps=own[2]), own[0], own[1]), (pair, sign, eps))

    def joined(array: Any) -> Any:
        return jnp.moveaxis(array, 0, 1).reshape(seeds, groups * each, *array.shape[3:])[:, :count]

    return jax.tree.map(joined, found)
