"""Sums of pairs' terms whose rounding does not depend on who computed which part.

Floating-point addition is not associative, so the order is fixed: pairs are cut into at most 1024 consecutive blocks, a
block is summed in pair order, and blocks are added along a binary tree. Any number of threads or machines that compute
whole blocks get the same bits, and whoever holds whole subtrees may add them up before sending them on.
"""

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from quell.estimate import Estimator, Problem, Rows
from quell.perturb import Draw, draw_pair
from quell.types import Array, Batch, Episodes, Pair, Rollouts, Sums

Node = tuple[int, int]  # (level, index): the sum of leaves index * 2^level to (index + 1) * 2^level - 1
Mapper = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]

COLLECTED = "collected."
"""Terms whose names begin so are rows that pairs hand over: put one behind the other, in the order of pairs."""
LEAVES = 1024  # also the largest number of workers that can share an iteration


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


def pair_of(problem: Problem, episodes: Episodes, rollouts: Rollouts, pair: int) -> Pair:
    """What `terms` sees of one pair of a batch."""
    rows = slice(2 * pair, 2 * pair + 2)
    paths = rollouts.trajectories
    recorded = (paths.obs[rows], paths.actions[rows]) if paths is not None else ()
    return Pair(directions_of(problem, episodes, pair), rollouts.steps[rows], *recorded)


def directions_of(problem: Problem, episodes: Episodes, pair: int) -> tuple[Array, Array]:
    """(eps_plus, eps_minus) of a pair of a batch."""
    purpose = episodes.stream.value[2]
    assert purpose is not None, "these episodes are of theta itself"
    draw = Draw(problem.seed, episodes.iteration, episodes.pairs, problem.policy.dim, purpose, episodes.block)
    return draw_pair(problem.directions, draw, pair)


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
    """Sums of the pairs of some blocks (all of them by default), one pair after the other, in float64. They are merged
    as far as whole subtrees go: for all blocks, into one node. `rows` are those of these pairs."""
    cut = blocks(batch.pairs)
    leaves = range(len(cut)) if leaves is None else leaves
    first = cut[leaves[0]].start

    def block(leaf: int) -> Sums:
        sums: Sums = {}
        with np.errstate(all="ignore"):
            for number in cut[leaf]:
                pair, row = pair_of(problem, batch.episodes, batch.rollouts, number), rows.row(number - first)
                _accumulate(sums, estimator.terms(problem, pair, row, theta), good=bool(row["good"]))
        return sums

    tree = Tree(len(cut))
    with calm():
        for leaf, sums in zip(leaves, mapper(block, leaves), strict=True):
            tree.add((0, leaf), sums)
    return tree.nodes


def _accumulate(sums: Sums, terms: dict[str, Any], *, good: bool) -> None:
    """Add terms in place, in float64; those of a bad pair count 0, whatever they are."""
    for name, term in terms.items():
        if name.startswith(COLLECTED):
            own = np.asarray(term) if good else np.asarray(term)[:0]
            sums[name] = _joined(name, sums[name], own) if name in sums else own
        else:
            sums.setdefault(name, np.zeros(np.shape(term)))
            if good:
                sums[name] += term


def _joined(name: str, left: Array, right: Array) -> Array:
    """Two sums as one: added, in place unless they came from elsewhere; or one behind the other, if rows."""
    own = left if left.flags.writeable else None
    return np.concatenate([left, right]) if name.startswith(COLLECTED) else np.asarray(np.add(left, right, out=own))


def sum_by_vmap(estimator: Any, problem: Problem, batch: Batch, rows: Rows, theta: Array) -> Sums:
    """The same sums with all pairs at once in JAX, in its own precision: on an accelerator where there is one."""
    rollouts, paths = batch.rollouts, batch.rollouts.trajectories
    eps = np.array([directions_of(problem, batch.episodes, pair) for pair in range(batch.pairs)])
    pairs: dict[str, Any] = {"eps": eps, "steps": rollouts.steps.reshape(-1, 2).astype(np.int32)}
    if paths is not None:
        pairs |= {name: a.reshape(-1, 2, *a.shape[1:]) for name, a in vars(paths).items()}
    own, shared = ({name: _single(values) for name, values in part.items()} for part in (rows.pairs, rows.shared))
    with np.errstate(all="ignore"):
        sums = _mapped(estimator, problem)(pairs, own, shared, theta)
    return {name: np.asarray(values, np.float64) for name, values in sums.items()}


@functools.lru_cache(maxsize=16)
def _mapped(estimator: Any, problem: Problem) -> Callable[..., Any]:
    """Compiled (pairs, rows, shared, theta) -> sums over pairs."""
    import jax
    import jax.numpy as jnp

    def one(pair: dict[str, Any], row: dict[str, Any], shared: dict[str, Any], theta: Any) -> dict[str, Any]:
        terms = estimator.terms(problem, Pair(**pair), row | shared, theta, jnp)
        good, nothing = row["good"], jnp.nan
        return {n: jnp.where(good, term, nothing if n.startswith(COLLECTED) else 0.0) for n, term in terms.items()}

    def total(pairs: dict[str, Any], rows: dict[str, Any], shared: dict[str, Any], theta: Any) -> dict[str, Any]:
        terms = jax.vmap(one, in_axes=(0, 0, None, None))(pairs, rows, shared, theta)
        rows = {n: values.reshape(-1, *values.shape[2:]) for n, values in terms.items() if n.startswith(COLLECTED)}
        return rows | {n: values.sum(axis=0) for n, values in terms.items() if n not in rows}

    return jax.jit(total)


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
    with np.errstate(all="ignore"), _controller().limit(limits=1, user_api="blas"):
        yield


_controller = functools.cache(ThreadpoolController)
