"""Strategies by name: directions, estimators, steps, policies and engines are frozen dataclasses, and the object is the
setting.

A strategy's class attribute `name` is what it is called on the command line and in config.json, its dataclass fields
are its settings: their docstrings are the help texts, `Annotated[float, Range(...)]` their bounds, and a method
`check()` may refuse combinations. A package's modules list theirs in a table (`DIRECTIONS = [...]`), which is found by
looking, as tasks are; adding one is one file.
"""

import ast
import dataclasses
import functools
import importlib
import inspect
import itertools
import math
import os
import pkgutil
import re
import sys
import textwrap
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from quell.errors import UsageError, did_you_mean
from quell.words import POLICIES

KINDS = {
    "policy": ("quell.policy", "POLICIES"),
    "directions": ("quell.perturb", "DIRECTIONS"),
    "estimator": ("quell.estimate", "ESTIMATORS"),
    "columns": ("quell.estimate.control_variate", "COLUMNS"),
    "coefficients": ("quell.estimate.control_variate", "COEFFICIENTS"),
    "discount": ("quell.estimate.control_variate", "DISCOUNTS"),
    "critic": ("quell.estimate.critic", "CRITICS"),
    "step": ("quell.update", "STEPS"),
    "engine": ("quell.rollout", "ENGINES"),
}
"""The settings that are strategies -> (package, name of the table in its modules)."""


@dataclasses.dataclass(frozen=True)
class Range:
    """What a number may be: at least `low` (or `above` it), at most `high` (or `below` it)."""

    low: float = -math.inf
    high: float = math.inf
    above: float = -math.inf
    below: float = math.inf

    def complaint(self, value: float) -> str | None:
        if abs(value) > LARGEST or value != value:
            return "must be a finite number"
        for wrong, words, bound in (
            (value < self.low, "at least", self.low),
            (value > self.high, "at most", self.high),
            (value <= self.above, "greater than", self.above),
            (value >= self.below, "less than", self.below),
        ):
            if wrong:
                return f"must be {words} {bound:g}"
        return None


LARGEST = 1e300  # of any number
Plain = bool | int | float | str | None
"""What a table of settings may hold, in config.json too."""
PLAIN: dict[Any, str] = {
    **{int: "a whole number", float: "a number", bool: "true or false", str: "text"},
    Plain: "a number, text, true, false or none",
}
NO_SETTING = {"setting": False}
"""Metadata of a field that config.json does not hold, such as a function; its owner is passed again to go on."""
POSITIVE, SHARE = Range(above=0), Range(low=0, high=1)
COUNT, SIZE = Range(low=0), Range(low=1)
THOUSANDS = {"k": 10**3, "m": 10**6, "g": 10**9}
DISCOUNT = Range(above=0, high=1)


PHYSICS = ("quell.tasks.mujoco", "quell.tasks.studio", "quell.rollout.cpu.worker", "quell.rollout.device.")
"""Where modules begin that import MuJoCo or JAX: a list of names needs neither, and a film chooses how MuJoCo draws
before its import."""


def listed(package: str, attribute: str) -> list[type[Any]]:
    """What a package and its modules list in their table, which is called `attribute`."""
    inside = pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}.")
    names = [package, *(module.name for module in inside if not module.name.startswith(PHYSICS))]
    return [cls for name in names for cls in getattr(importlib.import_module(name), attribute, ())]


@functools.cache
def table(kind: str) -> dict[str, type[Any]]:
    """name -> class of every strategy of a kind, in alphabetical order."""
    return {cls.name: cls for cls in sorted(listed(*KINDS[kind]), key=lambda cls: cls.name)}


def make(kind: str, name: str, settings: Mapping[str, Any] | None = None) -> Any:
    """The strategy called `name`, with its defaults but for `settings`."""
    known = table(kind)
    if name not in known:
        if name in POLICIES:
            raise UsageError(f"unknown {kind} {name!r}: {POLICIES[name]}")
        raise UsageError(f"unknown {kind} {name!r}{did_you_mean(name, known)}; there are: {', '.join(known)}")
    return replace(known[name](), settings or {}, f"{kind}.")


def imported(words: str, path: str = "") -> Any:
    """The function or class that `module:name` stands for; `path` is searched after everything else. Only what a user
    typed may come here, never what a run folder or a file of settings holds."""
    if path and path not in sys.path:
        sys.path.append(path)
    try:
        found = pkgutil.resolve_name(words)
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(f"cannot import {words}: {error}") from error
    if not callable(found):
        raise UsageError(f"{words} is not a function or class")
    return found


def is_strategy(value: Any) -> bool:
    """Whether a value is a strategy: an instance of a dataclass."""
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def is_own(kind: str, strategy: Any) -> bool:
    """Whether a strategy and all in it are quell's own, not a user's."""
    inside = {name: value for name, value in settings_of(strategy).items() if is_strategy(value)}
    return type(strategy) in table(kind).values() and all(is_own(name, value) for name, value in inside.items())


def name_of(strategy: Any) -> str:
    """What a strategy is called: the `name` that its class declares (an inherited one is another's), or its class's."""
    if isinstance(strategy, Elsewhere):
        return strategy.name
    declared = vars(type(strategy)).get("name")
    return declared if isinstance(declared, str) else type(strategy).__name__


def settings_of(strategy: Any) -> dict[str, Any]:
    """A strategy's settings by name: its fields, but for those declared with `field(metadata=NO_SETTING)`."""
    if isinstance(strategy, Elsewhere):
        return strategy.settings
    own = (item for item in dataclasses.fields(strategy) if item.metadata.get("setting", True))
    return {item.name: getattr(strategy, item.name) for item in own}


@dataclasses.dataclass(frozen=True)
class Elsewhere:
    """A strategy that is not quell's own, as config.json describes it: enough to load a run, not to continue it."""

    kind: str
    name: str
    settings: dict[str, Any]

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        raise UsageError(f"this run's {self.kind} {self.name!r} is not quell's own: pass it as {self.kind}=...")


def replace(owner: Any, changes: Mapping[str, Any], prefix: str = "") -> Any:
    """A copy of a dataclass with changes, given as dotted names ({"coefficients.rate": 1e-3}) or nested mappings.

    A field that is a strategy takes an object, a name, or a mapping with its settings and possibly its "name".
    """
    fields, unknown = [item.name for item in dataclasses.fields(owner)], []
    for key, value in sorted(changes.items(), key=lambda item: "." in item[0]):
        name, _, rest = key.partition(".")
        if name in fields:
            fresh = _changed(getattr(owner, name), {rest: value} if rest else value, name, prefix)
            owner = dataclasses.replace(owner, **{name: fresh})
        else:
            unknown.append(f"there is no setting {prefix + name!r}{did_you_mean(name, fields)}")
    if unknown:
        raise UsageError("; ".join(unknown))
    return owner


def _changed(current: Any, value: Any, name: str, prefix: str) -> Any:
    """One field's new value; of a table, what is not named stays as it is."""
    if name in KINDS and isinstance(value, str | Mapping):
        settings = {"name": value} if isinstance(value, str) else dict(value)
        chosen = settings.pop("name", name_of(current))
        base = current if chosen == name_of(current) else make(name, chosen)
        return replace(base, settings, f"{prefix}{name}.") if settings else base
    if isinstance(current, dict) and isinstance(value, Mapping):
        return {**current, **value}
    if isinstance(current, tuple) and isinstance(value, int | float) and not isinstance(value, bool):
        return (value,)  # one hidden layer, say
    return tuple(value) if isinstance(current, tuple) and isinstance(value, list) else value


def strategies(owner: Any, prefix: str = "") -> dict[str, Any]:
    """Dotted name -> strategy of all that a config or strategy holds, at every depth."""
    found: dict[str, Any] = {}
    for name, value in settings_of(owner).items():
        if is_strategy(value):
            found |= {prefix + name: value, **strategies(value, f"{prefix}{name}.")}
    return found


def to_dict(strategy: Any) -> dict[str, Any]:
    """Plain values: {"name": ..., field: value, ...}."""
    values = {key: to_dict(value) if is_strategy(value) else value for key, value in settings_of(strategy).items()}
    return {"name": name_of(strategy), **values}


def tidy(value: Any, *, whole: bool = False) -> Any:
    """A setting, or all of a strategy, with Python's own numbers, not NumPy's, and a whole one (1e6) an int."""
    if isinstance(value, dict):
        return {name: tidy(item) for name, item in value.items()}
    if isinstance(value, tuple | list):
        items = [tidy(item, whole=whole) for item in value]
        return type(value)(items) if any(new is not old for new, old in zip(items, value, strict=True)) else value
    if is_strategy(value) and not isinstance(value, Elsewhere):
        types, own = hints(type(value)), settings_of(value)
        fresh = {name: tidy(item, whole="int" in re.findall(r"\w+", str(types[name]))) for name, item in own.items()}
        changes = {name: item for name, item in fresh.items() if item is not own[name]}
        return dataclasses.replace(value, **changes) if changes else value
    value = value.item() if isinstance(value, np.generic) else value
    return int(value) if whole and isinstance(value, float) and value.is_integer() else value


def whole(name: str, value: Any, least: int = 0) -> int:
    """A whole number, at least `least`, from whatever stands for one."""
    number = tidy(value, whole=True)
    if wrong := complaint(number, Annotated[int, Range(low=least)]):
        raise UsageError(f"`{name}={value!r}` {wrong}")
    return int(number)


def read_whole(text: str) -> int:
    """The whole number that was typed: 100000, 1e5, 100k or 0.1M; a ValueError if it is none."""
    digits, times = (text[:-1], THOUSANDS[text[-1].lower()]) if text[-1:].lower() in THOUSANDS else (text, 1)
    if digits.lstrip("+-").isdigit():
        return int(digits) * times
    number = float(digits)
    number = round(number * times, 3) if times > 1 else number  # 1.1M is 1100000.0000000002
    return int(number) if number.is_integer() else int(text)


def as_path(name: str, value: Any) -> Path:
    """A path from whatever stands for one."""
    if not isinstance(value, str | os.PathLike):
        raise UsageError(f"`{name}={value!r:.80}` must be a path")
    return Path(value)


def check(owner: Any, prefix: str = "") -> None:
    """Raise UsageError naming the settings that make no sense: config.json and keywords are not type-checked."""
    if found := complaints(owner, prefix):
        raise UsageError("; ".join(found))


def complaints(owner: Any, prefix: str = "") -> list[str]:
    """What is wrong with a strategy's settings, and with those of the strategies in it."""
    if isinstance(owner, Elsewhere):
        return []
    found = []
    for name, hint in hints(type(owner)).items():
        value, dotted = getattr(owner, name), prefix + name
        if name in KINDS:
            found += _strategy_complaints(name, value, dotted)
        elif wrong := complaint(value, hint):
            found.append(f"`{dotted}={value!r:.80}` {wrong}")
        elif get_origin(hint) is dict:
            items = ((key, item, complaint(item, get_args(hint)[1])) for key, item in value.items())
            found += [f"`{dotted}.{key}={item!r:.80}` {wrong}" for key, item, wrong in items if wrong]
    if not found and callable(own := getattr(owner, "check", None)):
        try:
            own()
        except UsageError as error:
            found.append(str(error))
    return found


def _strategy_complaints(kind: str, value: Any, dotted: str) -> list[str]:
    if not is_strategy(value):
        return [f"`{dotted}={value!r:.80}` must be one of {', '.join(table(kind))}, or an object of that kind"]
    if type(value) not in (Elsewhere, table(kind).get(name_of(value), type(value))):
        return [f"{dotted}: quell has a {name_of(value)!r} of its own; give yours another `name`"]
    return complaints(value, f"{dotted}.")


def complaint(value: Any, hint: Any) -> str | None:
    """What is wrong with a value that should be of a type, within its bounds."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        bounds = [part for part in parts if isinstance(part, Range) and value is not None]
        return complaint(value, parts[0]) or (bounds[0].complaint(value) if bounds else None)
    if origin is Literal:
        options = list(map(str, parts))
        return None if value in parts else f"must be one of {', '.join(options)}{did_you_mean(str(value), options)}"
    if hint == Plain:
        sound = isinstance(value, hint)
        return Range().complaint(value) if isinstance(value, float) else None if sound else f"must be {PLAIN[Plain]}"
    if origin in (UnionType, Union):  # of something and None
        return None if value is None else complaint(value, parts[0])
    if origin is tuple:
        if not isinstance(value, tuple):
            return "must be a list"
        return next((wrong for item in value if (wrong := complaint(item, parts[0]))), None)
    if origin is dict:
        sound = isinstance(value, Mapping) and all(isinstance(key, str) for key in value)
        return None if sound else "must be a table of names and values"
    if hint not in PLAIN:
        return None
    if hint is float and callable(value):
        return "must be a number (`schedule='linear'` lowers it to zero; for others, `step=optax.adam(schedule)`)"
    sound = isinstance(value, int | float if hint is float else hint) and (hint is bool or not isinstance(value, bool))
    return None if sound else f"must be {PLAIN[hint]}"


def hints(cls: Any) -> Mapping[str, Any]:
    """The types of a dataclass's fields, with what is annotated."""
    return _hints(cls)


@functools.lru_cache(maxsize=256)
def _hints(cls: Any) -> Mapping[str, Any]:
    known = get_type_hints(cls, include_extras=True)
    return MappingProxyType({item.name: known[item.name] for item in dataclasses.fields(cls)})


def help_texts(cls: Any) -> dict[str, str]:
    """The docstrings under a dataclass's fields, inherited ones too."""
    texts: dict[str, str] = {}
    for base in (base for base in reversed(cls.__mro__) if hasattr(base, "__dataclass_fields__")):
        with suppress(OSError, TypeError, IndentationError):  # made in a session without source
            parsed: Any = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
            for field, text in itertools.pairwise(parsed.body):
                if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
                    texts[ast.unparse(field.target)] = " ".join(ast.literal_eval(text.value).split())
    return texts
