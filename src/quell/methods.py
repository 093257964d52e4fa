"""Paper name -> settings, and settings -> policy, directions and estimator.

Two axes make every method: how directions are drawn, and how a gradient is formed from the episodes.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from quell.config import Config, Preset, refuse_unused, replace
from quell.errors import UsageError, did_you_mean, require
from quell.tasks.base import Task

if TYPE_CHECKING:
    from quell.estimate import Estimator
    from quell.perturb import Directions
    from quell.policy import Policy


@dataclass(frozen=True)
class Method:
    """What a method's name stands for."""

    summary: str
    estimator: Literal["score", "control_variate", "policy_gradient", "ppo", "trpo"]
    settings: Mapping[str, Any]
    tuned: Mapping[str, Any] = field(default_factory=dict)
    """What the preset "tuned" changes for this method."""


LONG_STEPS = {"lr": 0.03}
"""Most of the noise of ES lies where the policy does not feel it, so it bears longer steps than the paper's 0.01.
So does a control variate that adds none where the policy does feel it (docs/variance.md)."""


def _methods() -> dict[str, Method]:
    table = {
        "es": Method("evolution strategies, i.i.d. Gaussian directions", "score", {}, LONG_STEPS),
        "ortho": Method("ES with orthogonal directions", "score", {"directions": "orthogonal"}, LONG_STEPS),
        "gcmc": Method("ES with geometrically coupled pairs", "score", {"directions": "gcmc"}, LONG_STEPS),
        "qmc": Method("ES with Halton directions", "score", {"directions": "qmc"}, LONG_STEPS),
        "cv": Method("ES with the structured control variate", "control_variate", {}, LONG_STEPS),
        "det": Method("ES on a deterministic policy", "score", {"policy.kind": "deterministic"}, LONG_STEPS),
        "pg": Method("policy gradient", "policy_gradient", {}),
        "trpo": Method("surrogate with a KL penalty", "trpo", {}),
    }
    switches: dict[str, dict[str, Any]] = {
        "s": {"normalise_obs": True},
        "a": {"pg.normalise_advantages": True},
        "m": {"pg.updates": 10},
    }
    words = {"s": "observation", "a": "advantage", "m": ""}
    for size in range(4):
        for chosen in itertools.combinations("sam", size):
            settings: dict[str, Any] = {k: v for letter in chosen for k, v in switches[letter].items()}
            normalised = " and ".join(words[letter] for letter in chosen if words[letter])
            parts = [f"{normalised} normalisation"] if normalised else []
            parts += ["10 updates per batch"] if "m" in chosen else []
            summary = "clipped surrogate" + (f", {', '.join(parts)}" if parts else "")
            table["+".join(["ppo", *chosen])] = Method(summary, "ppo", settings)
    return table


METHODS = _methods()

TUNED: dict[str, Any] = {
    "shared_reset": True,
    "qmc_shift": True,
    "policy.output_scale": 0.1,
    "cv.eta": "auto",
    "cv.metric": "policy",
    "cv.gamma": 1.0,
    "cv.learn_gamma": False,
    "cv.baseline": "leave-one-out",
    "pg.baseline": "leave-one-out",
}
"""What the preset "tuned" changes for every task and method; what a method and a task say themselves comes on top."""


def get_method(name: str) -> Method:
    """The method called `name`; PPO's switches may come in any order (ppo+m+a)."""
    head, *switches = name.lower().split("+")
    key = "+".join([head, *sorted(switches, key="sam".find)])
    if key not in METHODS:
        raise UsageError(f"unknown method {name!r}{did_you_mean(name, METHODS)}; `quell methods` lists them all")
    return METHODS[key]


def make_config(
    task: str,
    method: str = "cv",
    preset: Preset = "tuned",
    overrides: Mapping[str, Any] | None = None,
    instance: Task | None = None,
) -> Config:
    """The paper's defaults, then (tuned) ours, the method's and the task's, then what the method is, then overrides.

    `instance` is the task itself where `task` is not a name that can be looked up.
    """
    import quell.tasks

    chosen = get_method(method)
    found = instance or quell.tasks.get(task)
    config = Config(task=task, method=method.lower(), preset=preset)
    if preset not in ("tuned", "paper"):
        raise UsageError(f"unknown preset {preset!r}: use tuned or paper")
    if preset == "tuned":
        for settings in (TUNED, chosen.tuned, found.tuned):
            config = replace(config, settings)
    config = replace(config, chosen.settings)
    return refuse_unused(config, replace(config, overrides or {}))


def make_task(config: Config) -> Task:
    """The task with the config's settings."""
    import quell.tasks

    settings: dict[str, Any] = dict(config.task_settings)
    if config.horizon is not None:
        settings["horizon"] = config.horizon
    task = quell.tasks.get(config.task, **settings)
    if task.extra is not None:
        require(task.extra, f"task {task.name!r}")
    return task


def make_policy(config: Config, task: Task) -> Policy:
    """The policy for a task; says when the two do not fit."""
    from quell.policy import Policy

    chosen = config.policy
    kind = chosen.kind if chosen.kind != "auto" else "categorical" if task.discrete else "gaussian"
    if task.discrete != (kind == "categorical"):
        wanted = "categorical" if task.discrete else "gaussian or deterministic"
        raise UsageError(f"task {task.name!r} needs a {wanted} policy, not {kind} (policy.kind)")
    if kind == "deterministic" and get_method(config.method).estimator != "score":
        raise UsageError(
            f"method {config.method!r} needs a stochastic policy: its policy gradient is not defined without"
        )
    return Policy(
        task.obs_size,
        task.action_size,
        kind,
        chosen.hidden,
        chosen.activation,
        chosen.init_std,
        chosen.learn_std,
        chosen.output_scale,
        chosen.actions,
    )


def make_directions(config: Config, policy: Policy) -> Directions:
    from quell.perturb import Directions

    return Directions(config.directions, config.seed, config.pairs, policy.dim, config.qmc_shift)


def make_estimator(config: Config, policy: Policy) -> Estimator:
    """The estimator of the config's method."""
    kind, cv, pg = get_method(config.method).estimator, config.cv, config.pg
    if kind == "score":
        from quell.estimate.score import Score

        return Score(config.shaping)
    if kind == "control_variate" and cv.eta == "auto":
        return make_auto(config, policy)
    if kind == "control_variate":
        from quell.adapt import EsGamma, EtaLearner, FixedEta, FixedGamma, MomentsEta, SgdEta
        from quell.estimate.control_variate import ControlVariate
        from quell.estimate.value import ValueFunction

        layers = tuple(where for where, _ in policy.layout.values())
        learners: dict[str, EtaLearner] = {
            "sgd": SgdEta(policy.dim, cv.eta_rate),
            "moments": MomentsEta(policy.dim, layers, cv.eta_decay, cv.eta_shrinkage, cv.eta_per),
            "fixed": FixedEta(policy.dim, cv.eta_value),
        }
        gamma = EsGamma(config.seed, cv.gamma, cv.gamma_rate) if cv.learn_gamma else FixedGamma(cv.gamma)
        if cv.baseline == "linear" or cv.baseline == "network":
            value = ValueFunction(cv.baseline, policy.obs_size, decay=cv.eta_decay)
            return ControlVariate(policy, learners[cv.eta], gamma, config.shaping, value)
        return ControlVariate(policy, learners[cv.eta], gamma, config.shaping, cv.baseline)
    if kind == "policy_gradient":
        from quell.estimate.policy_gradient import PolicyGradient

        return PolicyGradient(policy, pg.gamma, pg.baseline)
    from quell.estimate.surrogate import Surrogate

    return Surrogate(policy, kind, pg.gamma, pg.baseline, pg.clip, pg.kl_penalty, pg.normalise_advantages, pg.updates)


def make_auto(config: Config, policy: Policy) -> Estimator:
    """The control variate that chooses among discounts, value functions and granularities, and plain ES.

    Subsets that compete: the first discount alone, each value function added to it, all discounts, and everything.
    """
    from quell.choose import Chooser
    from quell.choose_policy import PolicyChooser
    from quell.estimate.auto import AutoControlVariate
    from quell.estimate.value import ValueFunction

    cv = config.cv
    discounts, total = len(cv.discounts), len(cv.discounts) + len(cv.values)
    subsets = [(0,), *((0, k) for k in range(discounts, total)), tuple(range(discounts)), tuple(range(total))]
    layers = tuple(where for where, _ in policy.layout.values())
    kind = PolicyChooser if cv.metric == "policy" else Chooser
    chooser = kind(policy.dim, layers, total, tuple(dict.fromkeys(subsets)), cv.eta_decay)
    values = tuple(ValueFunction(kind, policy.obs_size, decay=cv.eta_decay) for kind in cv.values)
    return AutoControlVariate(policy, chooser, cv.discounts, values, config.shaping)
