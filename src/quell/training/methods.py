"""Names of methods, and what each stands for: estimator, directions and settings, with the paper's values or ours."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from quell import registry
from quell.config import STRATEGIES, Config, Preset, flatten, full_name, replace
from quell.errors import UsageError, did_you_mean, require
from quell.estimate import Estimator, Problem
from quell.estimate.actor_critic import ActorCritic
from quell.estimate.ars import Ars
from quell.estimate.control_variate import ControlVariate
from quell.estimate.control_variate.advantages import AdvantageColumn
from quell.estimate.control_variate.coefficients import LayerCoefficients
from quell.estimate.es import Es
from quell.estimate.policy_gradient import PolicyGradient
from quell.estimate.ppo import Ppo
from quell.estimate.surrogate import PaperPpo, PaperTrpo
from quell.limits import require_memory
from quell.perturb import Unperturbed
from quell.perturb.gaussian import Gaussian
from quell.perturb.gcmc import Gcmc
from quell.perturb.orthogonal import Orthogonal
from quell.perturb.qmc import Qmc
from quell.policy.network import Policy
from quell.tasks.base import Task
from quell.update.first_order import Adam, Sgd
from quell.update.natural import Natural


@dataclass(frozen=True)
class Method:
    """What a method's name stands for, with the paper's settings, and what the preset "tuned" changes."""

    summary: str
    estimator: Estimator
    directions: Any = field(default_factory=Gaussian)
    settings: Mapping[str, Any] = field(default_factory=dict)
    tuned: Mapping[str, Any] = field(default_factory=dict)
    space: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """Its main settings and the values that `quell tune` tries."""
    by_task: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Task -> settings that pay there, on top of `tuned`."""
    own_tasks: bool = False
    """Whether tasks only say how actions are bounded: the rest of what they say is meant for first-order steps."""


NATURAL_CV = ControlVariate(shaping="past", columns=AdvantageColumn(), coefficients=LayerCoefficients(), metric="step")
"""The control variate with a critic's advantages, weighed where a natural step feels noise."""
LONG_STEPS = {"step.lr": 0.03}
"""Most of the noise of ES lies where the policy does not feel it, so it bears longer steps than the paper's 0.01.
So does a control variate that adds none where the policy does feel it (docs/variance.md)."""
BOUNDED = {"normalise_obs": True, "policy.activation": "tanh"}
SMALL_NOISE = {"policy.init_std": 0.37, **BOUNDED}
NATURAL = {"step": Natural(kl=0.1, schedule="linear"), "pairs": 2, "batch_steps": 4000, **SMALL_NOISE}
"""Many small steps, each as long as a KL divergence allows, in the policy's own metric."""
ADVANTAGE = {"estimator": NATURAL_CV, **NATURAL}
OTHERS_AS_BASELINE = {"baseline": "leave-one-out"}
TRUST_REGION = {"estimator": ActorCritic(gamma=0.995, trace=0.97, line_search=True), **NATURAL}
"""TRPO as its users know it, a natural step within a trust region and a critic: CV's settings, without perturbation."""
PROXIMAL = {
    "estimator": Ppo(),
    "step": Sgd(lr=1.0, schedule="linear"),
    "pairs": 1,
    "batch_steps": 2000,
    "policy.hidden": (64, 64),
    **SMALL_NOISE,
}
"""PPO as its users know it."""
LINEAR = {
    "policy": "deterministic",
    "policy.hidden": (),
    "policy.output_scale": 0.0,
    "directions.sigma": 0.03,
    "step": Sgd(lr=0.0012),
    "pairs": 8,
    "normalise_obs": True,
}
"""ARS of its authors: a linear policy that begins at zero; 2 sigma alpha with their sigma 0.03 and alpha 0.02."""


SHAKY = {"policy.init_std": 1.0, "step": Natural(kl=0.02), "gamma": 0.99}
"""Where a policy has to find its reward first: larger action noise, and small steps to keep it."""
NARROW = {"directions.sigma": 0.005, "pairs": 1, "batch_steps": 2000}
"""Where the gait is found soon: perturbations that hardly disturb it, and twice as many steps."""
ANYWHERE = {"shared_reset": False, "critic.kept": 15, "critic.updates": 200, "policy.init_std": 1.0}
"""Where episodes begin in any position: none from where another did, a critic that remembers many, larger noise."""
SMALL_BATCHES = {
    "gamma": 0.99,
    "trace": 0.95,
    "step.damping": 1.0,
    "pairs": 1,
    "batch_steps": 2000,
    "policy.hidden": (64, 64),
}
"""Where it has to get up first: many steps, and a metric that a batch of two episodes cannot distort."""
NEAR = {"gamma": 0.97, "trace": 0.9}
"""Where getting up is worth it at once."""
CUT: dict[str, Any] = {"train_horizon": 400}
"""Where standing still or hovering is safe and fills whole batches: episodes are cut before it does."""
SHORT: dict[str, Any] = {"train_horizon": 250}
"""Where what begins an episode decides it: many beginnings in a batch, in place of one that goes on and on."""
KEPT_NOISE: dict[str, Any] = {"policy.init_std": 0.7, "policy.learn_std": False}
"""Where action noise that is learned shrinks before the gait is found."""
UNSTABLE: dict[str, Any] = {
    "estimator": Es(),
    "step": Adam(lr=0.003, max_norm=1.0),
    "pairs": 5,
    "batch_steps": 0,
    "normalise_obs": False,
    "policy.activation": "relu",
    "policy.init_std": 1.0,
}
"""Where states grow without bound no Fisher matrix is finite, policy gradients overflow, and a bounded layer cannot
answer them: plain ES, and nothing but ES."""
NATURAL_TASKS: dict[str, dict[str, Any]] = {
    "halfcheetah": {**NARROW, "trace": 0.95},
    "dm-cheetah-run": NARROW,
    "roboschool-halfcheetah": {"directions.sigma": 0.005, "shared_reset": False},
    "ant": {"directions.sigma": 0.005, "gamma": 0.99, "policy.init_std": 0.2},
    # Its reward is far behind the stroke that earns it; and where action noise is learned, it may shrink too soon.
    "swimmer": {
        "gamma": 1.0,
        "trace": 0.995,
        "critic.updates": 400,
        "policy.init_std": 0.6,
        "policy.learn_std": False,
    },
    "dm-cartpole-swingup": SHAKY,
    "dm-cartpole-two-poles": {**SHAKY, "step": Natural(kl=0.05, schedule="linear")},
    "dm-cartpole-balance": {"policy.init_std": 1.0, "step.kl": 0.03},
    "dm-quadruped-walk": {**ANYWHERE, **SMALL_BATCHES, **NEAR, **SHORT, **KEPT_NOISE},
    "dm-quadruped-escape": {**ANYWHERE, **SMALL_BATCHES, **SHORT, **KEPT_NOISE},
    "dm-hopper-stand": {**ANYWHERE, **SMALL_BATCHES, "policy.init_std": 0.5, "policy.learn_std": False},
    "dm-hopper-hop": {**ANYWHERE, "gamma": 0.999},
    "dm-pendulum-swingup": {**ANYWHERE, "gamma": 0.99},
    "roboschool-pong": SHAKY,
    "bipedalwalker": {**CUT, "gamma": 0.99, "trace": 0.95},
    "gym:LunarLander-v3": {**CUT, **NARROW, "shared_reset": False},
    "lqr": UNSTABLE,
    "lqr-302": UNSTABLE,
}
"""Found by `quell tune` on seeds from 100 up (results/tuning)."""
WIDE = {"step.lr": 0.03, "directions.sigma": 0.1, "pairs": 20, "policy.init_std": 0.14, **BOUNDED}
"""Many large perturbations."""
RESTLESS = {**WIDE, "step.lr": 0.1, "policy.init_std": 0.37, "normalise_obs": False}
"""The same with long steps, where there is nothing to lose at first."""
CAREFUL = {**RESTLESS, "step.lr": 0.003, "directions.sigma": 0.01, "pairs": 10, "policy.init_std": 0.14}
"""Where a policy is better off standing than falling: little of everything."""
ES_TASKS: dict[str, dict[str, Any]] = {
    "lqr": {"step": UNSTABLE["step"]},
    "lqr-302": {"step": UNSTABLE["step"]},
    "hopper": {"directions.sigma": 0.05, "pairs": 10, **BOUNDED},
    "walker2d": WIDE,
    "inverted-double-pendulum": WIDE,
    "ant": CAREFUL,
    "dm-cartpole-balance": CAREFUL,
    "dm-quadruped-walk": RESTLESS,
    "dm-pendulum-swingup": RESTLESS,
}
"""Likewise, for ES; elsewhere what was in use did best."""
QUICK = {"estimator.lr": 1e-3, "trace": 0.9, "policy.init_std": 0.14}
PROXIMAL_TASKS: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("halfcheetah", "dm-cheetah-run", "ant"), QUICK),
    "dm-cartpole-two-poles": {
        **{"estimator.epochs": 20, "gamma": 0.98, "trace": 0.97, "policy.init_std": 1.0},
    },
    "hopper": {"policy.init_std": 1.0},
    "walker2d": {"policy.init_std": 1.0},
    "swimmer": {"gamma": 1.0, "trace": 0.995, "critic.updates": 400},  # see NATURAL_TASKS
    "gym:LunarLander-v3": CUT,
    "dm-quadruped-walk": {**ANYWHERE, **NEAR, **SHORT},
    "dm-quadruped-escape": {**ANYWHERE, **SHORT},
} | dict.fromkeys(("dm-hopper-stand", "dm-hopper-hop", "dm-pendulum-swingup"), ANYWHERE)
ALL_DIRECTIONS = {"directions.sigma": 0.05, "step.lr": 0.003, "estimator.top": 1.0}
LINEAR_TASKS: dict[str, dict[str, Any]] = {
    **{task: {"estimator.per_step": -1.0} for task in ("hopper", "walker2d")},
    "ant": {"estimator.per_step": -1.0, "directions.sigma": 0.1, "step.lr": 0.003, "pairs": 16},
    "humanoid": {"estimator.per_step": -5.0},
    "dm-cartpole-two-poles": ALL_DIRECTIONS,
    "gym:LunarLander-v3": ALL_DIRECTIONS,
    "dm-pendulum-swingup": {"step.lr": 0.01},
    "dm-quadruped-walk": {"step.lr": 0.003, "pairs": 16},
}
"""The authors of ARS leave out what survival alone is paid."""
NATURAL_SPACE: dict[str, tuple[Any, ...]] = {
    "step.kl": (0.02, 0.05, 0.1, 0.2),
    "step.damping": (0.01, 0.1, 1.0),
    "gamma": (0.99, 0.995, 0.999, 1.0),
    "trace": (0.95, 0.97),
    "policy.init_std": (0.37, 1.0),
    "batch_steps": (2000, 4000, 8000),
}
PROXIMAL_SPACE: dict[str, tuple[Any, ...]] = {
    "estimator.lr": (1e-4, 3e-4, 1e-3),
    "estimator.epochs": (5, 10, 20),
    "gamma": (0.98, 0.99, 0.995),
    "trace": (0.9, 0.95, 0.97),
    "policy.init_std": (0.14, 0.37, 1.0),
    "batch_steps": (2000, 4000, 8000),
}
LINEAR_SPACE: dict[str, tuple[Any, ...]] = {
    "directions.sigma": (0.01, 0.03, 0.05, 0.1),
    "step.lr": (0.0003, 0.001, 0.003, 0.01),
    "pairs": (1, 4, 8, 16),
    "estimator.top": (0.5, 1.0),
}
FIRST_ORDER_SPACE: dict[str, tuple[Any, ...]] = {
    "step.lr": (0.003, 0.01, 0.03, 0.1),
    "directions.sigma": (0.01, 0.02, 0.05, 0.1),
    "policy.init_std": (0.14, 0.37, 1.0),
    "policy.activation": ("relu", "tanh"),
    "pairs": (5, 10, 20),
    "normalise_obs": (True, False),
}


def _methods() -> dict[str, Method]:
    natural: dict[str, Any] = {"space": NATURAL_SPACE, "own_tasks": True}
    stable = {task: own for task, own in NATURAL_TASKS.items() if own is not UNSTABLE}
    plain = "evolution strategies, i.i.d. Gaussian directions"
    surrogate = "surrogate with a KL penalty; tuned: a natural step and a critic"
    ours = "ES with the structured control variate"
    best = "ES on a linear policy, best directions only"
    return {
        "es": Method(plain, Es(), tuned=LONG_STEPS, space=FIRST_ORDER_SPACE, by_task=ES_TASKS),
        "ortho": Method("ES with orthogonal directions", Es(), Orthogonal(), tuned=LONG_STEPS),
        "gcmc": Method("ES with geometrically coupled pairs", Es(), Gcmc(), tuned=LONG_STEPS),
        "qmc": Method("ES with Halton directions", Es(), Qmc(), tuned=LONG_STEPS | {"directions.shift": True}),
        "cv": Method(ours, ControlVariate(), tuned=ADVANTAGE, by_task=NATURAL_TASKS, **natural),
        "det": Method("ES on a deterministic policy", Es(), settings={"policy": "deterministic"}, tuned=LONG_STEPS),
        "ars": Method(
            best, Ars(), Gaussian(), LINEAR, LINEAR, space=LINEAR_SPACE, by_task=LINEAR_TASKS, own_tasks=True
        ),
        "pg": Method("policy gradient", PolicyGradient(), Unperturbed(), tuned=OTHERS_AS_BASELINE),
        "trpo": Method(surrogate, PaperTrpo(), Unperturbed(), tuned=TRUST_REGION, by_task=stable, **natural),
        **_ppo(),
    }


def _ppo() -> dict[str, Method]:
    """The clipped surrogate with every combination of the paper's switches; without any, tuned is PPO with epochs."""
    table = {}
    for switches in itertools.chain.from_iterable(itertools.combinations("sam", size) for size in range(4)):
        words = " and ".join({"s": "observation", "a": "advantage"}[letter] for letter in switches if letter in "sa")
        parts = ["clipped surrogate", *([f"{words} normalisation"] if words else [])]
        table["+".join(["ppo", *switches])] = Method(
            ", ".join([*parts, "10 updates per batch"] if "m" in switches else parts),
            PaperPpo(updates=10 if "m" in switches else 1, normalise_advantages="a" in switches),
            Unperturbed(),
            {"normalise_obs": True} if "s" in switches else {},
            OTHERS_AS_BASELINE,
        )
    summary = "clipped surrogate; tuned: a critic, minibatches, epochs"
    tuned: dict[str, Any] = {"tuned": PROXIMAL, "space": PROXIMAL_SPACE, "by_task": PROXIMAL_TASKS, "own_tasks": True}
    return table | {"ppo": dataclasses.replace(table["ppo"], summary=summary, **tuned)}


METHODS = _methods()
PAPER: dict[str, Any] = {"policy.output_scale": 0.01, "policy.init_std": 0.37}
"""What the preset "paper" changes for every task: a small start. The paper does not print it; it is inferred: only with
it do untrained policies earn what its tables show for methods that hardly learn (results/initial-policy)."""
TUNED: dict[str, Any] = {"shared_reset": True, "policy.output_scale": 0.1}
"""What the preset "tuned" changes for every task and method; what a method and a task say themselves comes on top."""


def method_name(name: str) -> str:
    """A method's one name: in small letters, PPO's switches (ppo+m+a) in one order."""
    if not isinstance(name, str):
        advice = "an object is given as `estimator=...`, `directions=...` or `step=...`"
        raise UsageError(f"`method={name!r:.80}` must be a name; {advice}")
    key = _key(name)
    if key not in METHODS:
        raise UsageError(f"unknown method {name!r}{did_you_mean(name, METHODS)}; `quell methods` lists them all")
    return key


def _key(name: str) -> str:
    head, *switches = name.lower().split("+")
    return "+".join([head, *sorted(switches, key="sam".find)])


def trained(config: Config) -> str:
    """What a config trains, by its strategies and not by what it is called.

    "es" for plain ES, whatever it was asked for as; the method's name where the strategies are among those that it
    stands for; else a custom combination: "custom (policy-gradient, adam)".
    """
    own = _combination(config)
    if own in _stands_for("es"):
        return "es"
    key = _key(config.method)
    return config.method if key in METHODS and own in _stands_for(key) else f"custom ({', '.join(filter(None, own))})"


def _combination(config: Config) -> tuple[str, ...]:
    """Estimator, directions unless they go without saying, step, and whether actions are deterministic."""
    names = [registry.name_of(getattr(config, kind)) for kind in ("estimator", "directions", "step")]
    names[1] = "" if names[1] in ("gaussian", "none") else names[1]
    return (*names, "deterministic" if registry.name_of(config.policy) == "deterministic" else "")


@functools.cache
def _stands_for(name: str) -> frozenset[tuple[str, ...]]:
    """Every combination that a method's presets use."""
    method, found = METHODS[name], set[tuple[str, ...]]()
    policies = {"deterministic" if method.settings.get("policy") == "deterministic" else ""}
    policies |= {""} if name != "det" else set()  # where actions are discrete
    for own in ({}, *({**method.tuned, **task} for task in ({}, *method.by_task.values()))):
        settings = {"estimator": method.estimator, "directions": method.directions, **method.settings, **own}
        config = Config(task="", **{kind: value for kind, value in settings.items() if kind in STRATEGIES[1:]})
        found.update((*_combination(config)[:3], policy) for policy in policies)
    return frozenset(found)


def falls_back(config: Config) -> bool:
    """Whether a control variate was asked for and plain ES is what the task gets."""
    return config.method == "cv" and isinstance(config.estimator, Es)


def make_config(
    task: str,
    method: str = "cv",
    preset: Preset = "tuned",
    overrides: Mapping[str, Any] | None = None,
    instance: Task | None = None,
) -> Config:
    """The method's strategies, then the paper's start or (tuned) our settings, the method's and the task's.

    Overrides come last, but strategies among them first, so that presets and other overrides speak of what is used.
    `instance` is the task itself where `task` is not a name that can be looked up.
    """
    import quell.tasks

    if preset not in ("tuned", "paper"):
        raise UsageError(f"unknown preset {preset!r}: use tuned or paper")
    method = method_name(method)
    chosen, played = METHODS[method], instance or quell.tasks.get(task)
    config = Config(
        task=played.name, method=method, preset=preset, estimator=chosen.estimator, directions=chosen.directions
    )
    fitting = {"policy": "categorical"} if played.discrete and method != "det" else {}
    config = replace(config, {**chosen.settings, **fitting}, lenient=True)
    asked = dict(overrides or {})
    config = _choose(config, asked)
    if preset == "paper":
        config = replace(config, {n: v for n, v in PAPER.items() if n not in chosen.settings}, lenient=True)
    if preset == "tuned":
        said = {n: v for n, v in played.tuned.items() if not chosen.own_tasks or n == "policy.actions"}
        own = {**chosen.settings, **fitting}  # what a method is, whatever tasks say
        for tuned in (TUNED, {**chosen.tuned, **fitting}, said, own, chosen.by_task.get(played.name, {})):
            config = replace(config, tuned, lenient=True)
        config = _fit(_choose(config, asked))
    return replace(config, asked)


def _fit(config: Config) -> Config:
    """A step that looks at nothing does without a line search."""
    estimator = config.estimator
    if isinstance(estimator, ActorCritic) and not config.step.states:
        return replace(config, {"estimator.line_search": False})
    return config


def _choose(config: Config, asked: Mapping[str, Any]) -> Config:
    """The config with the strategies that were asked for, as objects or by name."""
    chosen = {name: value for name, value in asked.items() if name.rpartition(".")[2] in registry.KINDS}
    known = {name: value for name, value in chosen.items() if full_name(name, flatten(config)) is not None}
    config = replace(config, known)
    unperturbed = not config.estimator.needs.perturbed
    if "directions" not in chosen and unperturbed != (config.directions.sigma == 0):
        config = replace(config, {"directions": Unperturbed() if unperturbed else Gaussian()})
    return config


def as_strategies(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Keywords with an optax optimiser, if there is one, made a step."""
    step = settings.get("step")
    if hasattr(step, "init") and hasattr(step, "update") and not registry.is_strategy(step):
        from quell.update.first_order import OwnOptax

        return {**settings, "step": OwnOptax(step)}
    return dict(settings)


def make_task(config: Config) -> Task:
    """The task with the config's settings, on this machine."""
    task = find_task(config)
    if task.extra is not None:
        require(task.extra, f"task {task.name!r}")
    return task


def find_task(config: Config) -> Task:
    """The same, whether or not it could run here: what a plan needs to know of it."""
    import quell.tasks

    settings: dict[str, Any] = dict(config.task_settings)
    if "horizon" in settings:
        raise UsageError("an episode's length is `horizon=...`, not a setting of the task")
    if config.horizon is not None:
        settings["horizon"] = config.horizon
    return quell.tasks.get(config.task, **settings)


FILE_LIKE = re.compile(r"[/\\~$:]|^\.")
"""What a text has that may be the name of a file, or of something to import."""


def refuse_files(settings: Mapping[str, Any], task: str) -> None:
    """Raise UsageError if settings of a task, which somebody else may have written, name files for it to open."""
    for name, text in settings.items():
        if isinstance(text, str) and (FILE_LIKE.search(text) or os.path.lexists(text)):
            opens = f"this run's settings name a file for {task:.80} to open ({name:.80} = {text!r:.300})"
            raise UsageError(f"{opens}: add `trust_files=True` if you know where the folder is from")


def make_policy(config: Config, task: Task) -> Policy:
    """The policy for a task; says when the two do not fit."""
    chosen = config.policy
    if task.discrete != chosen.discrete:
        wanted = "categorical" if task.discrete else "gaussian or deterministic"
        raise UsageError(f"task {task.name!r} needs a {wanted} policy, not {chosen.name} (policy)")
    known = not isinstance(config.estimator, registry.Elsewhere)  # else a run is being loaded, not trained
    if not chosen.stochastic and known and config.estimator.needs.trajectories:
        raise UsageError(
            f"method {config.method!r} needs a stochastic policy: its policy gradient is not defined without"
        )
    made: Policy = chosen.make(task)
    if made.own and isinstance(config.step, Natural):
        raise UsageError("the natural step knows quell's own networks alone: with yours, use step='adam' or another")
    return made


def check_memory(config: Config, task: Task, policy: Policy) -> None:
    """Complain of layers so wide that the step, or a critic, cannot hold what grows with their square."""
    for name, owner in registry.strategies(config).items():
        if callable(memory := getattr(owner, "memory", None)):
            setting = "policy.hidden" if name == "step" else f"{name}.hidden"
            what = f"{registry.name_of(owner)}'s arrays (smaller layers, `{setting}=...`)"
            require_memory(memory(policy, task.horizon), what)


def make_problem(config: Config, task: Task) -> Problem:
    """What the estimator is used on."""
    return Problem(make_policy(config, task), config.directions, config.seed)
