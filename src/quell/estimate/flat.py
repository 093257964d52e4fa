"""Batches whose episodes all earned the same, and how far theta goes on them.

Such returns say nothing. A critic's advantages may still: they are what it did not expect, and on a task that is
solved its errors. Those are small, but steps have a fixed length, so that a solved task would be lost along them. Hence

    nothing else was ever earned    a whole step: it is unknown what can be gained, and moving finds out
    more was earned before          a whole step: the critic has seen what is better
    less was earned before          as much shorter as the variance of advantages is smaller than where returns differed

Only returns are compared: where episodes have a fixed length, a constant added to all rewards changes none of this.
PPO's steps stay whole in all three: they are small, along advantages of mean 0, and keep a solved task better so.
"""

from typing import Any

import numpy as np

from quell.estimate.returns import alike, finite_pairs
from quell.keys import Purpose, generator, traced_key
from quell.types import Array, Batch, State, namespace

TRACE, SINGLE_TRACE = 1e-12, 1e-6  # of the largest reward, in double and in single precision
MEMORY = 0.9  # of the advantages' spread
FARTHEST = float(np.finfo(np.float32).max)  # what a compiled program can hold


def earned(batch: Batch) -> Array:
    """Lowest and highest return of the pairs that are good, [2]; NaN if there are none."""
    returns, xp = batch.rollouts.returns, namespace(batch.rollouts.rewards)
    good = xp.repeat(finite_pairs(batch.rollouts.rewards), 2)
    low = xp.where(good, returns, xp.inf).min(initial=xp.inf)
    high = xp.where(good, returns, -xp.inf).max(initial=-xp.inf)
    return xp.where(good.any(), xp.stack([low, high]), xp.nan)


def nothing_seen() -> State:
    """Lowest and highest return of all batches, and the spread of advantages where returns differed."""
    seen = {"lowest": FARTHEST, "highest": -FARTHEST, "spread": 0.0}
    return {f"seen.{name}": np.asarray(value) for name, value in seen.items()}


def seen_after(state: State, ends: Array, spread: Any) -> State:
    """What is known after a batch that earned from the one end to the other, with advantages of this spread."""
    past, xp = state["seen.spread"], namespace(ends)
    mixed = xp.where(past > 0, xp.hypot(np.sqrt(MEMORY) * past, np.sqrt(1 - MEMORY) * spread), spread)
    told = ~alike(ends) & (spread > 0) & (spread < xp.inf)
    lowest, highest = xp.fmin(state["seen.lowest"], ends[0]), xp.fmax(state["seen.highest"], ends[1])
    found = {"lowest": lowest, "highest": highest, "spread": xp.where(told, mixed, past)}
    return {f"seen.{name}": xp.asarray(value) for name, value in found.items()}


def nothing_else_seen(state: State, ends: Array) -> Any:
    """Whether one and the same return is all that was earned, in this batch and before."""
    xp, before = namespace(ends), (state["seen.lowest"], state["seen.highest"])
    return xp.where(before[0] <= before[1], alike(xp.stack([*ends, *before])), alike(ends))


def step_share(state: State, ends: Array, spread: Any) -> Any:
    """How much of its usual length a step along advantages of this spread shall have."""
    past, best, xp = state["seen.spread"], state["seen.highest"], namespace(ends)
    at_best = (ends[1] >= best) | alike(xp.stack([ends[1], best]))
    small = xp.minimum(1.0, (spread / xp.where(past > 0, past, 1.0)) ** 2)
    return xp.where((past > 0) & alike(ends) & at_best & (spread < xp.inf), small, 1.0)


def with_a_trace(rewards: Array, seed: int, iteration: Any) -> Array:
    """Rewards with as much noise as leaves them what they are: a critic that is right to the last bit would not move
    theta at all, and whether it is may hang on a constant (0 is learned before anything is)."""
    xp = namespace(rewards)
    largest = xp.where(xp.isfinite(rewards), xp.abs(rewards), 0.0).max(initial=0.0)
    size = xp.where(largest > 0, largest, 1.0)
    if xp is np:
        drawn = generator(seed, Purpose.TRACE, int(iteration)).standard_normal(rewards.shape)
        return np.asarray(rewards + TRACE * size * drawn)
    import jax

    noise = jax.random.normal(traced_key(seed, Purpose.TRACE, iteration), rewards.shape)
    return rewards + SINGLE_TRACE * size * noise
