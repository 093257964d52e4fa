"""What is measured: estimators with their directions, by name or as objects."""

import dataclasses
import functools
from collections.abc import Iterable
from typing import Any

from quell.errors import UsageError, did_you_mean
from quell.estimate import Estimator
from quell.estimate.es import Es
from quell.perturb import Kind, Unperturbed
from quell.perturb.gaussian import Gaussian
from quell.presets import METHODS
from quell.registry import make, name_of, replace, table
from quell.types import Batch, State

PLAIN = {"baseline": "leave-one-out", "discount": "fixed"}
CV = make("estimator", "control-variate", {"shaping": "none", "columns": PLAIN, "coefficients": "moments"})
PAPER = replace(METHODS["cv"].estimator, {"shaping": "none"})
SEVERAL = {"columns.discount.gammas": (1.0, 0.99), "coefficients": "layers"}
PG = make("estimator", "policy-gradient", {"gamma": 1.0, "baseline": "leave-one-out", "shaping": "none"})
BASES: dict[str, tuple[str, Estimator]] = {
    "es": ("plain ES", Es(shaping="none")),
    "re": ("the policy gradient of the perturbed members alone", replace(CV, {"coefficients": "fixed"})),
    "cv": ("the paper's CV: eta by SGD, gamma 0.99", PAPER),
    "cv-moments": ("CV with eta from running moments, gamma 1, leave-one-out baseline", CV),
    "cv-layer": ("the same with one eta per layer", replace(CV, {"coefficients": "layers"})),
    "cv-several": ("the same with two discounts, gamma 1 and 0.99", replace(CV, SEVERAL)),
    "natural-cv": ("the default's: CV with a critic's advantages, in a step's metric", METHODS["natural-cv"].estimator),
    "pg": ("policy gradient at theta, without perturbations", PG),
    "actor-critic": ("the same with a critic's advantages", make("estimator", "actor-critic", {"shaping": "none"})),
}
"""Name -> (summary, estimator). Returns are as they are: to shape them by their own batch would bias every estimate."""
MODIFIERS = {
    **{"ortho": make("directions", "orthogonal"), "gcmc": make("directions", "gcmc")},
    **{"qmc": make("directions", "qmc", {"shift": True}), "crn": None},
}
"""Appended with a dash (cv-ortho, es-crn), or alone, to ES -> directions, or None for shared action noise."""
DETERMINISTIC = "det"
"""The method that differs from ES in its policy, which is the point's here."""
SGD_UPDATES = 200  # the paper's rule needs about this many iterations to settle


@dataclasses.dataclass(frozen=True)
class Row:
    """One estimator to measure, on one kind of directions and action noise.

    Directions that are None are ES's own: independent Gaussian ones with the point's sigma, or none at all for an
    estimator that takes none.
    """

    name: str
    estimator: Estimator
    directions: Kind | None = None
    shared_noise: bool = False
    updates: int = 0  # replay the warm-up until the estimator has learned from this many batches

    @property
    def sampling(self) -> tuple[Kind, bool]:
        """Rows with the same directions and action noise are measured on the same episodes."""
        assert self.directions is not None, "they are put in place by `at`"
        return self.directions, self.shared_noise

    @property
    def biased(self) -> bool:
        """Whether the estimator or its directions declare that the mean is not the gradient."""
        return bool(self.estimator.biased or getattr(self.directions, "biased", False))

    @property
    def learns(self) -> bool:
        return type(self.estimator) is not Es

    def at(self, sigma: float) -> "Row":
        """The row with its directions in place."""
        if self.directions is not None:
            return self
        directions = Gaussian(sigma=sigma) if self.estimator.needs.perturbed else Unperturbed()
        return dataclasses.replace(self, directions=directions)


@functools.cache
def known_bases() -> dict[str, Estimator]:
    """What a row may be named after: BASES, then every other method's estimator, then every other estimator with its
    defaults. Methods that are ES with other directions are MODIFIERS."""
    estimators: dict[str, Estimator] = {name: cls() for name, cls in table("estimator").items()}
    methods = {name: method.estimator for name, method in METHODS.items() if name not in (*MODIFIERS, DETERMINISTIC)}
    others = {name: _unshaped(estimator) for name, estimator in {**estimators, **methods}.items() if name not in BASES}
    return {**{name: estimator for name, (_, estimator) in BASES.items()}, **others}


def _unshaped(estimator: Estimator) -> Estimator:
    """The same with returns as they are, unless what divides them comes from past batches."""
    if getattr(estimator, "shaping", "past") == "past":
        return estimator
    unshaped: Estimator = replace(estimator, {"shaping": "none"})
    return unshaped


def find_row(name: str, sigma: float) -> Row:
    """`base`, `modifier`, or `base-modifier-...`, with perturbations of size sigma; a base is one of `known_bases`."""
    bases = known_bases()
    if name == DETERMINISTIC:
        raise UsageError(f"{name} is ES on a deterministic policy: measure es with `--settings policy deterministic`")
    base = max((base for base in bases if f"{name}-".startswith(f"{base}-")), key=len, default="")
    rest, base = name.removeprefix(base).strip("-"), base or "es"
    row = Row(name, bases[base], updates=SGD_UPDATES if base == "cv" else 0).at(sigma)
    for modifier in filter(None, rest.split("-")):
        if modifier not in MODIFIERS:
            known, listed = [*bases, *MODIFIERS], ", ".join([*bases, *MODIFIERS])
            raise UsageError(f"unknown estimator {name!r}{did_you_mean(name, known)}; known: {listed}, joined by '-'")
        if (directions := MODIFIERS[modifier]) is None:
            row = dataclasses.replace(row, shared_noise=True)
        elif not row.estimator.needs.perturbed:
            raise UsageError(f"{name!r}: {base} takes no perturbations, so -{modifier} changes nothing")
        else:
            row = dataclasses.replace(row, directions=replace(directions, {"sigma": sigma}))
    return row


def find_rows(methods: Iterable[str | Row | Estimator | Kind], sigma: float, needed: Iterable[str] = ()) -> list[Row]:
    """Rows in the order given, ES first and always there: everything is measured against it; last, what is `needed`.

    A method is a name, a Row, or an estimator, which is then called as it calls itself; directions alone mean ES.
    """
    rows: dict[str, Row] = {"es": find_row("es", sigma)}
    for method in methods:
        if isinstance(method, str) and not method.strip():
            continue
        if isinstance(method, str):
            row = find_row(method.strip(), sigma)
        else:
            row = _row_of(method, sigma)
            if not hasattr(row.estimator, "biased"):
                raise UsageError(f"estimator {row.name!r} has to say whether it is `biased` (True or False)")
        if rows.setdefault(row.name, row) != row:
            raise UsageError(f"two estimators are called {row.name!r}: give each a name with Row(name, estimator)")
    rows |= {name: find_row(name, sigma) for name in needed if name not in rows}
    return list(rows.values())


def _row_of(given: Any, sigma: float) -> Row:
    if isinstance(given, Row):
        return given.at(sigma)
    if callable(getattr(given, "plus", None)):  # directions
        return Row(name_of(given), Es(shaping="none"), replace(given, {"sigma": sigma}))
    return Row(name_of(given), given).at(sigma)


def unit(estimator: Estimator, batch: Batch, state: State) -> float:
    """What an estimator divides returns by, if it has a method `unit`; its gradients are multiplied by that."""
    own = getattr(estimator, "unit", None)
    return float(own(batch, state)) if callable(own) else 1.0


def gamma_rows(values: Iterable[float]) -> list[Row]:
    """CV by moments at several discounts."""
    return [Row(f"cv-moments gamma={value:g}", replace(CV, {"columns.discount.gammas": (value,)})) for value in values]
