"""Any EnvPool environment as a task, `envpool:ID`, and bipedalwalker, which has a name of its own.

EnvPool takes seeds only when a pool is made, so each reset makes a new pool, with one seed per episode drawn from
its member's generator. The pool works in asynchronous mode with batches of one: only members whose episode is
still going are stepped, where the lockstep mode would run finished ones on into new episodes.
"""

import importlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from quell.errors import UsageError, did_you_mean, require
from quell.tasks.base import Array, Task
from quell.tasks.foreign.base import ForeignSimulator, ForeignTask, as_pairs


@dataclass(frozen=True, kw_only=True)
class EnvPoolTask(ForeignTask):
    engine, extra = "envpool", "envpool"
    env_id: str
    kwargs: tuple[tuple[str, Any], ...] = ()  # arguments for making the environment, as (name, value) pairs

    @property
    def original(self) -> str:
        return f"envpool:{self.env_id}"

    def simulator(self, members: int) -> "EnvPoolSimulator":
        return EnvPoolSimulator(self)

    def replay(self, seed: int) -> str:
        given = "".join(f", {key}={value!r}" for key, value in self.kwargs)
        return f"env = envpool.make_gymnasium({self.env_id!r}, seed=[{seed}], num_envs=1{given}); env.reset()"


class EnvPoolSimulator(ForeignSimulator):
    def __init__(self, task: EnvPoolTask) -> None:
        self._id = task.env_id
        self._kwargs = dict(task.kwargs)
        if task.time_limit is not None:
            self._kwargs["max_episode_steps"] = task.horizon
        super().__init__(task)
        self._pool: Any = None

    def reset(self, generators: Sequence[np.random.Generator]) -> Array:
        seeds = self._begin(generators)
        if self._pool is not None:
            self._pool.close()
        with _quiet():
            self._pool = _envpool().make_gymnasium(
                self._id, num_envs=len(seeds), batch_size=1, num_threads=1, seed=seeds, **self._kwargs
            )
            self._pool.async_reset()
            self._receive(len(seeds))
        self._rewards[:] = 0
        return self._checked()

    def step(self, actions: Array, active: Array) -> tuple[Array, Array, Array]:
        running, given = self._running(actions, active)
        if running:
            self._pool.send(given, np.array(running, np.int32))
            self._receive(len(running))
        return self._checked(), self._rewards, self._terminated

    def _receive(self, count: int) -> None:
        for _ in range(count):
            observation, reward, terminated, truncated, info = self._pool.recv()
            member = int(info["env_id"][0])
            try:
                self._record(member, _first(observation), reward[0], terminated[0], truncated[0])
            except Exception as error:
                raise self._failure(member, error) from error


def from_id(env_id: str, horizon: int = 0, **kwargs: Any) -> EnvPoolTask:
    """The task `envpool:ID`; other keywords go to EnvPool."""
    name, given = f"envpool:{env_id}", as_pairs(kwargs)
    *spaces, limit = describe(env_id, **kwargs)
    return EnvPoolTask(name=name, horizon=horizon, spaces=tuple(spaces), time_limit=limit, env_id=env_id, kwargs=given)


def describe(env_id: str, **kwargs: Any) -> tuple[Any, Any, int | None]:
    """Observation space, action space and time limit of an EnvPool environment."""
    pool = _envpool()
    with _quiet():
        known = pool.list_all_envs()
        if env_id not in known:
            raise UsageError(f"EnvPool has no environment {env_id!r}{did_you_mean(env_id, known)}")
        try:
            spec = pool.make_spec(env_id, **kwargs)
        except (TypeError, ValueError, KeyError, AssertionError) as error:
            raise UsageError(f"envpool:{env_id} cannot be made: {error}") from error
        limit = getattr(spec.config, "max_episode_steps", None)
        return spec.gymnasium_observation_space, spec.gymnasium_action_space, limit


def _first(observation: Any) -> Any:
    """The only row of a batch of one."""
    if isinstance(observation, dict):
        return {key: _first(value) for key, value in observation.items()}
    if isinstance(observation, tuple):
        return tuple(_first(value) for value in observation)
    return observation[0]


def _envpool() -> Any:
    require("envpool", "an envpool: task")
    with _quiet():
        return importlib.import_module("envpool")


def _quiet() -> "warnings.catch_warnings[Any]":
    """Leave out what EnvPool's own spaces make Gymnasium say: a user cannot act on it."""
    return warnings.catch_warnings(category=UserWarning, action="ignore")


@dataclass(frozen=True, kw_only=True)
class BipedalWalker(Task):
    """Walk over gently rough ground; BipedalWalker-v3 (Box2D) as EnvPool runs it.

    Gymnasium's own runs the same model at three quarters of the speed or less (`gym:BipedalWalker-v3`); from a matched
    start the two agree to 1e-3 in the observation over 50 steps.
    """

    name = "bipedalwalker"
    original = "envpool:BipedalWalker-v3"
    summary = "two legs over rough ground (BipedalWalker-v3)"
    obs_size, action_size = 24, 4
    can_terminate = True
    engine, extra = "envpool", "envpool"
    horizon: int = 1600

    def simulator(self, members: int) -> EnvPoolSimulator:
        require("envpool", f"task {self.name!r}")
        return from_id("BipedalWalker-v3", self.horizon).simulator(members)

    def filmed(self) -> Task:
        """Gymnasium's own, because EnvPool draws nothing: another episode, of the same walker."""
        from quell.tasks.foreign import gym

        require("box2d", f"a film of {self.name!r}, which Gymnasium draws")
        return gym.from_id("BipedalWalker-v3", self.horizon).filmed()


TASKS = [BipedalWalker]
