"""Discounted returns, reward-to-go, means of others and shaping: the only copy."""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from quell.types import Array

Shaping = Literal["normalise", "ranks", "none"]


def reward_to_go(rewards: Array, gammas: Sequence[float]) -> Array:
    """G_t = sum_{t' >= t} gamma^{t'-t} r_{t'} for rewards [n, t] and each gamma: [k, n, t] float64. The paper's eq. (5)
    prints the sum without gamma^{t'-t}; then the control variate does not have mean zero."""
    gamma = np.asarray(gammas, np.float64)[:, None]
    by_time = np.ascontiguousarray(rewards.T, np.float64)
    togo = np.empty((len(by_time), len(gamma), len(rewards)))
    running = np.zeros(togo.shape[1:])
    for t in reversed(range(len(by_time))):
        running *= gamma
        running += by_time[t]
        togo[t] = running
    return np.ascontiguousarray(togo.transpose(1, 2, 0))


def discounts(gamma: float, steps: int) -> Array:
    """gamma^t for t = 0 .. steps-1."""
    return gamma ** np.arange(steps, dtype=np.float64)


def alive(steps: Array, horizon: int) -> Array:
    """[n, horizon]: which entries belong to the episode."""
    return np.arange(horizon) < np.asarray(steps)[:, None]


def finite_pairs(values: Array) -> Array:
    """[N] bool: which pairs have only finite numbers in both members' rows of `values` [2N, ...]."""
    return np.asarray(np.isfinite(values).reshape(len(values) // 2, -1).all(axis=1))


def mean_of_others(values: Array, running: Array, *, whole_pairs: bool = False) -> Array:
    """For each member [..., 2N, t], the mean over the other members still running at step t; 0 where there is none.

    As a baseline for reward-to-go this keeps a policy gradient unbiased: a member's own action noise does not enter it.
    `whole_pairs` leaves out the partner too: where the members of a pair act with the same noise, its reward-to-go
    depends on one's own. `values` are 0 where a member does not run.
    """

    def of_pair(values: Array) -> Array:
        """Each member's pair's sum, [..., 2N, t]."""
        return np.repeat(values.reshape(*values.shape[:-2], -1, 2, values.shape[-1]).sum(axis=-2), 2, axis=-2)

    present = running.astype(np.float64)
    total, count = values.sum(axis=-2, keepdims=True), present.sum(axis=-2)
    own, others = (of_pair(values), count - of_pair(present)) if whole_pairs else (values, count - 1)
    return np.where(others > 0, (total - own) / np.maximum(others, 1), 0.0)


def less_other_pairs(values: Array, good: int) -> Array:
    """Values [..., 2N] less the mean over the other good pairs (members of bad ones are 0); as they are if alone."""
    if good < 2:
        return values
    by_pair = values.reshape(*values.shape[:-1], -1, 2)
    total = by_pair.sum(axis=(-2, -1), keepdims=True)
    others = (total - by_pair.sum(axis=-1, keepdims=True)) / (2 * good - 2)
    return np.asarray(by_pair - others).reshape(values.shape)


def shaped_fitness(returns: Array, how: Shaping) -> tuple[Array, float, Array]:
    """(shaped returns [2N], each pair centred on the mean of the others; scale; which pairs [N] have finite returns).

    Members of bad pairs are 0. A policy gradient times the scale matches the shaped returns. The centre cancels in a
    symmetric pair. In a GCMC pair it does not, and the mean of the *other* pairs, which is independent of this one,
    removes the returns' common part without bias. A single pair's own mean would bias it.
    """
    good = finite_pairs(returns)
    members = np.repeat(good, 2)
    fitness, scale = np.zeros(len(returns)), 0.0
    if good.any():
        shaped, scale = shape(returns[members], how)
        alone = good.sum() == 1 and how == "normalise"
        fitness[members] = returns[members] * scale if alone else less_other_pairs(shaped, int(good.sum()))
    return fitness, scale, good


def centred_ranks(values: Array) -> Array:
    """Ranks scaled to [-1/2, 1/2], ties sharing their mean rank (Salimans et al., 2017)."""
    from scipy.stats import rankdata

    return np.asarray((rankdata(values) - 1) / (len(values) - 1) - 0.5) if len(values) > 1 else np.zeros(len(values))


def shape(returns: Array, how: Shaping) -> tuple[Array, float]:
    """(fitness of every member, scale): ES(1) uses the fitness; the control variate is multiplied by the scale.

    normalise: (J - mean) / std, scale 1/std. ranks: centred ranks, scale 1/std. none: J itself, scale 1.
    Returns that are all equal carry no information: fitness and scale are then 0.
    """
    if how == "none":
        return returns, 1.0
    largest = np.abs(returns).max()  # dividing by it first keeps squares of huge returns finite
    if largest == 0 or returns.min() == returns.max():
        return np.zeros(len(returns)), 0.0
    unit = returns / largest
    scale = 1 / unit.std()
    fitness = (unit - unit.mean()) * scale if how == "normalise" else centred_ranks(returns)
    return fitness, float(scale / largest)
