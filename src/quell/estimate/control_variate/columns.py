"""The columns of a control variate: X_i, the pair's ES estimate, and Y_ik, each of mean zero.

    Y = ES(gamma) - RE(gamma)                       for each discount, both estimating the same gradient
    Y = sum_t (b_t - V(s_t, t)) grad log pi         for each value function, which exchanges the baseline b for V

A baseline looks at others' episodes, or at the state before its action is drawn, so a column's mean stays zero.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from quell.estimate import Problem
from quell.estimate.control_variate.choose import split_by_layer
from quell.estimate.control_variate.coefficients import Space
from quell.estimate.policy_gradient import pair_scores
from quell.estimate.score import pair_score
from quell.estimate.value import ValueFunction
from quell.perturb import perturbed
from quell.types import Array, Pair

STATES = 64  # of each pair, for the policy's metric


def value_weights(
    xp: Any, pair: Pair, row: dict[str, Any], baseline: ValueFunction | None, exchanged: Sequence[ValueFunction]
) -> tuple[Any, dict[str, Any]]:
    """What multiplies the scores in each column [2, K, t], with the value functions', and what these learn. A value
    function's predictions, of the first discount, serve the trial discounts too."""
    weights: Any = row["weights"]
    learned: dict[str, Any] = {}
    running = xp.arange(weights.shape[-1]) < xp.asarray(pair.steps)[:, None]
    for value in [*([baseline] if baseline else []), *exchanged]:
        values, sums = value.apply(row[value.kind], pair.obs, row["reward_to_go"], pair.steps, xp)
        learned |= sums
        if value is baseline:
            weights = weights - row["discounting"] * (values * row["scale"])[:, None]
        else:
            gap = xp.where(running, values - row["baseline"], 0.0)
            column = row["discounting"][:1] * (gap * row["scale"])[:, None]
            weights = xp.concatenate([weights, column], axis=1)
    return weights, learned


def pair_columns(
    xp: Any, problem: Problem, pair: Pair, row: dict[str, Any], theta: Any, weights: Any, precision: type[Any]
) -> Any:
    """X_i, then every Y_ik: [1 + K, d], in float64 in the end."""
    thetas = xp.stack([perturbed(theta, problem.directions.sigma, eps) for eps in pair.eps])
    scores = pair_scores(xp, problem.policy, pair, thetas, weights)
    wide = precision if xp is np else xp.float32
    gradients = xp.add(scores[0].astype(wide), scores[1].astype(wide)) / 2
    x = pair_score(xp, row["fitness"], pair.eps, problem.directions)
    discounts = row["returns"].shape[-1]
    smoothed = [pair_score(xp, row["returns"][:, k], pair.eps, problem.directions) for k in range(discounts)]
    columns = [x, *(s - g for s, g in zip(smoothed, gradients[:discounts], strict=True)), *(-gradients[discounts:])]
    return xp.stack([column.astype(np.float64) if xp is np else column for column in columns])


def policy_products(xp: Any, problem: Problem, space: Space, pair: Pair, theta: Any, columns: Any) -> Any:
    """Products of A times each column's part in each layer, over some states of the pair's own episodes."""
    from quell.policy.likelihood import policy_change

    half = STATES // 2
    chosen = (xp.asarray(pair.steps)[:, None] - 1) * xp.arange(half) // (half - 1)
    seen = xp.concatenate([pair.obs[member][chosen[member]] for member in range(2)])
    parts = xp.asarray(split_by_layer(xp, space, columns), xp.float32)
    moved = xp.asarray(policy_change(problem.policy)(theta, seen, parts))
    moved = moved.astype(np.float64) if xp is np else moved
    return moved @ moved.T


def packed(columns: Any) -> Any:
    """Products of all columns per coordinate, the upper triangle: [(1 + K)(2 + K) / 2, d]."""
    left, right = np.triu_indices(len(columns))
    return columns[left] * columns[right]


def unpacked(products: Array, columns: int) -> Array:
    """[1 + K, 1 + K, d] of the upper triangle."""
    left, right = np.triu_indices(1 + columns)
    full = np.empty((1 + columns, 1 + columns, products.shape[-1]))
    full[left, right] = full[right, left] = products
    return full
