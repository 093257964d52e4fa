"""Settings of a run: typed dataclasses that are the command line, the API's keywords and config.json alike."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_type_hints

import tyro

from quell.errors import UsageError, did_you_mean

Preset = Literal["tuned", "paper"]


@dataclass(frozen=True)
class PolicyConfig:
    """The policy network."""

    kind: Literal["auto", "gaussian", "deterministic", "categorical"] = "auto"
    """auto: gaussian for continuous actions, categorical for discrete ones."""
    hidden: tuple[int, ...] = (32, 32)
    """Sizes of the hidden layers."""
    activation: Literal["relu", "tanh"] = "relu"
    init_std: float = 1.0
    """Initial standard deviation of a Gaussian policy's actions."""
    learn_std: bool = True
    """Whether the (log) standard deviation is part of theta."""
    output_scale: float = 1.0
    """Factor on the last layer's initial weights."""
    actions: Literal["as-is", "clip", "scale"] = "as-is"
    """On the way to the environment: as-is, clip (cut at its bounds), or scale (-1 to 1 becomes its whole range)."""


@dataclass(frozen=True)
class CvConfig:
    """The control variate."""

    eta: Literal["sgd", "moments", "auto", "fixed"] = "sgd"
    """How eta is learned: sgd (the paper), moments (closed form from past batches), auto (several control variates at
    once, chosen per layer by the variance each would have had so far, plain ES among them) or fixed."""
    eta_rate: float = 1e-4
    """sgd: step size, one of 1e-3, 1e-4, 1e-5 in the paper."""
    eta_decay: float = 0.95
    """moments and auto: how much of the running moments (and of a value function's data) survives an iteration."""
    eta_shrinkage: float = 20.0
    """moments: pseudo-pairs that pull a coordinate's eta towards its layer's."""
    eta_per: Literal["coordinate", "layer", "scalar"] = "coordinate"
    """moments: one eta per coordinate, per layer, or for all of theta."""
    eta_value: float = -1.0
    """fixed: the value."""
    gamma: float = 0.99
    """Discount of the control variate (where it starts, when learned)."""
    learn_gamma: bool = True
    """Adapt gamma by ES on the squared norm of the estimate (the paper)."""
    gamma_rate: float = 1e-4
    """Step size for gamma, one of 1e-4, 1e-5, 1e-6 in the paper."""
    baseline: Literal["none", "leave-one-out", "linear", "network"] = "none"
    """Baseline of the reward-to-go: none, the mean over the other members at the same step, or a value function of
    state and time fitted on past batches (linear in features, or a network with a random first layer)."""
    metric: Literal["parameters", "policy"] = "parameters"
    """auto: whose variance is made small, that of the parameters (total variance) or that of the policy they stand for
    (in the Fisher metric, with one coefficient per layer)."""
    discounts: tuple[float, ...] = (1.0, 0.99)
    """auto: the discounts of its control variates; the first is the one value functions are fitted for."""
    values: tuple[Literal["linear", "network"], ...] = ("network",)
    """auto: value functions that may replace the mean over the other members as baseline."""


@dataclass(frozen=True)
class PgConfig:
    """The policy-gradient baselines PG, PPO and TRPO."""

    gamma: float = 0.99
    """Discount of the reward-to-go."""
    baseline: Literal["none", "leave-one-out"] = "none"
    """Baseline of the reward-to-go: none, or the mean over the other members at the same step."""
    updates: int = 1
    """Gradient steps per batch (PPO and TRPO; +M means 10)."""
    normalise_advantages: bool = False
    """Subtract the advantages' mean and divide by their standard deviation (+A)."""
    clip: float = 0.2
    """PPO's clipping range."""
    kl_penalty: float = 0.1
    """TRPO's weight of the KL divergence; 0.1 or 1.0 in the paper."""


@dataclass(frozen=True)
class Config:
    """Everything that determines a run. The defaults are the paper's; the preset "tuned" replaces some of them."""

    task: Annotated[str, tyro.conf.Suppress]
    """What to train on; `quell tasks` lists the names."""
    method: str = "cv"
    """How to train; `quell methods` lists the names."""
    preset: Preset = "tuned"
    """tuned: our best settings for the method and task. paper: the paper's settings exactly."""
    steps: int = 1_000_000
    """Budget in real environment steps; the iteration that crosses it is the last."""
    seed: int = 0
    pairs: int = 5
    """Antithetic pairs per iteration (2 * pairs episodes)."""
    sigma: float = 0.02
    """Standard deviation of the parameter perturbation."""
    directions: Literal["gaussian", "orthogonal", "gcmc", "qmc"] = "gaussian"
    """How perturbations are drawn."""
    qmc_shift: bool = False
    """Shift the Halton points at random every iteration, which makes QMC unbiased."""
    shaping: Literal["normalise", "ranks", "none"] = "normalise"
    """What is done to the returns of a batch: (J - mean)/std, centred ranks, or nothing."""
    shared_reset: bool = False
    """Whether the two members of a pair meet the same reset and process noise."""
    shared_noise: bool = False
    """Whether the two members of a pair act with the same noise (common random numbers)."""
    normalise_obs: bool = False
    """Normalise observations by running statistics of past batches (+S)."""
    optimizer: Literal["adam", "sgd", "momentum", "rmsprop", "sign"] = "adam"
    lr: float = 0.01
    """Learning rate."""
    lr_schedule: Literal["constant", "linear", "cosine"] = "constant"
    """How the learning rate falls over the step budget."""
    horizon: int | None = None
    """Episode length, if not the task's own."""
    task_settings: dict[str, float | str] = field(default_factory=dict)
    """The task's own settings, e.g. --task-settings noise 0.5 for lqr."""
    eval_every: int = 20
    """Iterations between evaluations of the unperturbed policy (0: only at the end)."""
    eval_episodes: int = 5
    """Episodes per evaluation, each with sampled and with mean actions."""
    checkpoint_every: int = 20
    """Iterations between checkpoints."""
    keep_checkpoints: int = 3
    """How many of the newest checkpoints are kept."""
    max_trouble: int = 10
    """Stop after this many iterations in a row without a usable gradient."""
    policy: PolicyConfig = field(default_factory=PolicyConfig)
    cv: CvConfig = field(default_factory=CvConfig)
    pg: PgConfig = field(default_factory=PgConfig)

    def validate(self) -> Config:
        """Raise UsageError naming the first setting that makes no sense."""
        _check_types(self)
        for name, low, allow_equal in _BOUNDS:
            value = _lookup(self, name)
            if not math.isfinite(value):
                raise UsageError(f"{name} must be a finite number, got {value}")
            if value < low or (value == low and not allow_equal):
                raise UsageError(f"{name} must be {'at least' if allow_equal else 'greater than'} {low}, got {value}")
        for name in ("cv.gamma", "pg.gamma"):
            if _lookup(self, name) > 1:
                raise UsageError(f"{name} must be at most 1, got {_lookup(self, name)}")
        if not 0 <= self.cv.eta_decay <= 1:
            raise UsageError(f"cv.eta_decay must lie between 0 and 1, got {self.cv.eta_decay}")
        _check_auto(self.cv)
        if self.cv.learn_gamma and self.cv.eta != "auto" and self.method == "cv" and not 0.5 <= self.cv.gamma < 1:
            raise UsageError(
                f"cv.gamma must lie in [0.5, 1) to be learned, got {self.cv.gamma}; add --cv.no-learn-gamma to fix it"
            )
        if any(size < 1 for size in self.policy.hidden):
            raise UsageError(f"policy.hidden needs positive sizes, got {self.policy.hidden}")
        return self


def _check_auto(cv: CvConfig) -> None:
    if not cv.discounts or len(set(cv.discounts)) < len(cv.discounts) or not all(0 < g <= 1 for g in cv.discounts):
        raise UsageError(f"cv.discounts needs different numbers in (0, 1], got {cv.discounts}")
    if not set(cv.values) <= {"linear", "network"} or len(set(cv.values)) < len(cv.values):
        raise UsageError(f"cv.values takes linear and network, each at most once, got {cv.values}")


_BOUNDS: list[tuple[str, float, bool]] = [
    ("steps", 1, True),
    ("seed", 0, True),
    ("pairs", 1, True),
    ("sigma", 0, False),
    ("lr", 0, True),
    ("eval_every", 0, True),
    ("eval_episodes", 1, True),
    ("checkpoint_every", 1, True),
    ("keep_checkpoints", 1, True),
    ("max_trouble", 1, True),
    ("policy.init_std", 0, False),
    ("policy.output_scale", 0, True),
    ("cv.eta_rate", 0, True),
    ("cv.eta_shrinkage", 0, True),
    ("cv.eta_value", -1e6, True),
    ("cv.gamma", 0, False),
    ("cv.gamma_rate", 0, True),
    ("pg.gamma", 0, False),
    ("pg.updates", 1, True),
    ("pg.clip", 0, False),
    ("pg.kl_penalty", 0, True),
]


def _lookup(config: Any, dotted: str) -> Any:
    for name in dotted.split("."):
        config = getattr(config, name)
    return config


def _check_types(config: Any, prefix: str = "") -> None:
    """Literals hold one of their values, numbers are numbers: config.json and keywords are not checked by tyro."""
    hints = get_type_hints(type(config))
    for item in dataclasses.fields(config):
        value, hint, name = getattr(config, item.name), hints[item.name], prefix + item.name
        if dataclasses.is_dataclass(value):
            _check_types(value, f"{name}.")
        elif options := [o for o in get_args(hint) if isinstance(o, str)]:
            if value not in options:
                close = did_you_mean(str(value), options)
                raise UsageError(f"{name} must be one of {', '.join(options)}, got {value!r}{close}")
        elif (hint is int and (not isinstance(value, int) or isinstance(value, bool))) or (
            hint is float and (not isinstance(value, int | float) or isinstance(value, bool))
        ):
            raise UsageError(f"{name} must be {'a whole number' if hint is int else 'a number'}, got {value!r}")
        elif (hint is bool and not isinstance(value, bool)) or (hint is str and not isinstance(value, str)):
            raise UsageError(f"{name} must be {'true or false' if hint is bool else 'text'}, got {value!r}")


def replace(config: Any, changes: Mapping[str, Any], prefix: str = "") -> Any:
    """A copy with changes, given as nested mappings ({"cv": {"gamma": 1.0}}) or dotted names ({"cv.gamma": 1.0})."""
    names = {item.name for item in dataclasses.fields(config)}
    flat: dict[str, Any] = {}
    for key, value in changes.items():
        name, _, rest = key.partition(".")
        if name not in names:
            raise UsageError(f"there is no setting {prefix + name!r}{did_you_mean(name, names)}")
        current = flat.get(name, getattr(config, name))
        if dataclasses.is_dataclass(current):
            nested = {rest: value} if rest else value
            if not isinstance(nested, Mapping):
                nested = dataclasses.asdict(nested)
            flat[name] = replace(current, nested, f"{prefix}{name}.")
        elif isinstance(current, tuple) and isinstance(value, list):
            flat[name] = tuple(value)
        else:
            flat[name] = value
    return dataclasses.replace(config, **flat)


def parse_value(text: str) -> Any:
    """A setting's value as somebody typed it: JSON where it is JSON (`0.1`, `true`, `[64, 64]`), else the text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def to_dict(config: Config) -> dict[str, Any]:
    """Plain values, as written to config.json."""
    return dataclasses.asdict(config)


def from_dict(values: Mapping[str, Any]) -> Config:
    """The config a run folder holds; unknown or ill-typed settings are a UsageError."""
    if not isinstance(values, Mapping) or not isinstance(values.get("task"), str):
        raise UsageError("config.json names no task")
    config: Config = replace(Config(task=values["task"]), values)
    return config.validate()


def flatten(config: Config) -> dict[str, Any]:
    """Dotted name -> value."""

    def walk(values: Mapping[str, Any], prefix: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in values.items():
            if isinstance(value, dict) and key != "task_settings":
                found |= walk(value, f"{prefix}{key}.")
            else:
                found[prefix + key] = value
        return found

    return walk(to_dict(config), "")


def changed(old: Config, new: Config) -> list[str]:
    """Dotted names of the settings that differ."""
    before, after = flatten(old), flatten(new)
    return [name for name in after if _plain(before[name]) != _plain(after[name])]


def refuse_unused(default: Config, config: Config) -> Config:
    """`config`, unless it changes a default that the chosen kind of control variate never looks at."""
    if config.method == "cv":
        unused = _NOT_FOR_AUTO if config.cv.eta == "auto" else _FOR_AUTO
        if wrong := [name for name in changed(default, config) if name in unused]:
            fix = "--cv.eta moments (or sgd, fixed)" if config.cv.eta == "auto" else "--cv.eta auto"
            raise UsageError(f"{wrong[0]} has no effect with cv.eta {config.cv.eta}; it needs {fix}")
    return config


_FOR_AUTO = {"cv.metric", "cv.discounts", "cv.values"}
_NOT_FOR_AUTO = {
    f"cv.{name}"
    for name in ("eta_rate", "eta_shrinkage", "eta_per", "eta_value", "gamma", "learn_gamma", "gamma_rate", "baseline")
}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def default_workers() -> int:
    """One worker per core this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


_RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")


def check_run_name(name: str) -> str:
    """A run name is one plain folder name, so that it cannot leave the run root."""
    if not _RUN_NAME.fullmatch(name):
        raise UsageError(
            f"run name {name!r} is not allowed: use letters, digits, '.', '_', '+' and '-', "
            "starting with a letter or digit"
        )
    return name


def check_out(out: Path) -> Path:
    """The run root, made if missing; a UsageError if nothing can be written there."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        probe = out / f".quell-write-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise UsageError(f"cannot write to {str(out)!r}: {error.strerror}; choose another folder with --out") from None
    return out
