"""Settings as earlier versions wrote them, in the words of today: old runs, records and policies can be loaded.

What is gone (value functions as baselines, several estimators' experiments) keeps its old name and fields: a run of it
can be shown and its policy played, but not continued.
"""

from collections.abc import Mapping
from typing import Any

Values = dict[str, Any]

ESTIMATORS = {
    "score": "es",
    "top": "ars",
    "epochs": "ppo",
    "trpo": "trpo-paper",
    "advantage-gradient": "actor-critic",
}
"""Old name -> new name, where the fields are the same."""
METHODS = {"natural-cv": ("cv",), "es": ("cv",), "trpo-paper": ("trpo",), "ppo-paper": ("ppo",)} | {
    f"ppo-paper+{switches}": (f"ppo+{switches}",) for switches in ("s", "a", "m", "s+a", "s+m", "a+m", "s+a+m")
}
"""Method -> what its records may be called in archives: a preset once swapped strategies under one name."""
NEVER_SET: Values = {"last_gamma": None, "last_trace": None, "rise": 1.0}
"""Fields that are gone, and the value that means nothing was asked for."""


def translated(values: Mapping[str, Any]) -> Values:
    """The settings of a run in today's words."""
    found = {name: value for name, value in values.items() if name != "method"}  # it follows from the strategies
    if isinstance(estimator := found.get("estimator"), Mapping) and isinstance(estimator.get("name"), str):
        found["estimator"] = _estimator(dict(estimator))
    return found


def _estimator(old: Values) -> Values:
    name = old["name"]
    fields = {key: value for key, value in old.items() if key not in NEVER_SET or value != NEVER_SET[key]}
    if NEVER_SET.keys() & fields.keys() or name == "refereed":
        return {**old, "name": f"{name} (earlier)"}
    if name == "advantage":
        return _natural(fields)
    if name == "control-variate" and "columns" not in old:
        return _structured(fields)
    if name == "ppo" and "updates" in old:
        return {**fields, "name": "ppo-paper"}
    return {**fields, "name": ESTIMATORS.get(name, name)}


def _natural(old: Values) -> Values:
    """The control variate with a critic, which had a class of its own."""
    columns = {"name": "advantages"} | _taken(old, "gamma", "trace", "critic")
    coefficients = {"name": "layers"} | _taken(old, "decay")
    more = {"shaping": "past", "metric": "step", "columns": columns, "coefficients": coefficients}
    return {"name": "control-variate", **more}


def _structured(old: Values) -> Values:
    """The paper's control variate, where its discounts stood beside its coefficients."""
    kept = _taken(old, "name", "shaping", "coefficients")
    coefficients = old.get("coefficients", {})
    if isinstance(coefficients, Mapping):
        coefficients = dict(coefficients)
        kept["coefficients"] = coefficients
        per = coefficients.pop("per", "coordinate") if coefficients.get("name") == "moments" else "coordinate"
        gone = coefficients.get("name") == "choose" or per != "coordinate"
        if gone or old.get("values") or old.get("baseline") in ("linear", "network"):
            return {**old, "name": "control-variate (earlier)"}
    columns = {"name": "discounted"} | _taken(old, "baseline", "discount")
    return {**kept, "columns": columns}


def _taken(old: Values, *names: str) -> Values:
    return {name: old[name] for name in names if name in old}
