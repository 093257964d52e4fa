"""Environments that are JAX already: `brax:NAME`, and `playground:NAME` of MuJoCo Playground. For the device engine."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from quell.errors import UsageError, did_you_mean, require
from quell.tasks.base import Array, Task


@dataclass(frozen=True, kw_only=True)
class AcceleratedTask(Task):
    """An environment with `reset(key)` and `step(state, action)` as functions of JAX arrays; actions in -1..1."""

    engine = "jax"
    can_terminate = True
    name: str
    env: Any = field(compare=False, repr=False)
    """The environment, without the wrappers that its own library trains with."""

    def __post_init__(self) -> None:
        import jax

        # Only the shape: Brax's own `observation_size` carries a reset out, and compiles each of its operations.
        size = seen(jax.eval_shape(self.env.reset, jax.random.PRNGKey(0)).obs).shape
        summary = f"{self.name}, as its authors made it"
        vars(self).update(summary=summary, obs_size=int(np.prod(size)), action_size=int(self.env.action_size))

    @property
    def bounds(self) -> tuple[Array, Array] | None:
        highest = np.ones(self.action_size, np.float32)
        return -highest, highest

    def simulator(self, members: int) -> Any:
        raise UsageError(f"task {self.name!r} runs on `engine=device` alone")


def seen(obs: Any) -> Any:
    """Observations [m, o] of a state; where an environment has several, those of the robot."""
    return obs["state"] if isinstance(obs, dict) else obs


def from_brax(name: str, horizon: int | None = None, **settings: Any) -> AcceleratedTask:
    """brax:NAME, with its own settings, such as a backend."""
    require("brax", f"task 'brax:{name}'")
    from brax import envs

    known = sorted(envs._envs)
    return _made("brax", name, known, lambda: envs.get_environment(name, **settings), horizon or 1000)


def from_playground(name: str, horizon: int | None = None, **settings: Any) -> AcceleratedTask:
    """playground:NAME; settings replace those of its default config."""
    require("playground", f"task 'playground:{name}'")
    from mujoco_playground import registry

    known = sorted(registry.ALL_ENVS)
    if name not in known:
        return _made("playground", name, known, lambda: None, 1)
    length = int(registry.get_default_config(name).get("episode_length", 1000))
    return _made("playground", name, known, lambda: registry.load(name, config_overrides=settings), horizon or length)


def _made(library: str, name: str, known: Sequence[str], make: Any, horizon: int) -> AcceleratedTask:
    if name not in known:
        raise UsageError(f"{library} has no environment {name!r}{did_you_mean(name, known)}; it has {', '.join(known)}")
    return AcceleratedTask(name=f"{library}:{name}", env=make(), horizon=horizon)
