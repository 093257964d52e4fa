"""Statistics against hand-computed values, SciPy, closed forms and the paper's own table."""

from __future__ import annotations

import dataclasses
import math
from itertools import combinations

import numpy as np
import pytest
import scipy.stats

from quell import stats
from quell.errors import UsageError
from quell.stats import MeanStd


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_mean_std_by_hand() -> None:
    assert stats.mean_std([1, 2, 3, 6]) == MeanStd(3.0, pytest.approx(math.sqrt(14 / 3)))  # type: ignore[arg-type]
    alone = stats.mean_std([4])
    assert alone.mean == 4
    assert math.isnan(alone.std)


def test_intervals_in_words() -> None:
    assert f"{stats.Interval(0.5, 0.451, 0.549):.2f}" == "0.50 [0.45, 0.55]"


def test_bold_by_hand() -> None:
    results = {"a": MeanStd(10, 2), "b": MeanStd(7, 1), "c": MeanStd(6.9, 1), "d": MeanStd(9, math.nan)}
    assert stats.bold(results) == {"a", "b", "d"}  # b touches at 8, c stops at 7.9
    assert stats.bold({"only": MeanStd(-3, 0)}) == {"only"}
    assert stats.bold({}) == set()


# The paper's main table: mean and std of ES, ORTHO, GCMC, QMC, CV and PG, and what it prints in bold.
METHODS = ("ES", "ORTHO", "GCMC", "QMC", "CV", "PG")
TABLE = {
    "LQR": ("-176 12 -1337 573 -1246 502 -5634 1059 -143 4 -7243 275", "CV"),
    "Swimmer": ("141 20 171 47 94 19 16 2 237 33 -132 5", "CV"),
    "HalfCheetah": ("1339 178 1185 76 1375 58 -3466 338 1897 232 -180 4", "CV"),
    "Walker": ("1155 34 1087 1 360 4 6 0 1476 112 282 25", "CV"),
    "Pong(R)": ("-5.0 0.8 -5.5 0.3 -10.6 0.4 -15.6 0.3 -3.0 0.3 -17 0.2", "CV"),
    "HalfCheetah(R)": ("595 42 685 34 68 8 11 2 709 16 12 0", "ES ORTHO CV"),
    "BipedalWalker": ("25 9 107 31 -19 5 -70 3 105 40 -82 12", "ORTHO CV"),
    "Cheetah(DM)": ("281 15 217 15 129 4 18 5 296 15 25 6", "CV"),
    "Pendulum(DM)": ("20 3 54 17 25 8 11 2 43 1 3 1", "ORTHO CV"),
    "TwoPoles(DM)": ("159 13 158 2 196 12 62 12 245 29 14 1", "CV"),
    "Swingup(DM)": ("394 15 369 22 414 31 67 14 406 26 55 10", "ES ORTHO GCMC CV"),
    "Balance(DM)": ("692 57 771 41 995 1 223 32 847 71 401 12", "GCMC CV"),
    "HopperHop(DM)": ("5.7 2.1 6.8 0.7 0.3 0.1 0.0 0.0 6.5 1.5 0.1 0.0", "ES ORTHO CV"),
    "Stand(DM)": ("21 5 36 10 54 4 1.0 0.2 60 11 0.5 0.1", "GCMC CV"),
    "AntWalk(DM)": ("200 19 234 10 82 11 133 9 239 10 100 11", "ES ORTHO CV"),
    "AntEscape(DM)": ("47 3 52 3 8 2 10 1 51 2 6 1", "ES ORTHO CV"),
}
# Where the print does not follow its own caption: the method, and whether the print has it in bold.
DEPARTURES = {
    "Swimmer": ("ORTHO", False),  # up to 218, CV down to 204
    "HalfCheetah(R)": ("ES", True),  # up to 637, CV down to 693
    "Cheetah(DM)": ("ES", False),  # up to 296, CV down to 281
    "Balance(DM)": ("CV", True),  # up to 918, GCMC down to 994
    "AntWalk(DM)": ("ES", True),  # up to 219, CV down to 229
}


@pytest.mark.parametrize("task", TABLE)
def test_bold_on_the_papers_table(task: str) -> None:
    numbers, printed = TABLE[task]
    values = [float(v) for v in numbers.split()]
    results = {m: MeanStd(*values[2 * i : 2 * i + 2]) for i, m in enumerate(METHODS)}
    expected = set(printed.split())
    if task in DEPARTURES:
        method, in_print = DEPARTURES[task]
        assert (method in expected) == in_print
        expected ^= {method}
    assert stats.bold(results) == expected


def test_iqm_by_hand() -> None:
    assert stats.iqm([1000, 2, 3, 4, 5, 6, 7, -1000]) == 4.5
    assert stats.iqm([1, 2, 9]) == 4, "too few to trim"


@pytest.mark.parametrize("n", [1, 3, 4, 5, 10, 37, 80])
def test_iqm_is_the_quarter_trimmed_mean(n: int) -> None:
    x = rng(n).standard_cauchy(n)
    assert stats.iqm(x) == pytest.approx(scipy.stats.trim_mean(x, 0.25))


def test_iqm_shifts_and_scales() -> None:
    x = rng(1).standard_normal(25)
    assert stats.iqm(3 * x - 2) == pytest.approx(3 * stats.iqm(x) - 2)


def test_iqm_interval_is_stratified() -> None:
    """Constant tasks leave nothing to resample; a bootstrap over pooled scores would mix them."""
    constant = {"a": [1.0] * 5, "b": [2.0] * 5, "c": [9.0] * 5, "d": [10.0] * 5}
    assert stats.iqm_interval(constant, rng()) == stats.Interval(5.5, 5.5, 5.5)


def test_intervals_are_functions_of_their_generator() -> None:
    scores = {"a": [1.0, 2, 3, 5], "b": [2.0, 2, 4]}
    assert stats.iqm_interval(scores, rng(4)) == stats.iqm_interval(scores, rng(4))
    narrow, wide = (stats.iqm_interval(scores, rng(4), level=level) for level in (0.5, 0.95))
    assert wide.low < narrow.low < narrow.high < wide.high


def test_probability_of_improvement_by_hand() -> None:
    x, y = {"a": [1, 2], "b": [5, 5, 5]}, {"a": [0, 2, 3], "b": [5]}
    # a: 1 beats 0; 2 beats 0 and ties 2: 2.5 of 6. b: all ties.
    result = stats.probability_of_improvement(x, y)
    assert result.value == pytest.approx((2.5 / 6 + 0.5) / 2)
    assert result.low < result.value < result.high


def test_probability_of_improvement_extremes_and_symmetry() -> None:
    """Five seeds all above five others are like five throws that all came up heads."""
    better, worse = [5, 6, 7, 8, 9], [0, 1, 2, 3, 4]
    lowest = float(scipy.stats.beta.ppf(0.025, 5.5, 0.5))
    for x, y, expected in ((better, worse, (1, lowest, 1)), (worse, better, (0, 0, 1 - lowest))):
        found = stats.probability_of_improvement({"a": x}, {"a": y})
        assert dataclasses.astuple(found) == pytest.approx(expected)
    own, other = ({"a": rng(i).integers(0, 5, 9), "b": rng(i + 9).integers(0, 5, 7)} for i in (1, 2))
    there, back = (stats.probability_of_improvement(*pair) for pair in ((own, other), (other, own)))
    assert (there.value, there.low, there.high) == pytest.approx((1 - back.value, 1 - back.high, 1 - back.low))


def test_probability_of_improvement_is_mann_whitney() -> None:
    x, y = rng(1).integers(0, 9, 20), rng(2).integers(0, 12, 15)
    u = scipy.stats.mannwhitneyu(x, y).statistic
    result = stats.probability_of_improvement({"t": x}, {"t": y})
    assert result.value == pytest.approx(u / (20 * 15))


def test_single_seeds_are_single_throws() -> None:
    """Their spread is not known, so over four tasks they count as four throws."""
    x, y = ({task: [value] for task in "abcd"} for value in (1, 0))
    y["d"] = [2]
    found = stats.probability_of_improvement(x, y)
    expected = (0.75, *scipy.stats.beta.ppf([0.025, 0.975], 3.5, 1.5))
    assert dataclasses.astuple(found) == pytest.approx(expected)


def test_an_interval_is_narrower_where_seeds_say_so() -> None:
    """Where P differs between tasks that are each decided, its mean varies less than throws of one coin do."""
    x = {"a": [5.0, 6, 7, 8, 9], "b": [0.0, 1, 2, 3, 4]}
    y = {"a": [0.5, 1.5, 2.5, 3.5, 4.5], "b": [5.5, 6.5, 7.5, 8.5, 9.5]}
    decided, coin = stats.probability_of_improvement(x, y), scipy.stats.beta.ppf([0.025, 0.975], 5.5, 5.5)
    assert decided.value == 0.5
    assert coin[0] < decided.low < decided.high < coin[1]


@pytest.mark.parametrize(
    ("x", "y"),
    [
        ([0, 0, 0, 1], [1, 1, 2, 2]),
        ([3.0, 4.0, 5.0, 6.0, 7.0], [0.0, 1.0, 2.0, 3.5, 5.5]),
        ([5] * 9 + [4], [5, 5, 5, 5, 5, 5, 5, 3, 2, 1]),
        ([1, 1, 2], [2, 3, 3, 3, 4]),
        ([1, 2, 3, 4, 5], [3, 3]),
    ],
)
def test_the_rank_test_is_exact_with_ties(x: list[float], y: list[float]) -> None:
    """Beside every split of the scores, by name."""
    both, count = np.array([*x, *y]), len(x)
    ranks = scipy.stats.rankdata(both)
    splits = np.array([sum(ranks[list(chosen)]) for chosen in combinations(range(len(both)), count)])
    own = ranks[:count].sum()
    tails = (splits <= own + 1e-9).mean(), (splits >= own - 1e-9).mean()
    assert stats.rank_test(x, y) == pytest.approx(min(1, 2 * min(tails)))
    assert stats.rank_test(y, x) == pytest.approx(stats.rank_test(x, y))


def test_the_rank_test_is_scipys() -> None:
    """Without ties, and where there are too many scores to count all splits."""
    for count in (4, 7, 40):
        x, y = rng(count).standard_normal(count) + 0.5, rng(count + 1).standard_normal(count + 1)
        assert stats.rank_test(x, y) == pytest.approx(scipy.stats.mannwhitneyu(x, y, method="exact").pvalue)
    many = rng(1).integers(0, 9, 100), rng(2).integers(0, 10, 100)
    assert stats.rank_test(*many) == pytest.approx(scipy.stats.mannwhitneyu(*many, method="asymptotic").pvalue)


def test_ties_alone_make_no_verdict() -> None:
    """The normal approximation has p = 0.047 here; of the 70 splits six are as extreme."""
    x, y = [0, 0, 0, 1], [1, 1, 2, 2]
    assert scipy.stats.mannwhitneyu(x, y).pvalue < 0.05
    assert stats.rank_test(x, y) == pytest.approx(6 / 70)
    assert stats.verdict(x, y)[1] == stats.UNRESOLVED


@pytest.mark.parametrize("count", [4, 5])
def test_verdict_and_interval_agree(count: int) -> None:
    """Four or five seeds each: the interval leaves 1/2 out exactly where the test speaks, whatever the order."""
    for chosen in combinations(range(2 * count), count):
        chance, said = stats.verdict(list(chosen), [i for i in range(2 * count) if i not in chosen])
        assert chance is not None
        assert (said == "above") == (chance.low > 0.5), chance
        assert (said == "below") == (chance.high < 0.5), chance


def test_area_under_curve_by_hand() -> None:
    assert stats.area_under_curve([0, 10, 40], [0, 2, 4]) == pytest.approx((10 * 1 + 30 * 3) / 40)
    assert stats.area_under_curve([5, 6, 100], [3, 3, 3]) == pytest.approx(3)


def test_area_under_a_straight_line_ignores_where_it_was_logged() -> None:
    steps = np.concatenate([[0], np.sort(rng(3).uniform(0, 1e6, 50)), [1e6]])
    assert stats.area_under_curve(steps, 2e-6 * steps + 1) == pytest.approx(2)


def test_area_under_curve_has_the_trapezoid_rate() -> None:
    """On x² over [0, 1] the rule exceeds 1/3 by exactly h²/6."""
    for intervals in (4, 10):
        x = np.linspace(0, 1, intervals + 1)
        assert stats.area_under_curve(x, x**2) == pytest.approx(1 / 3 + 1 / (6 * intervals**2))


def test_refusals() -> None:
    for scores in ([], [1, math.nan], [1, math.inf], [[1, 2]]):
        with pytest.raises(UsageError, match="finite"):
            stats.mean_std(scores)
    with pytest.raises(UsageError, match="no scores"):
        stats.iqm_interval({}, rng())
    with pytest.raises(UsageError, match="level"):
        stats.iqm_interval({"a": [1, 2]}, rng(), level=95)
    with pytest.raises(UsageError, match="same tasks"):
        stats.probability_of_improvement({"a": [1]}, {"b": [1]})
    with pytest.raises(UsageError, match="as many"):
        stats.area_under_curve([0, 1], [1, 2, 3])
    with pytest.raises(UsageError, match="increase"):
        stats.area_under_curve([0, 1, 1], [1, 2, 3])


def test_spread_is_the_standard_deviation_of_what_is_finite() -> None:
    x = rng(1).standard_normal(20)
    assert stats.spread(x) == pytest.approx(x.std())
    assert stats.spread(x, ddof=1) == pytest.approx(x.std(ddof=1))
    assert stats.spread([*x, math.nan, math.inf]) == pytest.approx(x.std())
    assert stats.spread(1e300 * x) == pytest.approx(1e300 * x.std()), "squares would overflow"
    assert stats.spread([3.0, 3.0]) == stats.spread([0.0]) == 0
    assert math.isnan(stats.spread([]))
    assert math.isnan(stats.spread([1.0], ddof=1))


def test_t_interval_is_scipys() -> None:
    x = rng(2).standard_normal(7)
    low, high = scipy.stats.t.interval(0.95, 6, x.mean(), x.std(ddof=1) / math.sqrt(7))
    assert dataclasses.astuple(stats.t_interval(x)) == pytest.approx((x.mean(), low, high))


def test_percentile_interval_passes_over_what_is_not_finite() -> None:
    x = np.arange(101.0)
    found = stats.percentile_interval(7.0, [*x, math.nan, math.inf])
    assert dataclasses.astuple(found) == pytest.approx((7.0, 2.5, 97.5))
    nothing = stats.percentile_interval(7.0, [math.nan])
    assert math.isnan(nothing.low)
    assert math.isnan(nothing.high)


def test_a_verdict_needs_seeds_enough_to_rule_out_chance() -> None:
    low, high = [1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]
    assert stats.verdict(high, low)[1] == "above"
    assert stats.verdict(low, high)[1] == "below"
    assert stats.verdict(high[:2], [*low, 4.5])[1] == "too few seeds", "one order of 21 on each side"
    assert stats.verdict(high[:3], low[:3])[1] == "too few seeds"
    assert stats.verdict(high[:3], [*low, 4.5])[1] == "above"
    assert stats.verdict([1.0, 5.0, 3.5, 7.0], low)[1] == stats.UNRESOLVED
    assert stats.verdict([1.0] * 5, [1.0] * 5)[1] == stats.UNRESOLVED
    assert stats.verdict([1.0], low) == (None, "too few seeds")
    chance, _ = stats.verdict(high, low)
    assert chance == stats.probability_of_improvement({"": high}, {"": low})
