"""Sums of pairs' terms inside a compiled program, in groups that bound the memory they take."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from quell.estimate import Estimator, Problem, Rows
from quell.estimate.reduce import COLLECTED, forms, sum_inside
from quell.perturb import draw_of, sigma_of
from quell.rollout.device.directions import both
from quell.types import Batch, Sums


def summed(
    estimator: Estimator,
    problem: Problem,
    batch: Batch,
    rows: Rows,
    theta: Any,
    *,
    eps: Any = None,
    together: int | None = None,
    devices: int = 1,
) -> Sums:
    """The sum of all pairs' terms; `eps` [N, 2, d] are directions that were drawn before.

    Pairs are gone through in groups of at most `together` on each device. Every device has its own pairs in each group,
    so that none waits for another's trajectories.
    """
    count = batch.pairs
    most = count if together is None else min(count, max(1, together) * devices)
    groups = -(-count // most)
    each = -(-count // (groups * devices))  # pairs of a group on one device
    pairs = {"steps": batch.rollouts.steps.reshape(-1, 2)} | ({} if eps is None else {"eps": eps})
    if (paths := batch.rollouts.trajectories) is not None:
        pairs |= {name: array.reshape(-1, 2, *array.shape[1:]) for name, array in vars(paths).items()}
    told = {"pairs": pairs, "rows": rows.pairs, "number": jnp.arange(count)}
    some = _Some(estimator, problem, batch, rows, theta)
    if not forms(estimator, problem):  # the directions are those of this program, and so is their weighted sum
        own: Any = estimator
        return some(told) | own.weighted(problem, rows)
    if groups == 1 and count == each * devices:
        return some(told)
    told = jax.tree.map(lambda array: _grouped(array, devices, groups, each), told)
    found = jax.lax.map(some, told)
    collected = {name: _in_order(value, devices, groups) for name, value in found.items() if _is_rows(name)}
    return {name: value.sum(axis=0) for name, value in found.items() if not _is_rows(name)} | collected


def _is_rows(name: str) -> bool:
    return name.startswith(COLLECTED)


def _grouped(array: Any, devices: int, groups: int, each: int) -> Any:
    """[N, ...] as [groups, devices * each, ...], a device's own pairs next to one another; zeros behind the last."""
    behind = devices * groups * each - len(array)
    padded = jnp.pad(array, [(0, behind), *[(0, 0)] * (array.ndim - 1)]) if behind else array
    apart = padded.reshape(devices, groups, each, *array.shape[1:]).swapaxes(0, 1)
    return apart.reshape(groups, devices * each, *array.shape[1:])


def _in_order(rows: Any, devices: int, groups: int) -> Any:
    """What was collected of the groups, in the order of pairs again: a critic's minibatches depend on it."""
    apart = rows.reshape(groups, devices, -1, *rows.shape[2:]).swapaxes(0, 1)
    return apart.reshape(-1, *rows.shape[2:])


class _Some:
    """The sum over some pairs."""

    def __init__(self, estimator: Estimator, problem: Problem, batch: Batch, rows: Rows, theta: Any) -> None:
        self.estimator, self.problem, self.batch, self.rows, self.theta = estimator, problem, batch, rows, theta

    def __call__(self, told: dict[str, Any]) -> dict[str, Any]:
        problem, episodes = self.problem, self.batch.episodes
        pairs = {"eps": None, **told["pairs"]}
        if not forms(self.estimator, problem):
            pairs["eps"] = None
        elif pairs["eps"] is None:
            draw, kind, shape = draw_of(problem.policy, problem.seed, episodes), problem.directions, episodes.shape
            pairs["eps"] = jax.vmap(lambda number: both(kind, draw, number, shape))(told["number"])
        if pairs["eps"] is not None and episodes.shape is not None and episodes.shape.metric is not None:
            pairs["scored"] = problem.directions.inverse(pairs["eps"], episodes.shape)
        own = Rows(told["rows"], self.rows.shared)
        return sum_inside(self.estimator, problem, pairs, own, self.theta, sigma_of(problem.directions, episodes.shape))
