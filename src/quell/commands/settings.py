"""A config from the command line: every setting of the chosen strategies is a flag, and no other parses."""

import dataclasses
import itertools
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from quell import registry
from quell.commands.arguments import UNSET
from quell.commands.arguments import parse as plain_parse
from quell.config import STRATEGIES, Config, Unread, flatten, full_name
from quell.errors import UsageError, did_you_mean
from quell.rollout import Compute

Field = tuple[str, Any, Any]
"""As `make_dataclass` takes it."""
GROUPS = {
    "common": ("steps", "seed", "method", "preset"),
    "batch": ("pairs", "batch_steps", "shared_reset", "shared_noise", "normalise_obs"),
    "episode": ("horizon", "task_settings"),
}
"""What `--help` shows together, the most used first; a config's other settings are about saving."""
TITLES = {
    "common": "What is trained, and for how long.",
    "batch": "What an iteration plays.",
    "episode": "What an episode is.",
    "saving": "What is measured and kept on the way.",
}


def peek(arguments: list[str], flag: str) -> str | None:
    """The value of a flag, before the real parsing, because defaults depend on it."""
    for i, word in enumerate(arguments):
        if word.startswith(f"{flag}="):
            return word.partition("=")[2]
        if word == flag and i + 1 < len(arguments):
            return arguments[i + 1]
    return None


def take_choices(arguments: list[str]) -> tuple[dict[str, str], list[str]]:
    """Which strategies were asked for by name (`--directions qmc`, `--engine ray`), and the other arguments."""
    chosen: dict[str, str] = {}
    rest, words = [], iter(arguments)
    for word in words:
        flag, _, value = word.removeprefix("--").partition("=")
        kind = flag.rpartition(".")[2]
        if word.startswith("--") and kind in registry.KINDS:
            value, known = value or next(words, ""), registry.table(kind)
            if value not in known:
                raise UsageError(f"--{flag} {value!r}: there are {', '.join(known)}{did_you_mean(value, known)}")
            chosen[flag.replace("-", "_")] = value
        else:
            rest.append(word)
    return chosen, rest


@contextmanager
def as_flags() -> Iterator[None]:
    """Around what speaks of settings by their names in Python: a refusal then speaks of flags."""
    try:
        yield
    except Unread as refusal:
        raise refusal.as_flag() from None


def parse(
    arguments: list[str], default: Config, engine: str, others: type[Any], *, prog: str, description: str
) -> tuple[Config, Compute, dict[str, Any]]:
    """Parse all flags; `default` holds the strategies already chosen, `others` the command's own flags."""
    compute = registry.make("engine", engine)
    shared = {item.name for item in dataclasses.fields(compute)} | {item.name for item in dataclasses.fields(others)}
    spelled = [_spelled_out(word, default, engine, shared) for word in arguments]
    pairs = itertools.pairwise(["", *spelled])
    arguments = [word for before, word in pairs if (before, word) != ("--policy.hidden", "linear")]  # no layers
    if {"-h", "--help"} & set(arguments):
        description += "\n\n" + _choices(default)
    fields = _fields(default)
    plain = [name for name in fields if name not in STRATEGIES]
    rest = tuple(name for name in plain if not any(name in own for own in GROUPS.values()))
    groups = {**GROUPS, "saving": rest}
    forms = {group: _dataclass(group, [fields[name] for name in own]) for group, own in groups.items()}
    forms = {"common": forms.pop("common"), "others": others(), **forms, "engine": _form(compute)}
    flat = [_field(name, Annotated[type(form), _nameless(name)], form) for name, form in forms.items()]
    nested = [fields[name] for name in fields if name not in plain]
    whole = dataclasses.make_dataclass("Arguments", [*flat, *nested])
    parsed: Any = plain_parse(whole, arguments, prog=prog, description=description, default=whole())
    changes: dict[str, Any] = {}
    for group in groups:
        changes |= _read(getattr(parsed, group), default)
    for name, *_ in nested:
        changes |= _read(getattr(parsed, name), getattr(default, name), f"{name}.")
    config = registry.replace(default, changes).validate()
    return config, registry.replace(compute, _read(parsed.engine, compute)), vars(parsed.others)


def _spelled_out(word: str, config: Config, engine: str, shared: set[str]) -> str:
    """A flag with its full name; one that nothing chosen reads is refused."""
    if not word.startswith("--") or word in ("--", "--help"):
        return word
    flag, equals, value = word.removeprefix("--").partition("=")
    name, known = flag.replace("-", "_"), [*flatten(config), *shared]
    full = full_name(name, known)
    if full is None:
        parents, _, last = name.rpartition(".")
        positive = full_name(".".join(filter(None, (parents, last.removeprefix("no_")))), known)
        if positive is None or not last.startswith("no_"):
            if name in {key for other in registry.table("engine") for key in _of_engine(other)}:
                own = ", ".join(f"--{key.replace('_', '-')}" for key in _of_engine(engine))
                raise UsageError(
                    f"engine {engine!r} reads no setting --{flag}; it reads: {own} (--engine chooses another)"
                )
            raise Unread(config, name, flags=True, others=shared)
        parents, _, last = positive.rpartition(".")
        full = ".".join(filter(None, (parents, f"no_{last}")))
    return f"--{full.replace('_', '-')}{equals}{value}"


def _of_engine(engine: str) -> list[str]:
    return [item.name for item in dataclasses.fields(registry.table("engine")[engine])]


def _nameless(group: str) -> Any:
    """What leaves a group's name out of its flags; the first two are shown without a group."""
    return tyro.conf.arg(name="") if group in ("common", "others") else tyro.conf.OmitArgPrefixes


def _form(owner: Any) -> Any:
    """A dataclass for tyro, with the settings of a strategy as they are chosen."""
    text = f"{registry.name_of(owner)}: {(type(owner).__doc__ or '').partition(chr(10))[0]}"
    return _dataclass(type(owner).__name__, _fields(owner).values(), text)


def _dataclass(name: str, fields: Iterable[Field], text: str | None = None) -> Any:
    form = dataclasses.make_dataclass(name, fields, kw_only=True)
    form.__doc__ = text or TITLES[name]
    return form()


def _field(name: str, kind: Any, value: Any) -> Field:
    return name, kind, field(default_factory=lambda: value)  # it may be a dictionary or dataclass


def _fields(owner: Any) -> dict[str, Field]:
    """All settings of a config or strategy, by name."""
    texts, hints = registry.help_texts(type(owner)), registry.hints(type(owner))
    fields: dict[str, Field] = {}
    for name, value in registry.settings_of(owner).items():
        hint: Any = hints[name]
        more: dict[str, Any] = {}
        if registry.is_strategy(value):
            if isinstance(value, registry.Elsewhere) or not dataclasses.fields(value):
                continue
            value = _form(value)
            hint = type(value)
        elif name == "task" and isinstance(owner, Config):
            continue
        elif not value and not isinstance(value, bool | int | float):
            more = {"help_behavior_hint": ""}  # the text says what nothing stands for
        fields[name] = _field(name, Annotated[hint, tyro.conf.arg(help=texts.get(name, ""), **more)], value)
    return fields


def _read(form: Any, owner: Any, prefix: str = "") -> dict[str, Any]:
    """Dotted name -> value of what was changed."""
    changes: dict[str, Any] = {}
    for item in dataclasses.fields(form):
        value, before = getattr(form, item.name), getattr(owner, item.name)
        if registry.is_strategy(before):
            changes |= _read(value, before, f"{prefix}{item.name}.")
        elif value != before:
            changes[prefix + item.name] = value
    return changes


def _choices(config: Config) -> str:
    """Which strategies there are to choose from, for the help text."""
    lines = [
        "A name may be shortened: --sigma for --directions.sigma, --hidden for --policy.hidden. Strategies by name:"
    ]
    for name, value in {**flatten(config), "engine": "where episodes run"}.items():
        if (kind := name.rpartition(".")[2]) in registry.KINDS:
            lines.append(f"  --{name:<24} {value} (of {', '.join(registry.table(kind))})")
    return "\n".join(lines)


@dataclass(frozen=True)
class TrainFlags:
    """Where a run goes."""

    out: Path = Path("runs")
    """Where run folders are made."""
    name: Annotated[str | None, UNSET] = None
    """Name of the run folder instead of <seed>-<time>."""
    seeds: Annotated[int | None, UNSET] = None
    """Train seeds 0 to SEEDS-1, each in a process, and print mean, spread and interval; they go to OUT/seeds."""
    log: tuple[Literal["wandb", "mlflow"], ...] = ()
    """Trackers to tell besides; each needs its extra."""


@dataclass(frozen=True)
class ResumeFlags:
    """How a run goes on."""

    fork: bool = False
    """Continue in a new folder, with changed settings allowed."""
    log: tuple[Literal["wandb", "mlflow"], ...] = ()
    """Trackers to tell besides; each needs its extra."""
