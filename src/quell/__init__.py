"""quell: low-variance evolution strategies for reinforcement learning.

    result = quell.train("halfcheetah", method="natural-cv", steps=1_000_000)
    action = result.policy(obs)

Names are loaded when first used, so that importing quell costs nothing.
"""

import sys

if sys.platform == "win32":
    _WHY = (
        "quell runs on Linux and macOS, not on Windows itself (run folders need POSIX locks): use WSL 2, which is Linux"
    )
    if sys.argv[:1] == ["-m"] or sys.argv[0].replace("\\", "/").rpartition("/")[2].partition(".")[0] == "quell":
        sys.stderr.write(f"quell: error: {_WHY}\n")
        raise SystemExit(2)
    raise ImportError(_WHY)

if sys.argv[:1] == ["-m"] and sys.orig_argv[-len(sys.argv)] in ("quell", "-mquell") and not sys.flags.safe_path:
    del sys.path[0]  # the working directory, a run's say: of what lies there nothing shall be imported

import importlib
from typing import TYPE_CHECKING, Any

from quell.threads import settle

if TYPE_CHECKING:
    from quell.api import Result, evaluate, load, resume
    from quell.errors import QuellError, UsageError
    from quell.estimate import Estimate, Estimator, Needs, Problem, Rows
    from quell.estimate.control_variate import ControlVariate
    from quell.estimate.es import Es
    from quell.estimate.policy_gradient import PolicyGradient
    from quell.front import sweep, train
    from quell.measure import variance
    from quell.perturb import Directions, Draw
    from quell.policy import CategoricalPolicy, DeterministicPolicy, GaussianPolicy, Policy
    from quell.rollout import Engine
    from quell.rollout.cluster import Ray
    from quell.rollout.cpu import Cpu
    from quell.rollout.device import Device
    from quell.tasks import get as task
    from quell.training.callbacks import Callback
    from quell.training.trained import TrainedPolicy
    from quell.types import Batch, Episodes, Pair, Rollouts, Trajectories
    from quell.update import Context, Step

__version__ = "0.1.0"

_ROOMS = ("estimate", "figures", "perturb", "policy", "stats", "tasks", "theory", "update")
_MODULES = {name: f"quell.{name}" for name in _ROOMS} | {"metrics": "quell.runs.metrics"}
_HOMES = {
    "quell.api": "Result evaluate load resume",
    "quell.front": "sweep train",
    "quell.errors": "QuellError UsageError",
    "quell.estimate": "Estimate Estimator Needs Problem Rows",
    "quell.estimate.control_variate": "ControlVariate",
    "quell.estimate.policy_gradient": "PolicyGradient",
    "quell.estimate.es": "Es",
    "quell.perturb": "Directions Draw",
    "quell.policy": "CategoricalPolicy DeterministicPolicy GaussianPolicy Policy",
    "quell.rollout": "Engine",
    "quell.rollout.cluster": "Ray",
    "quell.rollout.cpu": "Cpu",
    "quell.rollout.device": "Device",
    "quell.training.callbacks": "Callback",
    "quell.training.trained": "TrainedPolicy",
    "quell.types": "Batch Episodes Pair Rollouts Trajectories",
    "quell.update": "Context Step",
    "quell.measure": "variance",
}
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}

__all__ = ["Batch", "Callback", "CategoricalPolicy", "Context", "ControlVariate", "Cpu", "DeterministicPolicy"]
__all__ += ["Directions", "Draw", "Engine", "Episodes", "Estimate", "Estimator", "GaussianPolicy", "Needs", "Pair"]
__all__ += ["Es", "Policy", "PolicyGradient", "Problem", "QuellError", "Ray", "Result", "Rollouts", "Rows", "Step"]
__all__ += ["TrainedPolicy", "Trajectories", "UsageError", "evaluate", "load", "resume", "sweep", "task"]
__all__ += ["Device", "train", "variance"]


settle()


def __getattr__(name: str) -> Any:
    if name == "task":
        return importlib.import_module("quell.tasks").get
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    if name not in _HOME:
        known = name in ("PPO", "TRPO", "ES", "ARS")
        hint = f": quell.train(task, method={name.lower()!r}) trains with it" if known else ""
        raise AttributeError(f"module 'quell' has no attribute {name!r}{hint}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES, "__version__"])
