"""Sums of pairs' terms whose rounding does not depend on who computed which part.

Floating-point addition is not associative, so the order is fixed: pairs are cut into at most 1024 consecutive blocks, a
block is summed in pair order, and blocks are added along a binary tree. Any number of threads or machines that compute
whole blocks get the same bits, and a process that holds whole subtrees may add them up before sending them on.
"""

import functools
import itertools
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from quell.estimate import Estimator, Problem, Rows
from quell.estimate.policy_gradient import padded_length
from quell.perturb import draw_of, draw_pair, sigma_of
from quell.types import Array, Batch, Episodes, Pair, Rollouts, Sums

Node = tuple[int, int]  # (level, index): the sum of leaves index * 2^level to (index + 1) * 2^level - 1
Mapper = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]

COLLECTED = "collected."
"""Terms whose names begin so are rows that pairs hand over: put one behind the other, in the order of pairs."""
LEAVES = 1024  # also the largest number of workers that can share an iteration
TOGETHER, LARGE = 1024, 1 << 20  # steps of a member, and numbers in their parameters, that are looked at together


def blocks(pairs: int) -> list[range]:
    """Consecutive pairs that are summed together."""
    size = -(-pairs // LEAVES)
    return [range(start, min(start + size, pairs)) for start in range(0, pairs, size)]


def shards(leaves: int, workers: int) -> list[range]:
    """Consecutive leaves for each of at most `workers`, as equal as can be."""
    workers = max(1, min(leaves, workers))
    edges = [leaves * k // workers for k in range(workers + 1)]
    return [range(*ends) for ends in itertools.pairwise(edges)]


class Tree:
    """Sums of leaves, merged as far as whole subtrees go: a range into 2 log2(leaves) nodes at most, all into one."""

    def __init__(self, leaves: int) -> None:
        self.leaves = leaves
        self.nodes: dict[Node, Sums] = {}

    def add(self, node: Node, sums: Sums) -> None:
        """Put a node in place, whose arrays are now the tree's own, and merge upwards while its sibling is there."""
        level, index = node
        while (width := -(-self.leaves >> level)) > 1:  # nodes on this level
            sibling = index ^ 1
            if sibling < width:  # the last of an odd number goes up as it is
                if (level, sibling) not in self.nodes:
                    break
                other = self.nodes.pop((level, sibling))
                left, right = (sums, other) if index < sibling else (other, sums)
                sums = {name: _joined(name, left[name], right[name]) for name in left}
            level, index = level + 1, index // 2
        self.nodes[level, index] = sums

    @property
    def total(self) -> Sums:
        """The sum of all leaves, once all are there."""
        (total,) = self.nodes.values()
        return total


def pair_of(problem: Problem, episodes: Episodes, rollouts: Rollouts, pair: Any, *, drawn: bool = True) -> Pair:
    """What `terms` sees of one pair of a batch; or of several, in front of every array, with trajectories up to where
    the longest episode ends, padded. Its directions only where they are `drawn`."""
    steps, paths, end = rollouts.steps.reshape(-1, 2)[pair], rollouts.trajectories, None
    if np.ndim(pair):
        end = padded_length(int(steps.max()), rollouts.rewards.shape[1])
    recorded = vars(paths) if paths is not None else {}
    cut = {name: array.reshape(-1, 2, *array.shape[1:])[pair, :, :end] for name, array in recorded.items()}
    sigma = sigma_of(problem.directions, episodes.shape)
    return Pair(steps=steps, sigma=sigma, **(_drawn(problem, episodes, pair) if drawn else {"eps": None}), **cut)


def _drawn(problem: Problem, episodes: Episodes, pair: Any) -> dict[str, Any]:
    """eps of one pair, or of several in front, and its product with the inverse covariance where that is not 1."""
    directions, shape = problem.directions, episodes.shape
    if np.ndim(pair):
        eps: Any = np.array([directions_of(problem, episodes, int(one)) for one in pair])
    else:
        eps = directions_of(problem, episodes, pair)
    white = shape is None or shape.metric is None
    return {"eps": eps} if white else {"eps": eps, "scored": directions.inverse(np.asarray(eps), shape)}


def forms(estimator: Estimator, problem: Problem) -> bool:
    """Whether the terms of a pair look at its directions as vectors [d]."""
    return not (estimator.needs.linear and problem.directions.factored)


def directions_of(problem: Problem, episodes: Episodes, pair: int) -> tuple[Array, Array]:
    """(eps_plus, eps_minus) of a pair of a batch."""
    assert episodes.paired, "these episodes are of theta itself"
    draw = draw_of(problem.policy, problem.seed, episodes)
    return draw_pair(problem.directions, draw, pair, episodes.shape)


def sum_by_loop(
    estimator: Estimator,
    problem: Problem,
    batch: Batch,
    rows: Rows,
    theta: Array,
    *,
    leaves: range | None = None,
    mapper: Mapper = map,
) -> dict[Node, Sums]:
    """Sums of the pairs of some blocks (all by default), one after the other or short ones together, in float64.
    They are merged as far as whole subtrees go: for all blocks, into one node. `rows` are those of these pairs."""
    cut = blocks(batch.pairs)
    leaves = range(len(cut)) if leaves is None else leaves
    first, good, together = cut[leaves[0]].start, rows.pairs["good"], estimator.needs.together
    drawn = forms(estimator, problem)

    def terms(pair: Any) -> dict[str, Any]:
        seen = pair_of(problem, batch.episodes, batch.rollouts, pair, drawn=drawn)
        return estimator.terms(problem, seen, rows.row(pair - first), theta)

    def block(group: list[int]) -> dict[int, Sums]:
        pairs = [pair for leaf in group for pair in cut[leaf]]
        with np.errstate(all="ignore"):
            each: Iterator[dict[str, Any]] = map(terms, pairs)
            if together:
                found = terms(np.array(pairs))
                each = ({name: values[k] for name, values in found.items()} for k in range(len(pairs)))
            return {leaf: _summed(each, [good[pair - first] for pair in cut[leaf]]) for leaf in group}

    groups = _alike(batch.rollouts.steps, cut, leaves, problem.policy.dim) if together else ([leaf] for leaf in leaves)
    tree = Tree(len(cut))
    with calm():
        for leaf, sums in itertools.chain.from_iterable(part.items() for part in mapper(block, groups)):
            tree.add((0, leaf), sums)
    return tree.nodes


def _alike(steps: Array, cut: list[range], leaves: range, dim: int) -> Iterator[list[int]]:
    """Leaves to be looked at together: of one padded length, and as many as have `TOGETHER` steps of a member. In the
    end some are left, and the last of them is there again and again, so that few shapes are ever compiled."""
    waiting: dict[tuple[int, int], list[int]] = {}
    for leaf in leaves:
        length = padded_length(int(steps[2 * cut[leaf].start : 2 * cut[leaf].stop].max()), TOGETHER)
        kind = length, max(1, min(TOGETHER // length, LARGE // dim) // len(cut[0]))
        waiting.setdefault(kind, []).append(leaf)
        if len(waiting[kind]) == kind[1]:
            yield waiting.pop(kind)
    yield from (group + group[-1:] * (room - len(group)) for (_, room), group in waiting.items())


def _summed(each: Iterator[dict[str, Any]], good: list[bool]) -> Sums:
    """The sum of the next terms, in float64; those of a bad pair count 0, whatever they are."""
    sums: Sums = {}
    for sound, terms in zip(good, each, strict=False):
        for name, term in terms.items():
            if name.startswith(COLLECTED):
                own = np.asarray(term) if sound else np.asarray(term)[:0]
                sums[name] = _joined(name, sums[name], own) if name in sums else own
            else:
                sums.setdefault(name, np.zeros(np.shape(term)))
                if sound:
                    sums[name] += term
    return sums


def _joined(name: str, left: Array, right: Array) -> Array:
    """Two sums as one: added, in place unless they came from elsewhere; or one behind the other, if rows."""
    own = left if left.flags.writeable else None
    return np.concatenate([left, right]) if name.startswith(COLLECTED) else np.asarray(np.add(left, right, out=own))


def sum_by_vmap(estimator: Any, problem: Problem, batch: Batch, rows: Rows, theta: Array) -> Sums:
    """The same sums with all pairs at once in JAX, in its own precision: on an accelerator where there is one."""
    rollouts, paths = batch.rollouts, batch.rollouts.trajectories
    pairs: dict[str, Any] = {"eps": None}
    if forms(estimator, problem):
        with calm():
            pairs = _drawn(problem, batch.episodes, np.arange(batch.pairs))
    pairs["steps"] = rollouts.steps.reshape(-1, 2).astype(np.int32)
    if paths is not None:
        pairs |= {name: a.reshape(-1, 2, *a.shape[1:]) for name, a in vars(paths).items()}
    own, shared = ({name: _single(values) for name, values in part.items()} for part in (rows.pairs, rows.shared))
    sigma = sigma_of(problem.directions, batch.episodes.shape)
    with np.errstate(all="ignore"):
        sums = _mapped(estimator, problem)(pairs, own, shared, theta, sigma)
    return {name: np.asarray(values, np.float64) for name, values in sums.items()}


@functools.lru_cache(maxsize=16)
def _mapped(estimator: Any, problem: Problem) -> Callable[..., Any]:
    """Compiled (pairs, rows, shared, theta, sigma) -> sums over pairs."""
    import jax

    def total(pairs: dict[str, Any], rows: dict[str, Any], shared: dict[str, Any], theta: Any, sigma: Any) -> Any:
        return sum_inside(estimator, problem, pairs, Rows(rows, shared), theta, sigma)

    return jax.jit(total)


def sum_inside(
    estimator: Estimator, problem: Problem, pairs: dict[str, Any], rows: Rows, theta: Any, sigma: Any
) -> dict[str, Any]:
    """The same inside a compiled program; `pairs` holds what a `Pair` does, all pairs in front."""
    import jax
    import jax.numpy as jnp

    def one(pair: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
        terms = estimator.terms(problem, Pair(**pair, sigma=sigma), own | rows.shared, theta, jnp)
        good, nothing = own["good"], jnp.nan
        return {n: jnp.where(good, term, nothing if n.startswith(COLLECTED) else 0.0) for n, term in terms.items()}

    each = jax.vmap(one)(pairs, rows.pairs)
    found = {n: values.reshape(-1, *values.shape[2:]) for n, values in each.items() if n.startswith(COLLECTED)}
    return found | {n: values.sum(axis=0) for n, values in each.items() if n not in found}


def _single(values: Any) -> Any:
    """Arrays as JAX has them: single precision."""
    if isinstance(values, Sequence):
        return type(values)(_single(value) for value in values)  # type: ignore[call-arg]
    array = np.asarray(values)
    return array.astype(np.float32) if array.dtype == np.float64 else array


@contextmanager
def calm() -> Iterator[None]:
    """Around an estimator's arithmetic: no warnings, and matrix products on one thread (for the whole process).

    Overflow in a wild member is found by looking at the result. OpenBLAS's own threads would spin for a tenth of a
    second after a product, on cores that the next episodes need, and a sum split over them depends on their number.
    """
    if getattr(_here, "calm", False):
        yield
        return
    with np.errstate(all="ignore"), _libraries(len(sys.modules)).limit(limits=1, user_api="blas"):
        _here.calm = True
        try:
            yield
        finally:
            _here.calm = False


_here = threading.local()


@functools.lru_cache(maxsize=1)
def _libraries(modules: int) -> ThreadpoolController:
    """All that is loaded; looked up again once more modules are, as SciPy and JAX bring a BLAS of their own."""
    return ThreadpoolController()
