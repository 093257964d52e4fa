"""What every registered kind of directions keeps to."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from strategies import all_of, label

from quell.keys import Purpose
from quell.perturb import Draw, draw_pair
from quell.perturb.qmc import Qmc

KINDS = [*all_of("directions"), Qmc(shift=True)]
RANDOM = [kind for kind in KINDS if kind.sigma > 0 and kind != Qmc()]  # an unshifted Halton sequence draws nothing
everyone = pytest.mark.parametrize("directions", KINDS, ids=label)
random_ones = pytest.mark.parametrize("directions", RANDOM, ids=label)


def pair(directions: Any, pair: int = 1, **address: Any) -> tuple[np.ndarray, np.ndarray]:
    draw = Draw(**{"seed": 3, "iteration": 2, "pairs": 4, "dim": 30, **address})
    plus, minus = draw_pair(directions, draw, pair)
    return plus.copy(), minus.copy()


@random_ones
def test_second_moment_is_the_identity(directions: Any) -> None:
    """E[eps eps'] = I for both members within 5 standard errors, 1/sqrt(n) off the diagonal and sqrt(2/n) on it.

    n = 6,000 iterations, of which one pair each (the pairs of an iteration need not be independent): an error of scale
    of 5% would be 5.5 standard errors.
    """
    sample = np.array([pair(directions, t % 4, iteration=t, dim=6) for t in range(6000)], np.float64)
    for member in (0, 1):
        eps = sample[:, member]
        z = (eps.T @ eps / len(eps) - np.eye(6)) * np.sqrt(len(eps) / (1 + np.eye(6)))
        assert np.abs(z).max() < 5
        assert np.abs(eps.mean(axis=0)).max() * np.sqrt(len(eps)) < 5


@everyone
def test_a_pair_is_symmetric_if_and_only_if_it_says_so(directions: Any) -> None:
    symmetric = [np.array_equal(plus, -minus) for plus, minus in (pair(directions, i) for i in range(4))]
    assert all(symmetric) if directions.symmetric else not any(symmetric)


@everyone
def test_the_same_pair_from_the_same_address(directions: Any) -> None:
    first = pair(directions)
    draw_pair.cache_clear()
    for other in range(4):  # whatever was asked for in between
        pair(directions, other, iteration=5)
    again = pair(directions)
    assert all((a == b).all() and a.dtype == np.float32 for a, b in zip(first, again, strict=True))


@random_ones
@pytest.mark.parametrize(
    "address",
    [{"seed": 4}, {"iteration": 3}, {"pair": 2}, {"purpose": Purpose.MEASURE_DIRECTION}, {"block": (1,)}],
    ids=lambda a: next(iter(a)),
)
def test_other_addresses_have_other_directions(directions: Any, address: dict[str, Any]) -> None:
    assert np.abs(pair(directions)[0] - pair(directions, **address)[0]).max() > 0.1


@random_ones
def test_how_many_blocks_there_are_is_part_of_the_address(directions: Any) -> None:
    drawn = [pair(directions, block=block)[0] for block in ((), (0,), (1,), (0, 1))]
    assert len({eps.tobytes() for eps in drawn}) == 4


@random_ones
def test_sigma_is_not_in_the_directions(directions: Any) -> None:
    """They are drawn for unit variance; theta + sigma eps is said in one place."""
    louder = dataclasses.replace(directions, sigma=7.0)
    assert (pair(louder)[0] == pair(directions)[0]).all()


@random_ones
def test_independent_pairs_do_not_know_how_many_there_are(directions: Any) -> None:
    if not directions.independent:
        pytest.skip("drawn jointly")
    assert (pair(directions, pairs=4)[0] == pair(directions, pairs=9)[0]).all()
