"""Settings of a run: typed dataclasses that are the command line, the API's keywords and config.json alike.

A `Config` holds the chosen strategies themselves; config.json holds their names and fields. A setting is named by its
path (`estimator.coefficients.rate`), of which the beginning may be left out where the rest is unique (`rate`).
"""

import json
import os
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from quell import registry
from quell.earlier import translated
from quell.errors import UsageError, did_you_mean, flag
from quell.estimate import Estimator
from quell.estimate.es import Es
from quell.fit import check_fit
from quell.perturb import Kind
from quell.perturb.gaussian import Gaussian
from quell.policy import GaussianPolicy, PolicySettings
from quell.registry import COUNT, SIZE, Plain, Range
from quell.update import Step
from quell.update.first_order import Adam
from quell.words import called_here

Preset = Literal["tuned", "paper"]
STRATEGIES = ("policy", "directions", "estimator", "step")
"""The settings of a config that are strategies."""
LONGEST_NAME = 200
"""Characters of a task's name."""
KEYWORDS = ("method", "config", "engine", "workers", "out", "name", "progress", "callbacks", "log", "seeds")
"""What `quell.train` takes besides settings."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """Everything that determines a run. The defaults are the paper's; the preset "tuned" replaces some of them."""

    task: str
    """What to train on; `quell list tasks` lists the names."""
    preset: Preset = "tuned"
    """Whose settings are the defaults: tuned (ours, where the paper's do poorly) or paper (the paper's exactly)."""
    steps: Annotated[int, SIZE] = 1_000_000
    """Budget in environment steps; training ends with the pair of episodes that reaches it."""
    seed: Annotated[int, COUNT] = 0
    """Random seed."""
    pairs: Annotated[int, SIZE] = 5
    """Antithetic pairs per iteration (2 * pairs episodes)."""
    batch_steps: Annotated[int, COUNT] = 0
    """Steps per iteration, about: the number of pairs follows from the length of past episodes, and is at least `pairs`
    (0: always `pairs`)."""
    shared_reset: bool = False
    """Whether the two members of a pair have the same reset and process noise."""
    shared_noise: bool = False
    """Whether the two members of a pair act with the same noise (common random numbers)."""
    mean_actions: bool = False
    """Train with mean (most likely) actions: learning then relies on the perturbation alone, with less noise."""
    normalise_obs: bool = False
    """Normalise observations with running statistics of past batches (+S)."""
    horizon: int | None = None
    """Episode length, if not the task's own."""
    train_horizon: Annotated[int, COUNT] = 0
    """Cut episodes of training after so many steps, as a time limit would; evaluations are never cut (0: no cut)."""
    delay: Annotated[int, COUNT] = 1
    """Pay rewards every so many steps, each time the sum over these steps (1: at once; 0: all at the episode's end).
    Returns do not change."""
    frame_skip: Annotated[int, COUNT] = 0
    """Physics steps per environment step, for MuJoCo tasks (0: the task's own). An episode lasts as many seconds as
    before, unless `horizon` is set."""
    hide: tuple[int, ...] = ()
    """Indices, from 0, of observations that the policy does not see."""
    obs_noise: Annotated[float, COUNT] = 0.0
    """Standard deviation of noise added to every observation that the policy sees."""
    task_settings: dict[str, Plain] = field(default_factory=dict)
    """The task's own settings, as names and values: noise 0.5 for lqr, is_slippery false for gym:FrozenLake-v1. A value
    is read as true, false or none, as a number, else as text; in quotes ('"4"') it is text."""
    eval_every: Annotated[int, COUNT] = 20
    """Iterations between evaluations of the unperturbed policy (0: only at the end)."""
    eval_episodes: Annotated[int, SIZE] = 5
    """Episodes per evaluation, each with sampled and with mean actions."""
    target: Annotated[float | None, Range()] = None
    """Stop once an evaluation's mean return with mean actions reaches this."""
    checkpoint_every: Annotated[int, SIZE] = 20
    """Iterations between checkpoints."""
    keep_checkpoints: Annotated[int, SIZE] = 3
    """How many of the newest checkpoints are kept."""
    max_trouble: Annotated[int, SIZE] = 10
    """Stop after this many iterations in a row without a usable gradient."""
    policy: PolicySettings = field(default_factory=GaussianPolicy)
    """The policy: gaussian or deterministic for continuous actions, categorical for discrete ones."""
    directions: Kind = field(default_factory=Gaussian)
    """How perturbations are drawn."""
    estimator: Estimator = field(default_factory=Es)
    """How a gradient is formed from the episodes."""
    step: Step = field(default_factory=Adam)
    """How theta is updated from the gradient."""

    def __post_init__(self) -> None:
        if self.delay == "end":  # type: ignore[comparison-overlap]
            object.__setattr__(self, "delay", 0)

    @property
    def method(self) -> str:
        """What the strategies are called together: a name of `quell list methods`, or "custom"."""
        from quell.presets import method_of

        return method_of(self)

    @property
    def combination(self) -> str:
        """The same, with the parts of a custom one: "custom (policy-gradient, adam)"."""
        from quell.presets import combination_of

        return combination_of(self)

    def finished(self, steps: int, best: float) -> bool:
        """Whether the step budget is spent, or an evaluation reached the target."""
        return steps >= self.steps or (self.target is not None and best >= self.target)

    def validate(self) -> "Config":
        """The same with plain numbers; a UsageError names the first setting that makes no sense."""
        self = registry.tidy(self)
        registry.check(self)
        for name, value in flatten(self).items():
            try:
                json.dumps(value)
            except (TypeError, ValueError):
                declared = "is declared with dataclasses.field(metadata=quell.registry.NO_SETTING)"
                text = f"config.json cannot hold {name}, {value!r}; a field of a strategy that is no setting {declared}"
                raise UsageError(text) from None
        if any(isinstance(getattr(self, name), registry.Elsewhere) for name in STRATEGIES):
            return self
        check_fit(self.estimator, self.directions, self.policy, self.step)
        if self.mean_actions and self.estimator.needs.trajectories:
            raise UsageError("`mean_actions=True` draws no action noise, so there is no policy gradient: leave it out")
        if self.target is not None and not self.eval_every:
            raise UsageError("target is checked in evaluations: eval_every must be at least 1")
        if self.shared_noise and not self.policy.stochastic:
            raise UsageError("`shared_noise=True` is not read with a deterministic policy: it has no action noise")
        if self.shared_noise and self.shared_reset and not self.directions.sigma:
            both = "`shared_noise=True` and `shared_reset=True`"
            raise UsageError(f"{both}: the two unperturbed members of a pair would be the same")
        return self


def flatten(config: Any, prefix: str = "") -> dict[str, Any]:
    """Dotted name -> value of every setting; a strategy's own name stands under the setting it is."""
    flat: dict[str, Any] = {}
    for key, value in registry.settings_of(config).items():
        nested = registry.is_strategy(value)
        flat[prefix + key] = registry.name_of(value) if nested else value
        flat |= flatten(value, f"{prefix}{key}.") if nested else {}
    return flat


def full_name(name: str, known: Iterable[str]) -> str | None:
    """The setting that a name stands for: itself, or the only one that ends in it; or None.

    A critic's settings are always called its own: `lr` is the step's, also where the chosen step has none.
    """
    names = list(known)
    if name in names:
        return name
    fitting = [one for one in names if one.endswith(f".{name}") and ("." in name or ".critic." not in one)]
    if len(fitting) > 1:
        both = " or ".join(f"`{one}=...`" for one in fitting)
        raise UsageError(f"`{name}=...` could be {both}: write one of them")
    return fitting[0] if fitting else None


def replace(config: Config, changes: Mapping[str, Any], *, lenient: bool = False) -> Config:
    """A copy with changes; names may be shortened where that is unique, strategies are objects, names or mappings.

    A setting that the chosen strategies do not read is refused, or, if `lenient`, left out: presets speak for all.
    """
    for name, value in sorted(changes.items(), key=lambda item: item[0].rpartition(".")[2] not in registry.KINDS):
        where = full_name(name, flatten(config))  # strategies first: which settings there are depends on them
        if where is not None:
            config = registry.replace(config, {where: value})
        elif not lenient:
            raise Unread(config, name)
    return config


class Unread(UsageError):
    """The refusal of a setting that nothing chosen reads, with those that are read."""

    def __init__(self, config: Config, name: str, others: Iterable[str] = KEYWORDS) -> None:
        self.config, self.name, self.others = config, name, others
        super().__init__(self._said(str, repr))

    def as_flags(self) -> str:
        return self._said(flag, flag)

    def _said(self, spelled: Callable[[str], str], shown: Callable[[str], str]) -> str:
        known = list(flatten(self.config))
        shortened = [key.rpartition(".")[2] for key in known if ".critic." not in key]
        here = [*self.others, *known, *shortened]
        refused = f"method {self.config.combination!r} reads no setting {spelled(self.name)!r}"
        if answer := called_here(self.name, here, shown, flags=spelled is flag):
            return f"{refused}: {answer}"
        hint = did_you_mean(self.name, here, shown)
        if any(key.endswith(f".critic.{self.name}") for key in known):
            natural = f"; how far a natural step goes is {spelled('kl')}" if "step.kl" in known else ""
            hint = f" (the critic's is {spelled(f'critic.{self.name}')}{natural if self.name == 'lr' else ''})"
        if hint:  # the list of fifty would hide it
            return f"{refused}{hint}"
        listed = ", ".join(map(spelled, sorted({*known, *self.others} - {"task"}, key=lambda key: ("." in key, key))))
        return f"{refused}; it reads: {listed}"


WORDS = {"true": True, "false": False, "none": None}


def parse_value(text: str, name: str = "") -> Any:
    """The value of the setting `name` as it was typed: true, false or none, JSON where it is JSON (`8`, `0.1`,
    `[64, 64]`, `"text"`), a number as Python has it (`.5`), else the text. A strategy is text, "none" too."""
    if text.lower() in WORDS and name.rpartition(".")[2] not in registry.KINDS:
        return WORDS[text.lower()]
    for read in (json.loads, float):
        with suppress(ValueError):
            return read(text)
    return text


def to_dict(config: Config) -> dict[str, Any]:
    """Plain values, as written to config.json."""
    return {name: value for name, value in registry.to_dict(config).items() if name != "name"}


def from_dict(values: Mapping[str, Any]) -> Config:
    """The config a run folder holds; unknown or ill-typed settings are a UsageError."""
    if not isinstance(values, Mapping) or not isinstance(values.get("task"), str):
        raise UsageError("config.json names no task")
    if len(values["task"]) > LONGEST_NAME:
        raise UsageError(f"its task has a name of {len(values['task']):,} characters")
    config, wrong = Config(task=values["task"]), []
    for name, value in translated(values).items():
        try:
            config = registry.replace(config, {name: _restored(name, value)})
        except (UsageError, TypeError, ValueError, AttributeError) as error:  # a name that is a list, say
            wrong.append(str(error) if isinstance(error, UsageError) else f"{name} makes no sense: {error}")
    try:
        config.validate()
    except UsageError as error:
        wrong.append(str(error))
    if wrong:
        raise UsageError("; ".join(wrong))
    return config


def _restored(kind: str, value: Any) -> Any:
    """A strategy from its name and fields; one that is not ours can be described but not used."""
    if kind not in registry.KINDS or not isinstance(value, Mapping) or not isinstance(value.get("name"), str):
        return value
    settings = {name: _restored(name, item) for name, item in value.items() if name != "name"}
    foreign = any(isinstance(item, registry.Elsewhere) for item in settings.values())
    if value["name"] in registry.table(kind) and not foreign:
        return registry.make(kind, value["name"], settings)
    return registry.Elsewhere(kind, value["name"], settings)


def changed(old: Config, new: Config) -> list[str]:
    """Dotted names of the settings that differ, or that only one of them has."""
    before, after = ({key: list(v) if isinstance(v, tuple) else v for key, v in flatten(c).items()} for c in (old, new))
    return [name for name in dict.fromkeys([*after, *before]) if before.get(name) != after.get(name)]


def check_run_name(name: str) -> str:
    """A run name is one plain folder name, so that it cannot leave the run root."""
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}", name):
        allowed = "use letters, digits, '.', '_', '+' and '-', starting with a letter or digit"
        raise UsageError(f"run name {name!r} is not allowed: {allowed}")
    return name


def check_file(path: Path, name: str, endings: tuple[str, ...] = ()) -> Path:
    """A file to be written later, its folder made; a UsageError if it cannot be."""
    if endings and path.suffix.lower() not in endings:
        raise UsageError(f"`{name}={str(path)!r}` must end in {', '.join(endings[:-1])} or {endings[-1]}")
    return _tried(path, repr(str(path)), name)


def check_out(out: Path, name: str = "out") -> Path:
    """The run root, made if missing; a UsageError if nothing can be written there."""
    # a name of this thread's own: runs side by side try the same folder at the same time
    return _tried(out / f".quell-write-{os.getpid()}-{threading.get_ident()}", f"to {str(out)!r}", name).parent


def _tried(path: Path, where: str, name: str) -> Path:
    """A file that can be written; one that is not there yet is not left there."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        there = path.exists()
        path.open("ab").close()
        if not there:
            path.unlink(missing_ok=True)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"cannot write {where}: {why}; choose another `{name}=...`") from None
    return path
