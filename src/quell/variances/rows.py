"""Names of the estimators that can be measured, and the settings each stands for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from quell.errors import UsageError, did_you_mean

MOMENTS = {
    "cv.eta": "moments",
    "cv.eta_per": "coordinate",
    "cv.learn_gamma": False,
    "cv.gamma": 1.0,
    "cv.baseline": "leave-one-out",
}
PAPER = {"cv.eta": "sgd", "cv.eta_rate": 1e-4, "cv.learn_gamma": False, "cv.gamma": 0.99, "cv.baseline": "none"}
BASES: dict[str, tuple[str, dict[str, Any]]] = {
    "es": ("plain ES", {}),
    "re": ("the policy gradient of the perturbed members alone", {**MOMENTS, "cv.eta": "fixed", "cv.eta_value": -1.0}),
    "cv-paper": ("CV as in the paper: sgd eta, gamma 0.99", PAPER),
    "cv": ("CV with eta from running moments, gamma 1, leave-one-out baseline", MOMENTS),
    "cv-layer": ("the same with one eta per layer", {**MOMENTS, "cv.eta_per": "layer"}),
    "cv-linear": ("CV with a linear value function as baseline", {**MOMENTS, "cv.baseline": "linear"}),
    "cv-network": ("CV with a network as baseline", {**MOMENTS, "cv.baseline": "network"}),
    "auto": ("control variates chosen online, plain ES among them", {"cv.eta": "auto", "cv.metric": "parameters"}),
    "auto-policy": ("the same by the variance in the policy's metric", {"cv.eta": "auto", "cv.metric": "policy"}),
}
MODIFIERS: dict[str, dict[str, Any]] = {
    "ortho": {"directions": "orthogonal"},
    "gcmc": {"directions": "gcmc"},
    "qmc": {"directions": "qmc", "qmc_shift": True},
    "crn": {"shared_noise": True},
}
"""Appended with a dash (auto-ortho, es-crn); alone, they stand for ES with that modification."""
SGD_UPDATES = 200  # the paper's rule needs about this many iterations to settle


@dataclass(frozen=True)
class Row:
    """One estimator to measure."""

    name: str
    method: str
    settings: dict[str, Any] = field(default_factory=dict)
    updates: int = 0  # replay the warm-up until eta has been updated this often

    @property
    def sampling(self) -> tuple[str, bool]:
        """Rows with the same directions and action noise are measured on the same episodes."""
        return self.settings.get("directions", "gaussian"), bool(self.settings.get("shared_noise", False))


def find_row(name: str) -> Row:
    """`base`, `modifier`, or `base-modifier-...`."""
    bases = sorted((base for base in BASES if name == base or name.startswith(f"{base}-")), key=len)
    base = bases[-1] if bases else "es"
    rest = name.removeprefix(base).strip("-") if bases else name
    settings = dict(BASES[base][1])
    for modifier in filter(None, rest.split("-")):
        if modifier not in MODIFIERS:
            known = [*BASES, *MODIFIERS]
            raise UsageError(
                f"unknown estimator {name!r}{did_you_mean(name, known)}; known: {', '.join(known)}, joined by '-'"
            )
        settings |= MODIFIERS[modifier]
    updates = SGD_UPDATES if base == "cv-paper" else 0
    return Row(name, "es" if base == "es" else "cv", settings, updates)


def find_rows(names: Iterable[str]) -> list[Row]:
    """Rows in the order given, ES first and always there: everything is measured against it."""
    wanted = list(dict.fromkeys(["es", *(name.strip() for name in names if name.strip())]))
    return [find_row(name) for name in wanted]


def gamma_rows(values: Iterable[float]) -> list[Row]:
    """CV by moments at several discounts."""
    return [Row(f"cv gamma={value:g}", "cv", {**MOMENTS, "cv.gamma": value}) for value in values]
