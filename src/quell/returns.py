"""Discounted returns, reward-to-go, baselines and shaping: the only copy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Shaping = Literal["normalise", "ranks", "none"]


def reward_to_go(rewards: Array, gammas: Sequence[float]) -> Array:
    """G_t = sum_{t' >= t} gamma^{t'-t} r_{t'} for rewards [n, t] and each gamma: [k, n, t] float64.

    The paper's eq. (5) prints the sum without gamma^{t'-t}; then the control variate does not have mean zero.
    """
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


def alive(steps: Array, horizon: int) -> NDArray[np.bool_]:
    """[n, horizon]: which entries belong to the episode."""
    return np.arange(horizon) < np.asarray(steps)[:, None]


def finite_pairs(values: Array) -> Array:
    """[N] bool: which pairs have only finite numbers in both members' rows of `values` [2N, ...]."""
    return np.asarray(np.isfinite(values).reshape(len(values) // 2, -1).all(axis=1))


def leave_one_out(total: Array, count: Array, own: Array) -> Array:
    """Mean over the other members, given the sum and number over all of them; 0 where there is no other.

    As a baseline for reward-to-go this keeps a policy gradient unbiased: a member's own action noise does not enter it.
    """
    others = count - 1
    return np.where(others > 0, (total - own) / np.maximum(others, 1), 0.0)


def leave_pair_out(total: Array, count: Array, own: Array, running: Array) -> Array:
    """Mean over the members of the other pairs; 0 where there is none. Members [.., 2N, t] in the order of a batch.

    For members that act with the same noise: a partner's reward-to-go then depends on one's own action noise, and
    `leave_one_out` would be biased.
    """

    def of_pair(values: Array) -> Array:
        by_pair = values.reshape(*values.shape[:-2], -1, 2, values.shape[-1]).sum(axis=-2)
        return np.repeat(by_pair, 2, axis=-2)

    others = count - of_pair(running.astype(np.float64))
    return np.where(others > 0, (total - of_pair(own)) / np.maximum(others, 1), 0.0)


def centred_ranks(values: Array) -> Array:
    """Ranks scaled to [-1/2, 1/2], ties sharing their mean rank (Salimans et al., 2017)."""
    if len(values) < 2:
        return np.zeros(len(values))
    _, position, count = np.unique(values, return_inverse=True, return_counts=True)
    mean_rank = np.cumsum(count) - (count + 1) / 2
    return (mean_rank / (len(values) - 1) - 0.5)[position]


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
