"""A config from the command line: every setting of the chosen strategies is a flag, and no other parses."""

import dataclasses
import itertools
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from tyro.conf import OmitArgPrefixes

from quell import registry, tasks
from quell.commands.arguments import checked, filled
from quell.config import STRATEGIES, Config, Unread, flatten, full_name
from quell.errors import UsageError, as_flags, did_you_mean, flag
from quell.rollout import Compute
from quell.tasks.base import Task
from quell.words import POLICIES, called_here

Field = tuple[str, Any, Any]
"""As `make_dataclass` takes it."""
FIRST = ("steps", "seed", "method", "preset")
GROUPS: dict[str, tuple[str, tuple[str, ...]]] = {
    "batch": (
        "What an iteration plays.",
        ("pairs", "batch_steps", "train_horizon", "shared_reset", "shared_noise", "mean_actions", "normalise_obs"),
    ),
    "episode": (
        "What an episode is.",
        ("horizon", "delay", "frame_skip", "hide", "obs_noise", "task_settings"),
    ),
    "saving": ("What is evaluated and saved during the run.", ()),
}
"""What `--help` shows together, after the most used; all settings that are not named here come at last."""


IN_WORDS = {("--policy.hidden", "linear"): (), ("--delay", "end"): ("0",)}
"""What may be said in a word: no layers, and a delay to the end."""


def own_task(factory: str | None, horizon: int | None) -> Task | None:
    """The task of `--trust-import module:factory`, if given; `horizon` is set where it is not the environment's own.

    This and `own_strategy` are how the command line imports a user's code; nothing in a run folder can ask for it.
    """
    if factory == "":
        raise UsageError("--trust-import needs a factory, as in --trust-import my_module:make_env")
    return tasks.trusted(factory, horizon=horizon or 0) if factory else None


def own_strategy(words: str, flag: str) -> Any:
    """The strategy of `--estimator my_module:MyEstimator`, with its defaults; any other text stays what it is."""
    if ":" not in words:
        return words
    made = registry.imported(words, os.getcwd())
    if not (isinstance(made, type) and dataclasses.is_dataclass(made)):
        raise UsageError(f"--{flag} {words}: a strategy is a frozen dataclass (see examples/own_step.py)")
    return made()


def take_choices(arguments: list[str]) -> tuple[dict[str, Any], list[str]]:
    """Which strategies were asked for by name (`--directions qmc`, `--engine ray`, `--step my_module:MyStep`), and the
    other arguments."""
    chosen: dict[str, Any] = {}
    rest, words = [], iter(arguments)
    for word in words:
        name, _, value = word.removeprefix("--").partition("=")
        kind = name.rpartition(".")[2]
        if word.startswith("--") and kind in registry.KINDS:
            value, known = value or next(words, ""), registry.table(kind)
            if value in POLICIES:
                raise UsageError(f"--{name} {value!r}: {as_flags(POLICIES[value])}")
            if ":" not in value and value not in known:
                raise UsageError(f"--{name} {value!r}: there are {', '.join(known)}{did_you_mean(value, known)}")
            chosen[name.replace("-", "_")] = own_strategy(value, name)
        else:
            rest.append(word)
    return chosen, rest


def parse(
    arguments: list[str],
    default: Config,
    engine: Compute | str,
    others: type[Any],
    *,
    prog: str,
    description: str,
    method: str = "",
) -> tuple[Config, Compute, dict[str, Any]]:
    """Parse all flags; `default` holds the strategies already chosen, `others` the command's own flags.

    `method`, which has chosen them, is shown among the flags.
    """
    compute = registry.make("engine", engine) if isinstance(engine, str) else engine
    shared = {*registry.hints(type(compute)), *registry.hints(others)}
    shared |= {"method"} if method else set()
    spelled = [_spelled_out(word, default, compute, shared) for word in arguments]
    pairs = itertools.pairwise(["", *spelled])
    arguments = [word for pair in pairs for word in IN_WORDS.get(pair, pair[1:])]
    if {"-h", "--help"} & set(arguments):
        description += "\n\n" + _choices(default)
    fields = _fields(default)
    del fields["task"]
    if method:
        text = "Which strategies; `quell list methods` lists the names. A preset then chooses their numbers."
        fields["method"] = _field("method", Annotated[str, tyro.conf.arg(help=text)], method)
    nested = [fields.pop(name) for name in STRATEGIES if name in fields]
    flat = [*(fields.pop(name) for name in FIRST if name in fields), *_fields(others()).values()]
    for name, (text, own) in GROUPS.items():
        flat.append(_group(name, text, [fields.pop(one) for one in own or list(fields)], OmitArgPrefixes))
    text = f"{registry.name_of(compute)}: {type(compute).__doc__}".partition("\n")[0]
    flat.append(_group("engine", text, _fields(compute).values(), OmitArgPrefixes))
    form = dataclasses.make_dataclass("Arguments", [*flat, *nested])
    parsed: dict[str, Any] = dict(vars(filled(form, arguments, prog, description)))
    parsed.pop("method", None)
    flags = vars(checked(others(**{name: parsed.pop(name) for name in registry.hints(others)})))
    compute = _read(vars(parsed.pop("engine")), compute)
    for group in GROUPS:
        parsed |= vars(parsed.pop(group))
    return _read(parsed, default).validate(), compute, flags


def _spelled_out(word: str, config: Config, engine: Compute, shared: set[str]) -> str:
    """A flag with its full name; one that nothing chosen reads is refused."""
    if re.fullmatch(r"-[A-Za-z]", word) and word != "-h":
        answer = called_here(word[1:], ["steps", "out"], flag, flags=True)
        raise UsageError(f"options have two dashes, and there is no {word}{f': {answer}' if answer else ''}")
    if not word.startswith("--") or word in ("--", "--help"):
        return word
    given, equals, value = word.partition("=")
    name, known = given.removeprefix("--").replace("-", "_"), [*flatten(config), *shared]
    negated = [re.sub(r"(\w+)$", r"no_\1", one) for one in known]
    full = full_name(name, known) or full_name(name, negated)
    if full is None:
        if any(name in registry.hints(of) for of in registry.table("engine").values()):
            own = ", ".join(map(flag, registry.hints(type(engine))))
            who = f"engine {registry.name_of(engine)!r}"
            raise UsageError(f"{who} reads no setting {given}; it reads: {own} (--engine chooses another)")
        raise Unread(config, name, shared)
    return f"{flag(full)}{equals}{value}"


def _fields(owner: Any) -> dict[str, Field]:
    """All settings of a config, strategy or command, by name; those of a strategy among them are a group."""
    texts, hints = registry.help_texts(type(owner)), registry.hints(type(owner))
    fields: dict[str, Field] = {}
    for name, value in registry.settings_of(owner).items():
        text = texts.get(name, "")
        if not registry.is_strategy(value):
            says_nothing = not value and not isinstance(value, bool | int | float)  # the text says what that stands for
            shown = tyro.conf.arg(help=text, help_behavior_hint="" if says_nothing else None)
            fields[name] = _field(name, Annotated[hints[name], shown], value)
        elif not isinstance(value, registry.Elsewhere) and dataclasses.fields(value):
            fields[name] = _group(name, text, _fields(value).values())
    return fields


def _group(name: str, text: str, fields: Iterable[Field], *markers: Any) -> Field:
    """A field that is a dataclass, whose own are shown together."""
    form = dataclasses.make_dataclass("Form", fields, kw_only=True)()
    return _field(name, Annotated[type(form), tyro.conf.arg(help=text), *markers], form)


def _field(name: str, kind: Any, value: Any) -> Field:
    return name, kind, dataclasses.field(default_factory=lambda: value)  # it may be a dictionary or dataclass


def _read(values: dict[str, Any], owner: Any) -> Any:
    """A config or strategy with the values that its form was filled with."""
    forms = {name: value for name, value in values.items() if registry.is_strategy(value)}
    parts = {name: _read(vars(form), getattr(owner, name)) for name, form in forms.items()}
    return dataclasses.replace(owner, **values | parts)


def _choices(config: Config) -> str:
    """Which strategies there are to choose from, for the help text."""
    text = "A name may be shortened: --sigma for --directions.sigma, --hidden for --policy.hidden. Strategies by name:"
    for name, value in {**flatten(config), "engine": "where episodes run"}.items():
        if (kind := name.rpartition(".")[2]) in registry.KINDS:
            text += f"\n  --{name:<24} {value} (of {', '.join(registry.table(kind))})"
    return text


@dataclasses.dataclass(frozen=True)
class TrainFlags:
    """Where a run goes."""

    out: Path = Path("runs")
    """Where run folders are made."""
    name: str | None = None
    """Name of the run folder instead of <seed>-<time>."""
    seeds: Annotated[int | None, registry.SIZE] = None
    """Train this many seeds, from --seed up, each in its own process, and print mean and interval. Runs go to
    OUT/seeds."""
    log: tuple[Literal["wandb", "mlflow"], ...] = ()
    """Also log to these trackers; each needs its extra."""
    show: bool = False
    """Print every setting, its value and where it comes from, and train nothing."""


@dataclasses.dataclass(frozen=True)
class ResumeFlags:
    """How a run goes on."""

    fork: bool = False
    """Continue in a new folder, with changed settings allowed."""
    trust_files: bool = False
    """Open the files that settings of the run's task name: you know where the folder is from."""
    log: tuple[Literal["wandb", "mlflow"], ...] = ()
    """Also log to these trackers; each needs its extra."""
