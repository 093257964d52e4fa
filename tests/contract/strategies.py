"""Everything registered, ready to be looped over: a strategy that is added is tested without being named here."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, get_args

import pytest

from quell import registry
from quell.estimate.control_variate import ControlVariate
from quell.estimate.control_variate.advantages import AdvantageColumn
from quell.estimate.control_variate.coefficients import LayerCoefficients, Space
from quell.estimate.control_variate.discount import FixedDiscounts
from quell.estimate.control_variate.discounted import DiscountedColumns
from quell.perturb import Unperturbed
from quell.perturb.gaussian import Gaussian
from quell.presets import METHODS, NATURAL_CV
from quell.training.methods import make_config

SIGMA = 0.3


def all_of(kind: str) -> list[Any]:
    """One of each, with its defaults."""
    return [cls() for cls in registry.table(kind).values()]


def estimators() -> list[Any]:
    """Every estimator as it comes, as the methods use it, and every way to be a control variate."""
    found = all_of("estimator")
    for method, preset in itertools.product(METHODS, ("paper", "tuned")):
        if method.count("+") in (0, 3):  # without PPO's switches, and with all of them
            found.append(make_config("lqr", method, preset).estimator)  # type: ignore[arg-type]
    several = FixedDiscounts(gammas=(1.0, 0.9))
    columns = [*all_of("columns"), *(DiscountedColumns(discount=discount) for discount in all_of("discount"))]
    columns.append(DiscountedColumns(baseline="leave-one-out"))
    for one, coefficients in itertools.product(columns, all_of("coefficients")):
        found.append(ControlVariate(columns=one, coefficients=coefficients))
    found.append(ControlVariate(columns=DiscountedColumns(discount=several), coefficients=LayerCoefficients()))
    for shaping in ("normalise", "ranks", "past"):
        natural = AdvantageColumn(gamma=1.0, trace=1.0)
        found.append(ControlVariate(shaping=shaping, columns=natural, coefficients=LayerCoefficients(), metric="step"))
    for critic in all_of("critic"):
        for cls in registry.table("estimator").values():
            if "critic" in registry.hints(cls):
                unbiased = {"gamma": 1.0, "trace": 1.0} if "trace" in registry.hints(cls) else {}
                found += [cls(critic=critic), cls(critic=critic, **unbiased)]
    return list(dict.fromkeys(found))


WEIGHED: dict[str, tuple[Any, ...]] = {
    **{"gamma": (1.0, 0.5), "trace": (1.0, 0.5), "columns.gamma": (1.0, 0.5), "columns.trace": (1.0, 0.5)},
    **{"top": (1.0, 0.125), "shaping": ("none", "normalise", "ranks", "past")},
}
"""Settings that decide whether an estimator is biased: a value that does not bias it, and others that may."""


def possible(estimator: Any) -> dict[str, tuple[Any, ...]]:
    """Those of WEIGHED that it has, with the values that it takes."""
    found = {}
    for name, values in WEIGHED.items():
        outer, _, inner = name.rpartition(".")
        owner = getattr(estimator, outer, None) if outer else estimator
        own = registry.hints(type(owner)) if owner is not None else {}
        if inner in own:
            options = get_args(own[inner])
            found[name] = tuple(v for v in values if v in options) if inner == "shaping" else values
    return found


def purest(estimator: Any) -> Any:
    """The estimator with settings that do not bias it."""
    return registry.replace(estimator, {name: values[0] for name, values in possible(estimator).items()})


def declared() -> list[Any]:
    """Every registered estimator, and the default's, as little biased as it can be, and with each setting that may."""
    found = []
    for pure in map(purest, [*all_of("estimator"), NATURAL_CV]):
        found.append(pure)
        for name, values in possible(pure).items():
            found += [registry.replace(pure, {name: value}) for value in values[1:]]
    return found


def sampled(strategies: list[Any]) -> list[Any]:
    """All of them, but slow (`make test-all`) where every choice in it is already in one before it."""
    seen: set[Any] = set()
    cases = []
    for strategy in strategies:
        made = set(choices(strategy)) | {(type(strategy), getattr(strategy, "biased", None))}
        cases.append(pytest.param(strategy, marks=[] if made - seen else [pytest.mark.slow]))
        seen |= made
    return cases


def choices(strategy: Any) -> Iterator[tuple[str, Any]]:
    """(setting, value) of all that is chosen by name, at every depth; numbers are no choices."""
    for name, value in registry.settings_of(strategy).items():
        if registry.is_strategy(value):
            yield name, type(value)
            yield from choices(value)
        elif isinstance(value, bool | str):
            yield name, value


def label(strategy: Any) -> str:
    """A strategy's name with the settings that are not its defaults."""
    defaults = type(strategy)()
    parts = [registry.name_of(strategy)]
    for name, value in registry.settings_of(strategy).items():
        if value != getattr(defaults, name):
            parts.append(f"{name}={label(value) if registry.is_strategy(value) else value}")
    return "-".join(parts).replace(" ", "")


def directions_for(estimator: Any) -> Any:
    return Gaussian(sigma=SIGMA) if estimator.needs.perturbed else Unperturbed()


def has_critic(estimator: Any) -> bool:
    """Whether it, or a column of it, sees more of an episode than its rewards."""
    return hasattr(getattr(estimator, "columns", estimator), "critic")


def weights_at_first(estimator: Any) -> float:
    """What a control variate's column is multiplied by before anything is learned; 1 where there is none."""
    if not isinstance(estimator, ControlVariate):
        return 1.0
    space = Space(1, 1, (slice(0, 1),), (slice(0, 1),))
    return float(estimator.coefficients.coefficients(space, estimator.coefficients.init(space))[0, 0])


def sees_differences_alone(estimator: Any) -> bool:
    """Whether rewards enter only as differences between episodes."""
    own = getattr(estimator, "columns", estimator)
    return not has_critic(estimator) and getattr(own, "baseline", "leave-one-out") == "leave-one-out"
