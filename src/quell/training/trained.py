"""A policy to act with, wherever it comes from."""

import dataclasses
import functools
from typing import Any

import numpy as np

from quell import tasks
from quell.errors import UsageError
from quell.policy.act import actor, to_environment
from quell.policy.network import Policy
from quell.tasks.base import Task
from quell.tasks.foreign.base import NoTimeLimit
from quell.types import Array, ObsStats


@dataclasses.dataclass(frozen=True)
class TrainedPolicy:
    """A policy to act with: `env.step(policy(obs))`."""

    policy: Policy
    theta: Array
    obs_stats: ObsStats | None
    task: Task

    def __call__(self, obs: Any, *, rng: np.random.Generator | None = None) -> Any:
        """The action for an observation, or an array of several: the mean (most likely) one, or sampled with `rng`.

        Observations are as the environment gives them (arrays, numbers, dictionaries), and actions as its `step` takes
        them: scaling and bounds that training applied (`policy.actions`, the bounds of a Box) are applied here too.
        """
        if rng is not None and not isinstance(rng, np.random.Generator):
            raise UsageError(
                f"`rng={rng!r:.80}` must be a generator, kept from call to call: numpy.random.default_rng(0)"
            )
        rows, single = self.task.rows(obs)
        if not np.isfinite(rows).all():
            raise UsageError(f"an observation of {self.task.name} is NaN or infinite: policies cannot act on that")
        actions = self.draw(rows, rng)
        if bounded := to_environment(self.policy, self.bounds):
            actions = bounded(actions)
        given = self.task.as_given(actions)
        return given[0] if single else given

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = True,
        *,
        rng: np.random.Generator | None = None,
    ) -> tuple[Any, None]:
        """(action, None), as in Stable-Baselines3, so that its `evaluate_policy` works with this policy too.

        The action is the mean one. With `deterministic=False` it is sampled with `rng`, or else with the policy's own
        generator, which starts at seed 0. `state` and `episode_start` are for recurrent policies and are not used.
        """
        return self(observation, rng=None if deterministic else self._own_rng if rng is None else rng), None

    @functools.cached_property
    def _own_rng(self) -> np.random.Generator:
        return np.random.default_rng(0)

    def on(self, env: Any) -> "TrainedPolicy":
        """The same policy on another environment, a task's name or what `train` takes, with spaces of the same kind."""
        try:
            task = tasks.get(env) if isinstance(env, str) else tasks.from_given(env)
        except NoTimeLimit:
            task = tasks.from_given(env, self.task.horizon)
        for has, needs in zip(_spaces(task), _spaces(self.task), strict=True):
            if has != needs:
                raise UsageError(f"{task.name} has {has}, and a policy of {self.task.name} needs {needs}")
        return dataclasses.replace(self, task=task)

    def __repr__(self) -> str:
        policy = self.policy
        layers = " x ".join(map(str, (policy.obs_size, *policy.hidden, policy.action_size)))
        return f"<policy of {self.task.name}: {policy.kind}, {layers}, {policy.dim:,} parameters>"

    def draw(self, rows: Array, rng: np.random.Generator | None = None) -> Array:
        """Actions [n, a] for observations [n, o], as the policy draws them."""
        seen = np.asarray(rows, np.float32)
        if self.obs_stats is not None:
            mean, scale = self.obs_stats.normaliser()
            seen = (seen - mean) * scale
        noise = self.policy.draw_noise(rng, len(seen)) if rng is not None else np.zeros((1, 1), np.float32)
        thetas = np.broadcast_to(self.theta, (len(seen), len(self.theta)))
        return actor(self.policy, thetas, mean_action=rng is None)(seen, noise)

    @functools.cached_property
    def bounds(self) -> tuple[Array, Array] | None:
        """Of actions, where the policy heeds them."""
        return None if self.policy.actions == "as-is" else self.task.bounds


def _spaces(task: Task) -> tuple[str, str]:
    """A task's observations and actions, in words."""
    several = " and ".join(map(str, task.choices or (task.action_size,)))
    action = f"a choice of {several}" if task.discrete else f"actions of {task.action_size} numbers"
    return f"observations of {task.obs_size} numbers", action
