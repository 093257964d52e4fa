"""What a method is, what a combination of strategies is called, and the numbers of the presets.

A method is a combination: an estimator, directions, a step, and whether actions are deterministic. Its name is never
stored: `method_of` reads it off the combination, and whatever is in no row of METHODS is "custom". A preset chooses
numbers alone: `tuned` has one file per family of methods, `paper` one for all. In a file, a task gets [default] and
one table on top: its own, or [others] and [others-discrete] for environments that are not quell's.
"""

from __future__ import annotations

import functools
import itertools
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from typing import Any, Protocol

from quell import registry, words
from quell.errors import UsageError, did_you_mean
from quell.estimate import Estimator
from quell.estimate.actor_critic import ActorCritic
from quell.estimate.ars import Ars
from quell.estimate.control_variate import ControlVariate
from quell.estimate.control_variate.advantages import AdvantageColumn
from quell.estimate.control_variate.coefficients import LayerCoefficients, MseCoefficients
from quell.estimate.es import Es
from quell.estimate.policy_gradient import PolicyGradient
from quell.estimate.ppo import Ppo
from quell.estimate.surrogate import PaperPpo, PaperTrpo
from quell.perturb import Kind, Unperturbed
from quell.perturb.gaussian import Gaussian
from quell.perturb.gcmc import Gcmc
from quell.perturb.orthogonal import Orthogonal
from quell.perturb.qmc import Qmc
from quell.policy import DeterministicPolicy, GaussianPolicy, PolicySettings
from quell.update import Step
from quell.update.first_order import Adam, Sgd
from quell.update.mixed import Mixed
from quell.update.natural import Natural

DEFAULT = "natural-cv"
INSTEAD = dict.fromkeys(("lqr", "lqr-302"), "es")
"""Task -> what is trained where no method is asked for, if not the default. Where states grow without bound, no Fisher
matrix is finite, so there is no natural step, and policy gradients overflow."""
CUSTOM = "custom"
Table = Mapping[str, Any]


class Combination(Protocol):
    """What a name is read off: a run's config has it."""

    @property
    def estimator(self) -> Estimator: ...

    @property
    def directions(self) -> Kind: ...

    @property
    def step(self) -> Step: ...

    @property
    def policy(self) -> PolicySettings: ...

    @property
    def normalise_obs(self) -> bool: ...


@dataclass(frozen=True)
class Method:
    """The strategies that a method's name stands for."""

    summary: str
    family: str
    """Its file of tuned settings."""
    estimator: Estimator
    directions: Kind = field(default_factory=Gaussian)
    step: Step = field(default_factory=Adam)
    policy: PolicySettings = field(default_factory=GaussianPolicy)
    """For continuous actions."""
    discrete: bool = True
    """Whether it acts with a categorical policy where actions are choices."""
    normalise_obs: bool | None = None
    """Where that is part of what the method is."""

    @property
    def kinds(self) -> Iterator[str]:
        """Names of the kinds of policies that it has."""
        return iter([_policy(self.policy), *(["categorical"] if self.discrete else [])])


NATURAL_CV = ControlVariate(shaping="past", columns=AdvantageColumn(), coefficients=LayerCoefficients(), metric="step")
"""The control variate with a critic's advantages, weighed in the metric of the natural step."""
MIXED_CV = replace(NATURAL_CV, coefficients=MseCoefficients(allow=0.5, lean=2.0, doubt=4.0), metric="parameters")
"""The same, weighed by variance + bias^2, and by what the policy gradient can see."""


def _methods() -> dict[str, Method]:
    best = "ARS: ES with the best directions only, on a linear policy when tuned"
    user_trpo = "the usual TRPO: a critic, a natural step, a line search"
    user_ppo = "the usual PPO: a critic, minibatches, epochs"
    deterministic = DeterministicPolicy()
    return {
        "natural-cv": Method(
            "the default: ES with a critic's control variate and a natural step",
            "natural",
            NATURAL_CV,
            step=Natural(),
        ),
        "mixed-cv": Method(
            "ES and a critic's policy gradient, weighed by noise and bias: one setting for rewards at once or late",
            "mixed",
            MIXED_CV,
            step=Mixed(),
        ),
        "cv": Method("the paper's method: ES with the structured control variate (eq. 8)", "es", ControlVariate()),
        "es": Method("evolution strategies, i.i.d. Gaussian directions", "es", Es()),
        "ortho": Method("ES with orthogonal directions", "directions", Es(), Orthogonal()),
        "gcmc": Method("ES with geometrically coupled pairs", "directions", Es(), Gcmc()),
        "qmc": Method("ES with Halton directions", "directions", Es(), Qmc()),
        "det": Method("ES on a deterministic policy", "directions", Es(), policy=deterministic, discrete=False),
        "ars": Method(best, "ars", Ars(), step=Sgd(), policy=deterministic),
        "pg": Method("policy gradient", "policy-gradients", PolicyGradient(), Unperturbed()),
        "ppo": Method(user_ppo, "ppo", Ppo(), Unperturbed(), Sgd()),
        "trpo": Method(user_trpo, "natural", ActorCritic(line_search=True), Unperturbed(), Natural()),
        **_ppo_of_the_paper(),
        "trpo-paper": Method(
            "the paper's TRPO: surrogate with a KL penalty", "policy-gradients", PaperTrpo(), Unperturbed()
        ),
    }


def _ppo_of_the_paper() -> dict[str, Method]:
    """The clipped surrogate with every combination of the paper's switches."""
    table = {}
    for switches in itertools.chain.from_iterable(itertools.combinations("sam", size) for size in range(4)):
        words = " and ".join({"s": "observation", "a": "advantage"}[letter] for letter in switches if letter in "sa")
        parts = ["the paper's PPO: clipped surrogate", *([f"{words} normalisation"] if words else [])]
        table["+".join(["ppo-paper", *switches])] = Method(
            ", ".join([*parts, "10 updates per batch"] if "m" in switches else parts),
            "policy-gradients",
            PaperPpo(updates=10 if "m" in switches else 1, normalise_advantages="a" in switches),
            Unperturbed(),
            normalise_obs="s" in switches,
        )
    return table


METHODS = _methods()
TITLES = {"natural-cv": "natural CV", "mixed-cv": "mixed CV"}
"""What tables and figures call a method, if not by its name in capitals."""


def title(name: str) -> str:
    """A method's name, or one that begins with it ("cv lr 0.03"), as tables and figures show it."""
    method, space, label = name.partition(" ")
    return name if method == CUSTOM else TITLES.get(method, method.upper()) + space + label


def method_name(name: str) -> str:
    """A method's one name: in small letters, switches (ppo-paper+m+a) in one order."""
    if not isinstance(name, str):
        raise UsageError(f"`method={name!r:.80}` must be a name; an object is given as `estimator=...`")
    head, *switches = name.lower().split("+")
    key = "+".join([head, *sorted(switches, key="sam".find)])
    if key not in METHODS:
        hint = f": {words.METHODS[head]}" if head in words.METHODS else did_you_mean(name, METHODS)
        if head == "ppo" and switches:
            hint = f" (the paper's switches are those of {key.replace('ppo', 'ppo-paper', 1)!r})"
        raise UsageError(f"unknown method {name!r}{hint}; `quell list methods` lists them all")
    return key


def default_method(task: str) -> str:
    """What a task is trained with where no method is asked for."""
    return INSTEAD.get(task, DEFAULT)


def instead(task: str) -> str | None:
    """A sentence on why a task's default is another method, where it is."""
    chosen = INSTEAD.get(task)
    return chosen and f"{task}: method {chosen}, because natural steps do not work where states grow without bound"


def method_of(config: Combination) -> str:
    """The name of the method that a config's strategies are, or "custom"."""
    return _names().get(_signature(config.estimator, config.directions, config.step) + _also(config), CUSTOM)


def combination_of(config: Combination) -> str:
    """The same, a custom one with its parts: "custom (policy-gradient, adam)"."""
    if (method := method_of(config)) != CUSTOM:
        return method
    estimator, directions, step = (
        registry.name_of(part) for part in (config.estimator, config.directions, config.step)
    )
    parts = [estimator, "" if directions in ("gaussian", "none") else directions, step]
    parts.append("deterministic" if _policy(config.policy) == "deterministic" else "")
    return f"{CUSTOM} ({', '.join(filter(None, parts))})"


@functools.cache
def _names() -> dict[tuple[str, ...], str]:
    """Combination -> method."""
    found = {}
    for name, method in METHODS.items():
        for policy in method.kinds:
            for normalised in (True, False) if method.normalise_obs is None else (method.normalise_obs,):
                also = (policy, _switch(method.estimator, normalised))
                found[_signature(method.estimator, method.directions, method.step) + also] = name
    return found


def _also(config: Combination) -> tuple[str, ...]:
    return _policy(config.policy), _switch(config.estimator, config.normalise_obs)


def _switch(estimator: Estimator, normalise_obs: bool) -> str:
    """+S is part of what the paper's PPO is called, and of no other method."""
    return str(normalise_obs) if registry.name_of(estimator) == "ppo-paper" else ""


def _signature(estimator: Estimator, directions: Kind, step: Step) -> tuple[str, ...]:
    """Names of the strategies, and of what is inside an estimator."""
    own = registry.settings_of(estimator)
    inner = [registry.name_of(own[name]) for name in ("columns", "coefficients") if name in own]
    inner += [str(own[name]) for name in ("metric", "line_search", "normalise_advantages") if name in own]
    inner += [str(own["updates"] != 1)] if "updates" in own else []
    return registry.name_of(estimator), *inner, registry.name_of(directions), registry.name_of(step)


def _policy(policy: PolicySettings) -> str:
    """deterministic, categorical, or any other that samples."""
    name = registry.name_of(policy)
    return name if name in ("deterministic", "categorical") else "stochastic"


def space(method: str) -> Table:
    """A method's main settings and the values that `quell tune` tries."""
    return _file(METHODS[method].family).get("space", {})


def layers(method: str, preset: str, task: str, *, foreign: bool, discrete: bool) -> list[tuple[str, Table]]:
    """(source, settings) that a preset has for a method on a task, later ones on top: [default], and one table more."""
    family = METHODS[method].family if preset == "tuned" else preset
    tables = _file(family)
    named = [task, *((["others-discrete"] if discrete else ["others"]) if foreign else [])]
    own = next((name for name in named if name in tables), "")
    return [(f"presets/{family}.toml [{name}]", tables[name]) for name in ("default", own) if name in tables]


@functools.cache
def _file(family: str) -> dict[str, Table]:
    """Table -> settings by their dotted names."""
    text = (files("quell.presets") / f"{family}.toml").read_text(encoding="utf-8")
    return {name: dict(_dotted(table)) for name, table in tomllib.loads(text).items()}


def _dotted(table: Table, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _dotted(value, f"{prefix}{name}.")
        else:
            yield prefix + name, tuple(value) if isinstance(value, list) else value
