"""Rows by name and as objects, and points."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
from small_point import point

import quell
from quell.commands.variance import Arguments
from quell.errors import UsageError
from quell.estimate import Needs
from quell.estimate.control_variate import ControlVariate
from quell.estimate.control_variate.coefficients import LayerCoefficients
from quell.estimate.control_variate.discount import FixedDiscounts
from quell.estimate.control_variate.discounted import DiscountedColumns
from quell.estimate.es import Es
from quell.measure import METHODS as measured
from quell.measure.points import find_point
from quell.measure.rows import BASES, MODIFIERS, Row, find_row, find_rows, gamma_rows, known_bases
from quell.perturb import Unperturbed
from quell.perturb.gaussian import Gaussian
from quell.perturb.gcmc import Gcmc
from quell.perturb.orthogonal import Orthogonal
from quell.perturb.qmc import Qmc
from quell.presets import METHODS
from quell.registry import help_texts, strategies


def test_names() -> None:
    assert find_row("ortho", 0.3) == Row("ortho", Es(shaping="none"), Orthogonal(sigma=0.3))
    assert find_row("cv-several-ortho-crn", 0.3).sampling == (Orthogonal(sigma=0.3), True)
    assert find_row("cv-qmc", 0.3).directions == Qmc(sigma=0.3, shift=True)
    layered = find_row("cv-layer-gcmc", 0.3)
    assert layered.directions == Gcmc(sigma=0.3)
    assert isinstance(layered.estimator, ControlVariate)
    assert layered.estimator.coefficients == LayerCoefficients()
    assert find_row("pg", 0.3).directions == Unperturbed()
    assert [row.name for row in find_rows(["cv", " es", "cv", ""], 0.3)] == ["es", "cv"]
    (row,) = gamma_rows([0.9])
    assert isinstance(row.estimator, ControlVariate)
    assert row.estimator.columns == DiscountedColumns(baseline="leave-one-out", discount=FixedDiscounts(gammas=(0.9,)))
    for bad in ("ess", "cv-orto"):
        with pytest.raises(UsageError, match="known"):
            find_row(bad, 0.3)
    with pytest.raises(UsageError, match="no perturbations"):
        find_row("pg-ortho", 0.3)


def test_no_row_shapes_returns_by_their_own_batch() -> None:
    for name in known_bases():
        assert getattr(find_row(name, 0.3).estimator, "shaping", "none") in ("none", "past")


@pytest.mark.parametrize("name", METHODS)
def test_a_method_means_the_same_strategies_as_in_training(name: str) -> None:
    """The estimator of the same classes, with what is in it, and the same kind of directions."""
    if name == "det":
        with pytest.raises(UsageError, match="--settings policy deterministic"):
            find_row(name, 0.3)
        return
    row, method = find_row(name, 0.3), METHODS[name]
    assert type(row.directions) is type(method.directions)
    for dotted, part in {"": method.estimator, **strategies(method.estimator)}.items():
        own = {"": row.estimator, **strategies(row.estimator)}[dotted]
        assert type(own) is type(part), dotted


def test_the_help_names_every_estimator_that_is_no_method() -> None:
    text = help_texts(Arguments)["methods"]
    others = [name for name in (*BASES, *MODIFIERS) if name not in METHODS]
    assert all(re.search(rf"[ -]{name}\b", text) for name in others), text
    assert Arguments().methods == ",".join(measured)


def test_objects() -> None:
    mine = ControlVariate(shaping="none")
    rows = find_rows([mine, Row("wide", mine, Gaussian(sigma=1.0))], 0.3)
    assert [row.name for row in rows] == ["es", "control-variate", "wide"]
    assert [row.sampling[0].sigma for row in rows] == [0.3, 0.3, 1.0]
    with pytest.raises(UsageError, match="two estimators are called"):
        find_rows([mine, ControlVariate(shaping="none", coefficients=LayerCoefficients())], 0.3)


def test_untrained_point() -> None:
    where = point()
    assert where.sigma == 0.05
    assert where.action_std == pytest.approx(0.5)
    assert where.where == "init"


def test_trained_point(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"horizon": 5, "steps": 400, "eval_episodes": 1, "policy.hidden": (4,), "seed": 3}
    for method, sigma in (("cv", 0.05), ("pg", 0.02)):
        own = settings | ({"sigma": 0.05} if method == "cv" else {})
        result = quell.train("lqr-302", method=method, out=tmp_path, progress=False, workers=1, **own)
        where = find_point("lqr-302", str(result.path), preset="tuned", seed=0, settings={"pairs": 3})
        assert (where.theta == result.theta).all()
        assert (where.sigma, where.config.pairs, where.config.seed) == (sigma, 3, 0)
        assert where.where.startswith(method)
        louder = find_point("lqr-302", str(result.path), preset="tuned", seed=0, settings={"init_std": 2.0})
        assert louder.action_std == pytest.approx(2)
        assert (louder.theta[:-1] == where.theta[:-1]).mean() > 0.8
        with pytest.raises(UsageError, match="change the parameters"):
            find_point("lqr-302", str(result.path), preset="tuned", seed=0, settings={"policy.hidden": (5,)})
        with pytest.raises(UsageError, match="trained on"):
            find_point("lqr", str(result.path), preset="tuned", seed=0, settings={})
        as_trained = find_point("lqr-302", str(result.path), preset="tuned", seed=0, settings={})
        assert as_trained.config.pairs == result.history[0]["steps"] / 10


def test_an_estimator_says_whether_it_is_biased() -> None:
    @dataclass(frozen=True)
    class Silent:
        name: ClassVar[str] = "silent"
        needs: ClassVar[Needs] = Needs(perturbed=True, trajectories=False)

    with pytest.raises(UsageError, match="'silent' has to say whether it is `biased`"):
        find_rows([Silent()], 0.3)  # type: ignore[list-item]
