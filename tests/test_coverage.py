"""How often 95% intervals hold the truth, by simulation: every kind of interval that pages print.

What is demanded is 93%, less three standard errors of the simulation; the intervals before fell to 60% and below where
one method is nearly always ahead. Whole simulations are slow tests, smaller ones run with every change.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.stats import norm
from scipy.stats import t as student

from quell import stats
from quell.types import Array

WANTED = 0.93
CHANCES = (0.5, 0.76, 0.92, 0.99)
GRID = (np.arange(2000) + 0.5) / 2000


@dataclass(frozen=True)
class Shape:
    """A distribution of scores, by its quantiles."""

    quantile: Callable[[Array], Array]

    def draw(self, rng: np.random.Generator, size: tuple[int, ...]) -> Array:
        return self.quantile(rng.random(size))


def gauss(scale: float) -> Shape:
    return Shape(lambda q: scale * norm.ppf(q))


def skewed(sign: float) -> Shape:
    return Shape(lambda q: sign * np.exp(norm.ppf(q if sign > 0 else 1 - q)))


PAIRS = {
    "equal spreads": (gauss(1), gauss(1)),
    "the better three times as wide": (gauss(3), gauss(1)),
    "the better ten times as wide": (gauss(10), gauss(1)),
    "the worse ten times as wide": (gauss(1), gauss(10)),
    "exponential": (Shape(lambda q: -np.log1p(-q)),) * 2,
    "skewed alike": (skewed(1), skewed(1)),
    "skewed apart": (skewed(-1), skewed(1)),
    "heavy tails": (Shape(lambda q: student.ppf(q, 2)),) * 2,
}


def shift(pair: tuple[Shape, Shape], chance: float) -> float:
    """By how much the first must be better to be above the second with this probability."""
    own, theirs = (shape.quantile(GRID) for shape in pair)
    return float(np.quantile(theirs[:, None] - own, chance))


def share(hits: float, repeats: int) -> None:
    assert hits / repeats >= WANTED - 3 * math.sqrt(WANTED * (1 - WANTED) / repeats), f"{hits / repeats:.1%}"


def held(found: stats.Interval, truth: float) -> bool:
    return found.low <= truth + 1e-12 and truth <= found.high + 1e-12


def holds(own: Array, theirs: Array, truth: float) -> float:
    """In how many repeats [repeats, seeds] the interval of P holds the truth; it depends on the order alone."""
    known: dict[bytes, bool] = {}
    hits = 0
    for x, y in zip(own, theirs, strict=True):
        order = np.sign(np.sort(x)[:, None] - np.sort(y)).astype(np.int8).tobytes()
        if order not in known:
            known[order] = held(stats.probability_of_improvement({"": x}, {"": y}), truth)
        hits += known[order]
    return hits


def seeds(pair: tuple[Shape, Shape], chance: float, repeats: int, count: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(count)
    own, theirs = (shape.draw(rng, (repeats, count)) for shape in pair)
    return own + shift(pair, chance), theirs


@pytest.mark.parametrize("chance", CHANCES)
@pytest.mark.parametrize("name", ["equal spreads", "the worse ten times as wide", "skewed apart"])
def test_five_seeds_against_five(name: str, chance: float) -> None:
    share(holds(*seeds(PAIRS[name], chance, 4000, 5), chance), 4000)


@pytest.mark.parametrize("chance", CHANCES)
def test_ten_seeds_against_ten(chance: float) -> None:
    share(holds(*seeds(PAIRS["equal spreads"], chance, 1000, 10), chance), 1000)


@pytest.mark.slow
@pytest.mark.parametrize("count", [5, 10])
@pytest.mark.parametrize("name", PAIRS)
def test_seeds_of_every_shape(name: str, count: int) -> None:
    for chance in CHANCES:
        share(holds(*seeds(PAIRS[name], chance, 20_000, count), chance), 20_000)


@pytest.mark.parametrize("count", [5, 10])
def test_seeds_that_solve_a_task_or_do_not(count: int) -> None:
    """Scores with a highest value: one method always solves, the other with probability 2 (1 - P); ties count half."""
    for chance in CHANCES:
        rng = np.random.default_rng(0)
        theirs = (rng.random((4000, count)) < 2 * (1 - chance)).astype(float)
        share(holds(np.ones((4000, count)), theirs, chance), 4000)


@pytest.mark.parametrize("count", [5, 10])
def test_the_hardest_seeds(count: int) -> None:
    """One method's seeds are all equal, the other's are above or below them as a coin falls: then P has the largest
    variance there can be, of as many throws as there are seeds, and intervals hold it 90% of the time at least.
    """
    for chance in CHANCES:
        rng = np.random.default_rng(0)
        own = np.where(rng.random((4000, count)) < chance, 1.0, -1.0)
        assert holds(own, np.zeros((4000, count)), chance) / 4000 > 0.90 - 3 * math.sqrt(0.1 * 0.9 / 4000)


def pooled(name: str, chances: Array, repeats: int, count: int) -> None:
    """P averaged over tasks."""
    rng, pair, hits = np.random.default_rng(1), PAIRS[name], 0
    better = np.array([shift(pair, chance) for chance in chances])
    for _ in range(repeats):
        own, theirs = (shape.draw(rng, (len(chances), count)) for shape in pair)
        found = stats.probability_of_improvement(dict(enumerate(own + better[:, None])), dict(enumerate(theirs)))  # type: ignore[arg-type]
        hits += held(found, float(chances.mean()))
    share(hits, repeats)


TASKS = {
    "level": np.full(22, 0.5),
    "of all kinds": (np.arange(22) + 0.5) / 22,
    "mostly decided": np.where(np.arange(22) % 4 == 0, 0.6, 0.995),
    "decided": np.full(22, 0.99),
    "two tasks": np.array([0.6, 0.92]),
}


@pytest.mark.parametrize("kind", ["of all kinds", "decided"])
def test_tasks_together(kind: str) -> None:
    pooled("equal spreads", TASKS[kind], 300, 5)


@pytest.mark.slow
@pytest.mark.parametrize("count", [3, 5])
@pytest.mark.parametrize("kind", TASKS)
def test_intervals_over_several_tasks_hold(kind: str, count: int) -> None:
    for name in ("equal spreads", "the better three times as wide", "skewed alike"):
        pooled(name, TASKS[kind], 2000, count)


def test_means_of_gaussian_seeds() -> None:
    draws = np.random.default_rng(3).standard_normal((3000, 5))
    share(sum(held(stats.t_interval(x), 0.0) for x in draws), 3000)


def test_differences_of_five_seeds() -> None:
    """What the paper's tables state of Student's interval, of which nothing is resampled."""
    rng, held_in = np.random.default_rng(5), {}
    for name, shape in {
        "gauss": gauss(1),
        "heavy": PAIRS["heavy tails"][0],
        "exponential": PAIRS["exponential"][0],
    }.items():
        truth = 1.0 if name == "exponential" else 0.0
        draws = shape.draw(rng, (20_000, 5))
        half = student.ppf(0.975, 4) * draws.std(axis=1, ddof=1) / math.sqrt(5)
        held_in[name] = float((np.abs(draws.mean(axis=1) - truth) <= half).mean())
        found = stats.t_interval(draws[0])
        assert found.high - found.value == pytest.approx(half[0])
    assert held_in["gauss"] == pytest.approx(0.95, abs=0.005)
    assert held_in["heavy"] > 0.955
    assert held_in["exponential"] == pytest.approx(0.88, abs=0.008)


@pytest.mark.parametrize("spreads", [np.ones(10), np.geomspace(0.01, 10, 10)], ids=["alike", "one task decides"])
def test_mean_differences_over_tasks(spreads: Array) -> None:
    """With three seeds and one task that decides, what is left is Student's interval of two degrees of freedom."""
    rng, hits = np.random.default_rng(6), 0
    for draws in rng.standard_normal((2000, 10, 3)) * spreads[:, None]:
        hits += held(stats.mean_over_tasks(dict(enumerate(draws))), 0.0)  # type: ignore[arg-type]
    share(hits, 2000)


def test_mean_differences_by_hand() -> None:
    """One task: Student's. Two with variance 1 of three seeds each: four degrees of freedom, error sqrt(2/3)/2."""
    one = np.array([1.0, 2.0, 3.0])
    assert stats.mean_over_tasks({"a": one}).high == pytest.approx(stats.t_interval(one).high)
    both = stats.mean_over_tasks({"a": one, "b": one + 10})
    assert both.value == pytest.approx(7)
    assert both.high - 7 == pytest.approx(student.ppf(0.975, 4) * math.sqrt(2 / 3) / 2)


@pytest.mark.parametrize("kind", ["level", "of all kinds", "decided", "two tasks"])
def test_shares_of_seeds_won(kind: str) -> None:
    """Seeds against the same seeds: coin throws, of another coin on each task."""
    rng, hits, chances = np.random.default_rng(7), 0, TASKS[kind]
    for draws in rng.random((2000, len(chances), 5)) < chances[:, None]:
        hits += held(stats.share_won(dict(enumerate(draws.astype(float)))), float(chances.mean()))  # type: ignore[arg-type]
    share(hits, 2000)


def test_the_best_of_equal_methods() -> None:
    """1/sqrt(pi) of two and 3/(2 sqrt(pi)) of three in closed form; of nine by simulation, to 1%."""
    assert stats.expected_best(1) == pytest.approx(0, abs=1e-12)
    assert stats.expected_best(2) == pytest.approx(1 / math.sqrt(math.pi), abs=1e-9)
    assert stats.expected_best(3) == pytest.approx(1.5 / math.sqrt(math.pi), abs=1e-9)
    drawn = np.random.default_rng(8).standard_normal((100_000, 9)).max(axis=1).mean()
    assert stats.expected_best(9) == pytest.approx(drawn, rel=0.01)
    assert stats.expected_best(9) == pytest.approx(1.48501, abs=1e-5)


@pytest.mark.parametrize("count", [3, pytest.param(5, marks=pytest.mark.slow)])
def test_interquartile_means_of_few_seeds(count: int) -> None:
    """Sixteen tasks. A bootstrap that draws as many seeds as there are holds it in 88% of cases with three seeds."""
    rng, hits, repeats = np.random.default_rng(4), 0, 500
    for _ in range(repeats):
        draws = rng.standard_normal((16, count))
        found = stats.iqm_interval(dict(enumerate(draws)), rng, resamples=300)  # type: ignore[arg-type]
        hits += held(found, 0.0)
    share(hits, repeats)


def test_the_power_that_pages_state() -> None:
    """P of a verdict between Gaussian seeds, five against five; 252 orders have as many verdicts."""
    rng, known, found = np.random.default_rng(0), {}, []
    for distance in (1, 2, 3):
        hits = 0
        for x, y in zip(rng.standard_normal((20_000, 5)) + distance, rng.standard_normal((20_000, 5)), strict=True):
            order = (np.argsort(np.concatenate([x, y])) < 5).tobytes()
            if order not in known:
                known[order] = stats.rank_test(x, y) <= stats.LEVEL
            hits += known[order]
        found.append(hits / 20_000)
    assert found == pytest.approx([0.207, 0.677, 0.952], abs=0.01)
    assert all(f"{part}%" in stats.POWER for part in (21, 68, 95))
