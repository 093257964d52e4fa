"""Settings from a file, as `--config FILE` takes them: hand-written TOML, or a run's config.json.

    task = "hopper"            # these three may be left out
    method = "es"
    preset = "tuned"
    steps = 1_000_000          # settings by any name that a flag may have
    sigma = 0.05
    [step]                     # or in tables
    name = "adam"
    lr = 0.003

They take the place of the preset's, and flags take the place of theirs. Nothing in such a file is evaluated or
imported.
"""

import json
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from quell.earlier import translated
from quell.errors import UsageError, shown
from quell.registry import KINDS, as_path
from quell.runs import files
from quell.runs.find import newest
from quell.training.methods import names_a_file

TABLES = ("task_settings",)
"""Settings that are tables themselves."""
ALSO = ("task", "method", "preset")
Settings = dict[str, Any]


def read(path: Path | str, *, given: Collection[str] = ()) -> Settings:
    """Name -> value of what a file holds: a strategy under its own name, its settings under dotted ones.

    `path` may be a run's folder, or one with runs below it, of which the newest is taken. Files that it would have a
    task open are refused, but for the names in `given`.
    """
    place = as_path("config", path)
    place = newest(place)[0] / "config.json" if place.is_dir() else place
    try:
        data = files.read(place)
        values = _json(data) if place.suffix == ".json" else tomllib.loads(data.decode())
        if not isinstance(values, Mapping):
            raise ValueError("it is no table of settings")
    except files.MALFORMED as error:
        why = (error.strerror if isinstance(error, OSError) else None) or error
        raise UsageError(f"`config={shown(place)!r}` cannot be read: {why}") from None
    found = dict(_flat(values))
    for name in ALSO:
        if not isinstance(found.get(name, ""), str):
            raise UsageError(f"{shown(place)}: {name} is {found[name]!r:.80}, where text is expected")
    opened = found.get("task_settings")
    for name, text in opened.items() if isinstance(opened, Mapping) else ():
        if names_a_file(text) and name not in given:
            flag = f"`--task-settings {name} {text}`"
            raise UsageError(f"{shown(place)} names a file for the task to open: give it yourself, {flag:.300}")
    return found


def without(found: Mapping[str, Any], chosen: Mapping[str, Any]) -> Settings:
    """The file's settings but for those of strategies in whose place others were chosen."""
    replaced = [kind for kind, name in chosen.items() if kind in KINDS and found.get(kind, name) != name]
    return {key: value for key, value in found.items() if not any(f"{key}.".startswith(f"{one}.") for one in replaced)}


def write(path: Path, settings: Mapping[str, Any], comment: str = "") -> None:
    """A file that `read` takes, of settings by their dotted names."""
    lines = [f"# {line}" for line in comment.splitlines()]
    known = {name: value for name, value in settings.items() if value is not None}
    lines += [f"{_key(name)} = {_spelled(value)}" for name, value in known.items()]
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_atomically(path, ("\n".join(lines) + "\n").encode())


def _json(data: bytes) -> Any:
    return translated(files.understood(json.loads(data)))


def _flat(values: Mapping[str, Any], prefix: str = "") -> Settings:
    found: Settings = {}
    for name, value in values.items():
        if not isinstance(value, Mapping) or name in TABLES:
            found[prefix + name] = value
            continue
        if "name" in value:
            found[prefix + name] = value["name"]
        found |= _flat({key: item for key, item in value.items() if key != "name"}, f"{prefix}{name}.")
    return found


def _key(name: str) -> str:
    """A strategy's own name stands in its table, where its settings are."""
    return f"{name}.name" if name.rpartition(".")[2] in KINDS else name


def _spelled(value: Any) -> str:
    """TOML's text of a plain value or a list of such."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_spelled, value))}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_spelled(name)} = {_spelled(item)}' for name, item in value.items())}}}"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)
