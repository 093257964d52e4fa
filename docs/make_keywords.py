"""Write src/quell/keywords.py: the settings that `quell.train` takes, typed, from the strategies that define them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

from quell import registry
from quell.config import STRATEGIES, Config

TARGET = Path(__file__).parents[1] / "src" / "quell" / "keywords.py"
OWN = ("task", "method", "preset")
"""What `quell.train` names itself."""
PROTOCOLS = {
    **{"directions": "Kind", "policy": "PolicySettings", "estimator": "Estimator"},
    **{"columns": "Columns", "coefficients": "Coefficients", "discount": "Discount", "critic": "Critic"},
}
"""Strategies by what an object of theirs has to be; a step may be optax's too, of which no type is known here."""
HEAD = '''"""The settings that `quell.train` and `quell.resume` take, for type checkers and editors.

Made from the strategies' fields by `python docs/make_keywords.py`. A setting is called by its last name here (`lr`,
`sigma`); nested ones are mappings, or have their dots: `**{"estimator.coefficients.decay": 0.9}`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

from quell.estimate import Estimator
from quell.estimate.control_variate.coefficients import Coefficients
from quell.estimate.control_variate.columns import Columns
from quell.estimate.control_variate.discount import Discount
from quell.estimate.critic import Critic
from quell.perturb import Kind
from quell.policy import PolicySettings


class Settings(TypedDict, total=False):
    """What a run is trained with; `quell train TASK --show` has what each means and its value."""

'''


def fields() -> dict[str, str]:
    """Name -> type of every setting: those of a config, then the last names of all strategies' settings."""
    found: dict[str, set[str]] = {}
    for name, hint in registry.hints(Config).items():
        if name not in OWN:
            found[name] = {strategy(name) if name in STRATEGIES else spelled(hint)}
    for kind in registry.KINDS:
        for cls in registry.table(kind).values() if kind != "engine" else ():
            for name, hint in registry.hints(cls).items():
                found.setdefault(name, set()).add(strategy(name) if name in registry.KINDS else spelled(hint))
    return {name: " | ".join(sorted(types)) if "Any" not in types else "Any" for name, types in sorted(found.items())}


def strategy(kind: str) -> str:
    """A strategy as a user may give it: an object, a table of settings, or a name."""
    return f"{PROTOCOLS[kind]} | Mapping[str, Any] | str" if kind in PROTOCOLS else "Any"


def spelled(hint: Any) -> str:
    """A type as a user may give it: lists for tuples, whole numbers for others are what Python takes anyway."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return spelled(parts[0])
    if origin is Literal:
        return f"Literal[{', '.join(map(repr, parts))}]"
    if origin is tuple:
        one = spelled(parts[0])
        return "Any" if one == "Any" else f"Sequence[{one}] | {one} | str"
    if origin is dict:
        return "Mapping[str, Any]"
    if parts:  # of something and None
        return f"{spelled(parts[0])} | None"
    return {int: "float", float: "float", str: "str", bool: "bool"}.get(hint, "Any")  # steps=1e6 is a whole number too


def text() -> str:
    """The module, formatted."""
    body = "".join(f"    {name}: {hint}\n" for name, hint in fields().items())
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(TARGET), "-"]
    return subprocess.run(command, input=HEAD + body, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    TARGET.write_text(text())
