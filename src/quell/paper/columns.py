"""Columns that the paper does not have: a method with other settings, named in a record's label."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from quell import presets
from quell.config import Config
from quell.presets import CUSTOM
from quell.runs.record import Record


@dataclass(frozen=True)
class Column:
    """A method, the settings that differ from the preset's, and what stands above it."""

    title: str
    method: str
    settings: Mapping[str, Any]


_SHAPED = {"directions": "fisher", "step": "natural"}
SHAPED = {
    "cv-moments": Column("CV, moments", "cv", {"coefficients": "moments"}),
    "cv-moments-1": Column("CV, moments, gamma 1", "cv", {"coefficients": "moments", "discount": "fixed"}),
    "es-fisher": Column("ES, fisher, natural", "es", _SHAPED),
    "cv-fisher": Column(
        "CV, moments, gamma 1, fisher, natural", "cv", {**_SHAPED, "coefficients": "moments", "discount": "fixed"}
    ),
}
"""Coefficients in closed form at the same Adam step, with the paper's discount and with the best one; and directions
shaped by the policy's Fisher matrix, which need the natural step that knows it, beside ES on the same."""

RUNAWAY = {
    "pg-baseline": Column("PG, baseline", "pg", {"baseline": "leave-one-out"}),
    "pg-slow": Column("PG, Adam 0.001", "pg", {"step.lr": 0.001}),
    "pg-std": Column("PG, std kept", "pg", {"policy.learn_std": False}),
    "pg-clip": Column("PG, actions clipped", "pg", {"policy.actions": "clip"}),
}
"""PG with one thing changed: what its runaway needs."""

ETA_RATES = ("1e-3", "1e-4", "1e-5")
GAMMA_RATES = ("1e-4", "1e-5", "0")
"""Of the paper's three rates and a constant discount (0): 1e-6 moves gamma by no more than 0.001 in 2,000 updates, the
paper's budget, which is as good as constant."""


def _of_rates(eta: str, gamma: str) -> Column:
    constant = {"discount": "fixed", "discount.gammas": (0.99,)}
    discount = {"discount.rate": float(gamma)} if float(gamma) else constant
    return Column(f"CV, eta {eta}, gamma {gamma}", "cv", {"coefficients.rate": float(eta), **discount})


SELECTION = {f"cv-eta{eta}-gamma{gamma}": _of_rates(eta, gamma) for eta in ETA_RATES for gamma in GAMMA_RATES}
"""The nine settings that CV is chosen from, each on seeds of its own."""

COLUMNS = {**SHAPED, **RUNAWAY, **SELECTION}


def settings_of(column: str) -> tuple[str, dict[str, Any]]:
    """(method, settings) of a column."""
    own = COLUMNS.get(column)
    return (column, {}) if own is None else (own.method, dict(own.settings))


def label_of(column: str, config: Config) -> str:
    """What tells its runs from others of the method."""
    return column.removeprefix(f"{config.method}-") if column in COLUMNS else ""


def column_of(run: Record) -> str:
    """The column that a run belongs to."""
    return run.label if run.label and run.config.method == CUSTOM else run.name


def heading(column: str) -> str:
    """What stands above it."""
    return COLUMNS[column].title if column in COLUMNS else presets.title(column)
