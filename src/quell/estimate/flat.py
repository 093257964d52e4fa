"""Batches whose episodes all earned the same, and how far theta goes on them.

Such returns say nothing. A critic's advantages may still: they are what it did not expect, and on a task that is
solved its errors. Those are small, but steps have a fixed length, so that a solved task would be lost along them. Hence

    nothing else was ever earned    a whole step: nobody knows what is to be gained, and moving finds out
    more was earned before          a whole step: the critic has seen what is better
    less was earned before          as much shorter as the variance of advantages is smaller than where returns differed

Only returns are compared: where episodes have a fixed length, a constant added to all rewards changes none of this.
PPO's steps stay whole in all three: they are small, along advantages of mean 0, and keep a solved task better so.
"""

import math

import numpy as np

from quell.estimate.returns import alike, finite_pairs
from quell.keys import Purpose, generator
from quell.types import Array, Batch, State

TRACE = 1e-12  # of the largest reward
MEMORY = 0.9  # of the advantages' spread
FARTHEST = float(np.finfo(np.float64).max)


def earned(batch: Batch) -> Array:
    """Lowest and highest return of the pairs that are good, [2]; NaN if there are none."""
    returns = batch.rollouts.returns[np.repeat(finite_pairs(batch.rollouts.rewards), 2)]
    return np.array([returns.min(), returns.max()]) if len(returns) else np.full(2, np.nan)


def nothing_seen() -> State:
    """Lowest and highest return of all batches, and the spread of advantages where returns differed."""
    seen = {"lowest": FARTHEST, "highest": -FARTHEST, "spread": 0.0}
    return {f"seen.{name}": np.asarray(value) for name, value in seen.items()}


def seen_after(state: State, ends: Array, spread: float) -> State:
    """What is known after a batch that earned from the one end to the other, with advantages of this spread."""
    past = float(state["seen.spread"])
    if not alike(ends) and 0 < spread < math.inf:
        past = math.hypot(math.sqrt(MEMORY) * past, math.sqrt(1 - MEMORY) * spread) if past else spread
    lowest, highest = np.fmin(state["seen.lowest"], ends[0]), np.fmax(state["seen.highest"], ends[1])
    return {"seen.lowest": np.asarray(lowest), "seen.highest": np.asarray(highest), "seen.spread": np.asarray(past)}


def nothing_else_seen(state: State, ends: Array) -> bool:
    """Whether one and the same return is all that was earned, in this batch and before."""
    before = [float(state[name]) for name in ("seen.lowest", "seen.highest")]
    return alike(np.array([*ends, *before])) if before[0] <= before[1] else alike(ends)


def step_share(state: State, ends: Array, spread: float) -> float:
    """How much of its usual length a step along advantages of this spread shall have."""
    past, best = float(state["seen.spread"]), float(state["seen.highest"])
    at_best = ends[1] >= best or alike(np.array([ends[1], best]))
    return min(1.0, (spread / past) ** 2) if past and alike(ends) and at_best and spread < math.inf else 1.0


def with_a_trace(rewards: Array, seed: int, iteration: int) -> Array:
    """Rewards with as much noise as leaves them what they are: a critic that is right to the last bit would not move
    theta at all, and whether it is may hang on a constant (0 is learned before anything is)."""
    largest = np.abs(rewards[np.isfinite(rewards)]).max(initial=0.0)
    noise = generator(seed, Purpose.TRACE, iteration).standard_normal(rewards.shape)
    return np.asarray(rewards + TRACE * (largest or 1.0) * noise)
