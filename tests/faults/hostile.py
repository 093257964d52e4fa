"""Run folders that somebody made up to do harm: one trained run, spoilt in some 200 ways, every hash right again.

A case is a function that spoils the folder of a run, under a name, with the commands that have to refuse it.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import socket
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load, save

from quell.runs import checkpoint

Spoil = Callable[[Path], object]
ALL = ("eval", "resume", "export")
PLAYING = ("eval", "resume")
WRITING = ("resume",)


@dataclass(frozen=True)
class Case:
    """A way to spoil a run folder, and who must refuse it."""

    name: str
    spoil: Spoil
    commands: tuple[str, ...] = ALL
    method: str = "es"
    """Whose run is spoilt; `cv` has a metric, a critic and moments to remember."""


def saved(run: Path) -> Path:
    """The only checkpoint of a run."""
    (path,) = [entry for entry in (run / "checkpoints").iterdir() if entry.name.isdigit()]
    return path


def rehash(run: Path) -> None:
    """Make the manifest right: anyone can."""
    path = saved(run)
    digests = {
        name: hashlib.sha256((path / name).read_bytes()).hexdigest() for name in (checkpoint.ARRAYS, checkpoint.STATE)
    }
    (path / checkpoint.MANIFEST).write_text(json.dumps(digests))


def put(name: str, data: bytes | str) -> Spoil:
    """Other contents for a file; those of a checkpoint get their hashes."""

    def spoil(run: Path) -> None:
        path = saved(run) / name if name in checkpoint.SIZES else run / name
        path.write_bytes(data if isinstance(data, bytes) else data.encode(errors="surrogatepass"))
        if name in (checkpoint.ARRAYS, checkpoint.STATE):
            rehash(run)

    return spoil


def config(changes: dict[str, Any], *, both: bool = True) -> Spoil:
    """Other settings (dotted names), in config.json and, if `both`, in the checkpoint."""

    def changed(facts: dict[str, Any]) -> dict[str, Any]:
        for dotted, value in changes.items():
            *parents, last = dotted.split(".")
            place = facts
            for parent in parents:
                place = place[parent]
            place[last] = value
        return facts

    def spoil(run: Path) -> None:
        file = run / "config.json"
        file.write_text(json.dumps(changed(json.loads(file.read_text()))))
        if both:
            state = json.loads((saved(run) / checkpoint.STATE).read_text())
            put(checkpoint.STATE, json.dumps(state | {"config": changed(state["config"])}))(run)

    return spoil


def state(changes: dict[str, Any], without: tuple[str, ...] = ()) -> Spoil:
    """Other facts in a checkpoint's state."""

    def spoil(run: Path) -> None:
        facts = json.loads((saved(run) / checkpoint.STATE).read_text()) | changes
        put(checkpoint.STATE, json.dumps({k: v for k, v in facts.items() if k not in without}))(run)

    return spoil


def arrays(change: Callable[[dict[str, Any]], object]) -> Spoil:
    """Other arrays in a checkpoint."""

    def spoil(run: Path) -> None:
        held = load((saved(run) / checkpoint.ARRAYS).read_bytes())
        change(held)
        put(checkpoint.ARRAYS, save(held))(run)

    return spoil


def header(table: Any, data: bytes = b"", length: int | None = None) -> Spoil:
    """A safetensors file with this header."""
    text = (table if isinstance(table, str) else json.dumps(table)).encode()
    return put(checkpoint.ARRAYS, struct.pack("<Q", len(text) if length is None else length) + text + data)


def instead(name: str, make: Callable[[Path], object]) -> Spoil:
    """Something else in a file's or folder's place."""

    def spoil(run: Path) -> None:
        path = saved(run) / name if name in checkpoint.SIZES else run / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        make(path)

    return spoil


def sparse(size: int) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        path.touch()
        os.truncate(path, size)

    return make


def listening(path: Path) -> None:
    """A socket; its name may not be long, so it is made from its folder."""
    here = os.open(".", os.O_RDONLY)
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.fchdir(here)
        os.close(here)


def moved_outside(name: str) -> Spoil:
    """A link to the real thing, which lies outside the folder."""

    def spoil(run: Path) -> None:
        path = saved(run) if name == "checkpoint" else saved(run) / name if name in checkpoint.SIZES else run / name
        outside = run.parent / "outside" / path.name
        outside.parent.mkdir(exist_ok=True)
        path.rename(outside)
        path.symlink_to(outside)

    return spoil


def names_a_file(text: str) -> Spoil:
    """A setting that gymnasium.make would open: `made` is a pipe, in which it waits for ever."""

    def spoil(run: Path) -> None:
        os.mkfifo(run / "made")
        config({"task": "gym:Hopper-v5", "task_settings": {"xml_file": text.format(run=run)}})(run)

    return spoil


def hard_link(name: str) -> Spoil:
    def spoil(run: Path) -> None:
        (run / name).unlink(missing_ok=True)
        os.link(run.parent / "precious", run / name)

    return spoil


SPECIAL: dict[str, Callable[[Path], object]] = {
    "fifo": os.mkfifo,
    "socket": listening,
    "folder": Path.mkdir,
    "endless device": lambda path: path.symlink_to("/dev/zero"),
    "terminal": lambda path: path.symlink_to("/dev/tty"),
    "loop": lambda path: path.symlink_to(path.name),
    "dangling link": lambda path: path.symlink_to("/nonexistent/file"),
    "a terabyte of holes": sparse(1 << 40),
    "3 GiB of holes": sparse(3 << 30),
}
NO_JSON: dict[str, bytes | str] = {
    "empty": b"",
    "null": "null",
    "list": "[]",
    "word": '"x"',
    "number": "1",
    "nan": "NaN",
    "deep lists": "[" * 200_000,
    "deep tables": '{"a":' * 100_000,
    "half": '{"task": "swim',
    "not utf-8": b"\xff\xfe\x00{",
    "utf-16": '{"task": "swimmer"}'.encode("utf-16"),
    "zeros": b"\0" * 5000,
    "two megabytes": " " * (2 << 20),
    "digits": '{"task": "swimmer", "seed": ' + "9" * 5000 + "}",
}
SETTINGS: dict[str, list[Any]] = {
    "task": [
        "",
        "nonexistent",
        "gym:os:system",
        "gym:../../etc/passwd",
        "envpool:nothing",
        "a\0b",
        "\x1b[2J",
        "\ud800",
        *(start + "x" * 100_000 for start in ("", "gym:", "envpool:", "own:")),
    ],
    "preset": ["evil", 1, None],
    "steps": [0, -1, 1.5, "many", None, True, math.nan, 10**400, [], {}],
    "seed": [-1, "0", 0.5],
    "pairs": [0, -5, math.inf, "5"],
    "horizon": [0, -1, 1.5, "long", 10**15, 10**400, True],
    "normalise_obs": [1, "yes", None],
    "task_settings": [[], 7, {"gravity": 1}, {"reset_noise": "x"}, {"": ""}, {"a": [1]}],
    "eval_episodes": [0, -1],
    "checkpoint_every": [0, "1"],
    "policy": [[], 7, None, "evil", {"name": []}, {"name": {}}, {"name": "evil", "hidden": 3}, {"name": "e" * 100_000}],
    "policy.hidden": [7, [0], [-1], ["a"], [1.5], [8], [10**9, 10**9], [1] * 100_000, [[1]], None],
    "policy.activation": ["evil", "__import__('os')", 1, None],
    "policy.init_std": [0, -1, math.nan, "1"],
    "policy.evil": [1],
    "directions": [7, {"name": None}],
    "directions.sigma": [0, -1, math.nan, math.inf, "x", 10**400],
    "step.lr": [math.nan, "x", -1],
    "nonsense": [1],
    "__class__": ["x"],
}
FILES = ["./made", "{run}/made", "made", "/dev/zero", "~/made", "../made", "file:made", "$HOME/made", "\\made"]
"""What an environment may take for a file's name, or for that of a module."""
COUNTS: dict[str, list[Any]] = {
    "iteration": [-1, "x", None, 1.5, 10**30, 7777],
    "steps": [-1, "many", None, True, math.nan, math.inf, [], {}, 1.5, 2**63],
    "eval_steps": [-1, "many", 2**80, 10**299],
    "best.steps": [2**80],
    "seconds": [-1.0, math.nan, "x"],
    "obs_count": [math.inf, -1, "x"],
    "episode_length": [math.nan],
}
HALVES = ("eval_steps", "trouble", "trouble_in_a_row")
"""What a run that goes on counts, besides."""


def _cases() -> Iterator[Case]:
    for kind, make in SPECIAL.items():
        yield Case(f"config.json is {kind}", instead("config.json", make))
        for name in checkpoint.SIZES:
            yield Case(f"{name} is {kind}", instead(name, make))
        if kind in ("fifo", "socket", "folder", "endless device", "loop"):
            yield Case(f"metrics is {kind}", instead("metrics.jsonl", make))
            yield Case(f"lock is {kind}", instead("lock", make), WRITING)
        if kind in ("fifo", "socket", "loop"):
            yield Case(f"tensorboard is {kind}", instead("tensorboard", make), WRITING)
            yield Case(f"checkpoints is {kind}", instead("checkpoints", make), ("eval",))
    for kind, data in NO_JSON.items():
        yield Case(f"config.json: {kind}", put("config.json", data))
        yield Case(f"state: {kind}", put(checkpoint.STATE, data))
        yield Case(f"manifest: {kind}", put(checkpoint.MANIFEST, data))
    for name, values in SETTINGS.items():
        for value in values:
            playing = name == "horizon" and value in (10**15, 10**400)  # which only matters where episodes are played
            yield Case(f"{name} = {value!r:.30}", config({name: value}), PLAYING if playing else ALL)
    for name, values in COUNTS.items():
        for value in values:
            yield Case(f"state {name} = {value!r:.30}", state({name: value}))
    for text in FILES:
        yield Case(f"a setting names the file {text!r}", names_a_file(text))
    for name in HALVES:
        yield Case(f"state {name} = 1.5", state({name: 1.5}), WRITING)
    for name in ("iteration", "steps", "obs_count", "config"):
        yield Case(f"state without {name}", state({}, without=(name,)))
    for name in ("seconds", "trouble", "episode_length"):
        yield Case(f"state without {name}", state({}, without=(name,)), WRITING)
    yield Case("state of a newer quell", state({"schema": 2}))
    yield Case("config of a newer quell", config({"schema": 2}, both=False))
    yield Case("config of no quell", config({"schema": "one"}, both=False))
    yield Case("state with a config that is a list", state({"config": []}))
    yield Case("state of another task", state({"config": {"task": "hopper"}}))
    for name, value in {"policy.activation": "relu", "normalise_obs": False, "horizon": 99, "seed": 5}.items():
        yield Case(f"edited {name}", config({name: value}, both=False))
    yield from _arrays()
    yield from _links()


REMEMBERED = {"optimiser.1": "es"} | dict.fromkeys(
    ("optimiser.0", "optimiser.3", "estimator.products", "estimator.critic.w0", "estimator.critic.w0.square"),
    "natural-cv",
)
"""Arrays of a step's or an estimator's memory, and whose run has them."""


def _arrays() -> Iterator[Case]:
    def told(
        name: str, change: Callable[[dict[str, Any]], object], commands: tuple[str, ...] = ALL, method: str = "es"
    ) -> Case:
        return Case(f"arrays: {name}", arrays(change), commands, method)

    def with_first(name: str, value: float) -> Callable[[dict[str, Any]], object]:
        return lambda held: held[name].flat.__setitem__(0, value)

    def with_array(name: str, made: Callable[[Any], Any]) -> Callable[[dict[str, Any]], object]:
        return lambda held: held.update({name: made(held.get(name))})

    def as_type(name: str, kind: str) -> Callable[[dict[str, Any]], object]:
        return with_array(name, lambda array: np.zeros(array.shape, kind))

    def without(name: str) -> Callable[[dict[str, Any]], object]:
        return lambda held: held.pop(name)

    short = np.zeros(3, np.float32)
    for value in (np.nan, np.inf):
        yield told(f"theta {value}", with_first("theta", value))
        yield told(f"obs {value}", with_first("obs.total", value))
    for name in ("theta", "obs.total", "obs.squares"):
        yield told(f"no {name}", without(name))
        yield told(f"short {name}", with_array(name, lambda _: short))
        yield told(f"square {name}", with_array(name, lambda array: array[None]))
        yield told(f"empty {name}", with_array(name, lambda array: array[:0]))
    yield told("whole theta", with_array("theta", lambda array: array.astype(np.int32)))
    yield told("true theta", with_array("theta", lambda array: array > 0))
    yield told("complex theta", with_array("theta", lambda array: array.astype(np.complex64)))
    for name in ("theta", "best.theta", "obs.squares", "best.obs.total"):
        for kind in ("float16", "float64" if name.endswith("theta") else "float32"):
            yield told(f"{kind} {name}", as_type(name, kind))
    for name, method in REMEMBERED.items():
        for value in (np.nan, np.inf, -np.inf):
            yield told(f"{name} of {method} {value}", with_first(name, value), WRITING, method)
        for kind in ("float16", "int64", "bool"):
            yield told(f"{name} of {method} {kind}", as_type(name, kind), WRITING, method)
    yield told("no step", without("optimiser.0"), WRITING)
    yield told("another step", with_array("optimiser.1", lambda _: short), WRITING)
    yield told("an estimator's memory", with_array("estimator.evil", lambda _: short), WRITING)
    entry: dict[str, Any] = {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}
    changes: dict[str, dict[str, Any]] = {
        "beyond the end": {"data_offsets": [0, 10**12]},
        "backwards": {"data_offsets": [12, 0]},
        "negative": {"data_offsets": [-4, 8]},
        "overflow": {"shape": [2**32, 2**32, 2**32]},
        "negative shape": {"shape": [-3]},
        "worded shape": {"shape": ["3"]},
        "unknown type": {"dtype": "F1"},
        "objects": {"dtype": "O"},
        "half": {"dtype": "BF16", "shape": [6]},
        "no offsets": {"data_offsets": None},
        "million axes": {"shape": [1] * 100_000 + [3]},
    }
    for name, change in changes.items():
        yield Case(f"safetensors: {name}", header({"theta": entry | change}, bytes(12)))
    yield Case("safetensors: nothing", put(checkpoint.ARRAYS, b""))
    yield Case("safetensors: half a length", put(checkpoint.ARRAYS, b"\1\0\0"))
    yield Case("safetensors: endless header", header("{}", length=2**63))
    yield Case("safetensors: header too long", header("{}", length=10**9))
    yield Case("safetensors: no JSON", header("pickle"))
    yield Case("safetensors: deep header", header("[" * 100_000))
    yield Case("safetensors: a list", header([]))
    yield Case("safetensors: no arrays", header({}))
    yield Case("safetensors: a pickle", put(checkpoint.ARRAYS, b"\x80\x04cos\nsystem\n(S'touch /tmp/x'\ntR."))
    yield Case("safetensors: many", header({f"a{i}": entry for i in range(20_000)}, bytes(12)))
    yield Case("safetensors: strange names", header({"\x1b[2J\n": entry, "../../x": entry}, bytes(12)))


def _links() -> Iterator[Case]:
    for name in ("config.json", "metrics.jsonl", *checkpoint.SIZES):
        yield Case(f"{name} lies elsewhere", moved_outside(name))
    yield Case("the checkpoint lies elsewhere", moved_outside("checkpoint"), ("eval",))
    yield Case("checkpoints lie elsewhere", moved_outside("checkpoints"), ("eval",))
    yield Case("tensorboard lies elsewhere", moved_outside("tensorboard"), WRITING)
    yield Case("lock is a hard link", hard_link("lock"), WRITING)
    yield Case("hash of nothing", put(checkpoint.MANIFEST, json.dumps({checkpoint.ARRAYS: "", checkpoint.STATE: ""})))
    yield Case("hash a list", put(checkpoint.MANIFEST, json.dumps({checkpoint.ARRAYS: [], checkpoint.STATE: {}})))
    yield Case("no checkpoints", instead("checkpoints", lambda path: None), ("eval",))
    yield Case("checkpoints is a file", instead("checkpoints", Path.touch), ("eval",))


CASES = list(_cases())


# Records and measurements, as `quell report` reads them


Change = Callable[[dict[str, Any]], Any]
SOUND: list[tuple[str, Any]] = [("untrained", []), ("variance", None), ("variance", 7), ("label", "x")]
STRANGE: list[Any] = [[], {}, "x", 7, None, math.nan, [["x"]], {"sampled": "x"}]
COLUMNS: list[Any] = [["x"], [math.inf], [None, {}], "x", None]
RETURNS: list[Any] = [["x"], [math.nan], [None], [10**400], "x"]
HISTORIES: list[Any] = [[], {"steps": 1}, {"steps": [1], "iteration": ["x"]}, {"steps": [{}]}, "x"]
ROWS: list[Any] = [7, [7], [{}], [{"name": 7, "ratio": {}}], [{"name": "a", "ratio": 7}]]
RATIOS: list[Any] = ["x", math.nan, math.inf, {}]


def _with(changes: dict[str, Any]) -> Change:
    return lambda facts: facts | changes


def _with_column(name: str, values: Any) -> Change:
    return lambda facts: facts | {"curve": facts["curve"] | {name: values}}


def _measured(changes: dict[str, Any]) -> Change:
    measured = {"task": "lqr", "at": "init", "rows": [{"name": "cv", "ratio": {"value": 1.0}}]}
    return lambda _: measured | changes


def _records() -> Iterator[tuple[str, Change]]:
    """What becomes of a sound record's contents."""
    for name in ("final", "curve", "config", "untrained", "label", "variance"):
        for value in STRANGE:
            if (name, value) not in SOUND:
                yield f"{name} = {value!r}", _with({name: value})
    for column in ("steps", "return", "ratio", "evaluation", "iteration"):
        for value in COLUMNS:
            yield f"curve {column} = {value!r}", _with_column(column, value)
    for value in RETURNS:
        yield f"final {value!r:.20}", _with({"final": {"sampled": value, "mean_action": [1.0]}})
    for value in HISTORIES:
        yield f"history {value!r}", _with({"history": value, "curve": None})
    strange: list[dict[str, Any]] = [{name: value} for name in ("task", "at", "label") for value in STRANGE[3:6]]
    rows = [*ROWS, *([{"name": "a", "ratio": {"value": value}}] for value in RATIOS)]
    for change in (*({"rows": made} for made in rows), *strange, {"iterations": "x"}):
        yield f"measured {change!r}", _measured(change)


RECORDS = dict(_records())
