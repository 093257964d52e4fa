"""quell: low-variance evolution strategies for reinforcement learning.

    result = quell.train("halfcheetah", method="cv", steps=1_000_000)
    action = result.policy(obs)

Names are loaded when first used, so that importing quell costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quell.api import Result, TrainedPolicy, evaluate, load, resume, train
    from quell.compute import Compute
    from quell.errors import QuellError, UsageError
    from quell.estimate import Estimate, Estimator
    from quell.estimate.control_variate import ControlVariate
    from quell.estimate.policy_gradient import PolicyGradient
    from quell.estimate.score import Score
    from quell.perturb import Directions
    from quell.policy import Policy
    from quell.rollout import CpuEngine
    from quell.tasks import get as task
    from quell.types import Batch, Episodes, Rollouts, Trajectories

__version__ = "0.1.0"

_HOMES = {
    "quell.api": ("Result", "TrainedPolicy", "evaluate", "load", "resume", "train"),
    "quell.compute": ("Compute",),
    "quell.errors": ("QuellError", "UsageError"),
    "quell.estimate": ("Estimate", "Estimator"),
    "quell.estimate.control_variate": ("ControlVariate",),
    "quell.estimate.policy_gradient": ("PolicyGradient",),
    "quell.estimate.score": ("Score",),
    "quell.perturb": ("Directions",),
    "quell.policy": ("Policy",),
    "quell.rollout": ("CpuEngine",),
    "quell.types": ("Batch", "Episodes", "Rollouts", "Trajectories"),
}
_MODULES = {"metrics": "runs.metrics", "figures": "figures", "stats": "stats", "tasks": "tasks", "theory": "theory"}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Batch",
    "Compute",
    "ControlVariate",
    "CpuEngine",
    "Directions",
    "Episodes",
    "Estimate",
    "Estimator",
    "Policy",
    "PolicyGradient",
    "QuellError",
    "Result",
    "Rollouts",
    "Score",
    "TrainedPolicy",
    "Trajectories",
    "UsageError",
    "evaluate",
    "load",
    "resume",
    "task",
    "train",
]


def __getattr__(name: str) -> Any:
    if name == "task":
        return importlib.import_module("quell.tasks").get
    if name in _MODULES:
        return importlib.import_module(f"quell.{_MODULES[name]}")
    if name not in _HOME:
        raise AttributeError(f"module 'quell' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
