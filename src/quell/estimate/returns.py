"""Discounted returns, reward-to-go, means of others and shaping: the only copy."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from quell.types import Array, namespace

Shaping = Literal["normalise", "ranks", "none"]
ROUNDING, SINGLE_ROUNDING = 1e-12, 1e-6
"""Of the largest, in double and in single precision: returns that differ by less are the same sum in another order."""
WORTH = 0.1
"""Of the mean size of an episode's rewards: what is smaller is no event to wait for."""


def reward_to_go(rewards: Array, gammas: Sequence[float]) -> Array:
    """G_t = sum_{t' >= t} gamma^{t'-t} r_{t'} for rewards [n, t] and each gamma: [k, n, t] float64. The paper's eq. (5)
    prints the sum without gamma^{t'-t}; then the control variate does not have mean zero."""
    xp = namespace(rewards)
    if xp is not np:
        decay = xp.asarray(gammas, np.float32)[:, None, None]
        return discounted_sum(xp, xp.broadcast_to(rewards, (len(gammas), *rewards.shape)), decay)
    gamma = np.asarray(gammas, np.float64)[:, None]
    by_time = np.ascontiguousarray(rewards.T, np.float64)
    togo = np.empty((len(by_time), len(gamma), len(rewards)))
    running = np.zeros(togo.shape[1:])
    for t in reversed(range(len(by_time))):
        running *= gamma
        running += by_time[t]
        togo[t] = running
    return np.ascontiguousarray(togo.transpose(1, 2, 0))


def discounted_sum(xp: Any, values: Any, decay: Any) -> Any:
    """y_t = x_t + decay y_{t+1} along the last axis; `decay` is a number, or an array beside the values.

    Sums of 1, 2, 4, ... steps: few operations on whole arrays. SciPy's filter takes a second to import, and JAX's
    associative scan is many more instructions to compile.
    """
    found, reach = np.array(values, np.float64) if xp is np else values, 1
    while reach < found.shape[-1]:
        if xp is np:
            found[..., :-reach] += decay * found[..., reach:]
        else:
            found = found + decay * _moved(found, reach)
        decay, reach = decay * decay, 2 * reach
    return found


def _moved(values: Any, steps: int) -> Any:
    """JAX's values of so many steps later; 0 behind the end."""
    import jax

    still = [(0, 0, 0)] * (values.ndim - 1)
    return jax.lax.pad(values, np.zeros((), values.dtype), [*still, (-steps, steps, 0)])


def discounts(xp: Any, gamma: Any, steps: int) -> Array:
    """gamma^t for t = 0 .. steps-1."""
    return gamma ** xp.arange(steps, dtype=np.float64 if xp is np else np.float32)


def alive(steps: Array, horizon: int) -> Array:
    """[n, horizon]: which entries belong to the episode."""
    return namespace(steps).arange(horizon) < steps[:, None]


def finite_pairs(values: Array) -> Array:
    """[N] bool: which pairs have only finite numbers in both members' rows of `values` [2N, ...]."""
    return namespace(values).isfinite(values).reshape(len(values) // 2, -1).all(axis=1)


def alike(returns: Array, members: Array | None = None) -> Any:
    """Whether there are returns (of these members, if not all), and they are the same up to rounding."""
    xp = namespace(returns)
    members = xp.ones(len(returns), bool) if members is None else members
    low = xp.where(members, returns, xp.inf).min(initial=xp.inf)
    high = xp.where(members, returns, -xp.inf).max(initial=-xp.inf)
    rounding = ROUNDING if xp is np else SINGLE_ROUNDING
    return (low <= high) & (high - low <= rounding * xp.maximum(-low, high))


def next_reward_seen(rewards: Array, steps: Array, gamma: float) -> Any:
    """Mean of gamma^wait over the actions of episodes [2N, t], for the wait till the next reward; 1 if there is none.

    A reward is one of at least `WORTH` of the episode's mean size, so that a small cost of every action is not one.
    Pairs with a reward that is no number are left out.
    """
    xp, horizon = namespace(rewards), rewards.shape[1]
    running, time = alive(steps, horizon), xp.arange(horizon)
    sound = xp.repeat(finite_pairs(xp.where(running, rewards, 0.0)), 2)[:, None]
    size = xp.where(running & xp.isfinite(rewards), xp.abs(rewards), 0.0)
    largest = size.max(axis=1, initial=0.0, keepdims=True)  # sums of huge rewards stay finite
    relative = size / xp.where(largest > 0, largest, 1.0)
    paid = relative > WORTH * relative.sum(axis=1, keepdims=True) / xp.maximum(steps, 1)[:, None]
    upcoming = _least_from_here(xp, xp.where(paid, time, horizon))
    waiting = running & sound & (upcoming < horizon)
    share = xp.where(waiting, gamma ** xp.where(waiting, upcoming - time, 0), 0.0).sum()
    return xp.where(waiting.any(), share / xp.maximum(waiting.sum(), 1), 1.0)


def _least_from_here(xp: Any, values: Any) -> Any:
    """The least value [n, t] of this and all later steps."""
    if xp is np:
        return np.minimum.accumulate(values[:, ::-1], axis=1)[:, ::-1]
    import jax

    return jax.lax.cummin(values, axis=1, reverse=True)


def mean_of_others(values: Array, running: Array, *, whole_pairs: bool = False) -> Array:
    """For each member [..., 2N, t], the mean over the other members still running at step t; 0 where there is none.

    As a baseline for reward-to-go this keeps a policy gradient unbiased: a member's own action noise does not enter it.
    `whole_pairs` leaves out the partner too: where the members of a pair act with the same noise, its reward-to-go
    depends on one's own. `values` are 0 where a member does not run.
    """

    def of_pair(values: Array) -> Array:
        """Each member's pair's sum, [..., 2N, t]."""
        return xp.repeat(values.reshape(*values.shape[:-2], -1, 2, values.shape[-1]).sum(axis=-2), 2, axis=-2)

    xp = namespace(values)
    present = running.astype(np.float64 if xp is np else np.float32)
    total, count = values.sum(axis=-2, keepdims=True), present.sum(axis=-2)
    own, others = (of_pair(values), count - of_pair(present)) if whole_pairs else (values, count - 1)
    return xp.where(others > 0, (total - own) / xp.maximum(others, 1), 0.0)


def less_other_pairs(values: Array, good: Any) -> Array:
    """Values [..., 2N] less the mean over the other good pairs (members of bad ones are 0); as they are if alone."""
    xp = namespace(values)
    by_pair = values.reshape(*values.shape[:-1], -1, 2)
    total = by_pair.sum(axis=(-2, -1), keepdims=True)
    others = (total - by_pair.sum(axis=-1, keepdims=True)) / xp.maximum(2 * good - 2, 1)
    return xp.where(xp.asarray(good) < 2, values, (by_pair - others).reshape(values.shape))


def shaped_fitness(returns: Array, how: Shaping) -> tuple[Array, Any, Array]:
    """(shaped returns [2N], each pair centred on the mean of the others; scale; which pairs [N] have finite returns).

    Members of bad pairs are 0. A policy gradient times the scale matches the shaped returns. The centre cancels in a
    symmetric pair. In a GCMC pair it does not, and the mean of the *other* pairs, which is independent of this one,
    removes the returns' common part without bias. A single pair's own mean would bias it.
    """
    xp, good = namespace(returns), finite_pairs(returns)
    members, count = xp.repeat(good, 2), good.sum()
    usable = xp.where(members, returns, 0.0)
    shaped, scale = shape(usable, how, members)
    centred = less_other_pairs(xp.where(members, shaped, 0.0), count)
    fitness = xp.where(count == 1, usable * scale, centred) if how == "normalise" else centred
    return xp.where(members, fitness, 0.0), xp.where(count > 0, scale, 0.0), good


def centred_ranks(values: Array, members: Array | None = None) -> Array:
    """Ranks among the members (all by default) scaled to [-1/2, 1/2], ties sharing their mean rank (Salimans et al.,
    2017)."""
    xp = namespace(values)
    members = xp.ones(len(values), bool) if members is None else members
    if xp is np:
        from scipy.stats import rankdata
    else:
        from jax.scipy.stats import rankdata
    others = members.sum() - 1
    ranks = (rankdata(xp.where(members, values, xp.inf)) - 1) / xp.maximum(others, 1) - 0.5
    return xp.where(members & (others > 0), ranks, 0.0)


def shape(returns: Array, how: Shaping, members: Array | None = None) -> tuple[Array, Any]:
    """(fitness of every member, scale): ES(1) uses the fitness; the control variate is multiplied by the scale.

    normalise: (J - mean) / std, scale 1/std. ranks: centred ranks, scale 1/std. none: J itself, scale 1.
    Returns that are all equal carry no information: fitness and scale are then 0. `members` says whose returns count.
    """
    if how == "none":
        return returns, 1.0
    xp = namespace(returns)
    members = xp.ones(len(returns), bool) if members is None else members
    flat = alike(returns, members) | ~members.any()
    largest = xp.where(flat, 1.0, xp.where(members, xp.abs(returns), 0.0).max())  # keeps squares of huge returns finite
    unit, count = returns / largest, xp.maximum(members.sum(), 1)
    mean = xp.where(members, unit, 0.0).sum() / count
    spread = xp.sqrt(xp.where(members, xp.square(unit - mean), 0.0).sum() / count)
    scale = 1 / xp.where(flat, 1.0, spread)
    fitness = (unit - mean) * scale if how == "normalise" else centred_ranks(returns, members)
    return xp.where(flat, 0.0, fitness), xp.where(flat, 0.0, scale / largest)
