"""What a task is: sizes, a horizon, and a simulator that steps several members in lockstep."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
State = Mapping[str, Any]
"""Named physics arrays, each with the members on the leading axis: {"qpos": [m, nq], ...}."""


class Simulator(Protocol):
    """`m` episodes of one task advancing together; member i's randomness comes from its own generator.

    It may also have `bounds` (lowest, highest action), `truncated` [k] (episodes that just ended without terminating),
    and `picture(width, height)` with `steps_per_second`, for films.
    """

    def reset(self, generators: Sequence[np.random.Generator]) -> Array:
        """Start len(generators) <= m new episodes; returns observations [k, obs_size] (float64)."""

    def step(self, actions: Array, active: NDArray[np.bool_]) -> tuple[Array, Array, Array]:
        """Advance the active members; returns (observations [k, obs_size], rewards [k], terminated [k]).

        Rows of inactive members are undefined. Truncation at the horizon is the caller's business.
        The returned arrays may be reused by the next call.

        A simulator of somebody else's environments also has `truncated` [k] after each step: members whose
        environment ended the episode on its own, without a terminal state. They need no further steps.
        """


@runtime_checkable
class PaysLater(Simulator, Protocol):
    """A simulator that gives rewards of many steps at once.

    Nobody needs a reward before the episode is over, and for a few members an array operation takes as long on one
    step as on fifty.
    """

    def advance(self, actions: Array, active: NDArray[np.bool_]) -> tuple[Array, Array]:
        """`step` without the rewards: (observations [k, obs_size], terminated [k]).

        `actions` must keep its values until the rewards are asked for.
        """

    def rewards(self) -> Array:
        """Rewards [n, k] of the n >= 1 steps since the last call or reset."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """One task. Dataclass fields are its settings (`quell.task("lqr", noise=0.5)`), the rest its facts."""

    horizon: int = 1000

    name: ClassVar[str]
    summary: ClassVar[str]
    obs_size: ClassVar[int]
    action_size: ClassVar[int]
    """Numbers in an action; for a discrete task, the number of choices."""
    discrete: ClassVar[bool] = False
    can_terminate: ClassVar[bool] = False
    engine: ClassVar[str] = "arrays"
    extra: ClassVar[str | None] = None
    """The optional dependency group the task needs, as in `pip install 'quell[dm]'`."""
    tuned: ClassVar[Mapping[str, Any]] = {}
    """Settings that replace the paper's where those do poorly; dotted names as on the command line."""

    def simulator(self, members: int) -> Simulator:
        raise NotImplementedError

    def notes(self) -> list[str]:
        """Facts to print beside a result, such as a known optimum."""
        return []


@dataclass(frozen=True, kw_only=True)
class MujocoTask(Task):
    """A task on MuJoCo: a model, a frame skip, and array functions of the physics state.

    `observe`, `reward` and `terminated` take an array namespace `xp` (numpy or jax.numpy) and states whose
    arrays carry the members on the leading axis, so that an accelerator engine can run them unchanged.
    `reset` works on one MjData; everything random in it comes from the generator it is given.
    """

    engine: ClassVar[str] = "mujoco"
    frame_skip: ClassVar[int]
    fields: ClassVar[tuple[str, ...]] = ("qpos", "qvel")
    """Which MjData arrays the functions below read."""
    own_model: ClassVar[bool] = False
    """True when an episode changes the model itself (terrain), so that members cannot share one."""

    def model(self) -> Any:
        """The compiled mujoco.MjModel."""
        raise NotImplementedError

    def reset(self, model: Any, data: Any, rng: np.random.Generator) -> None:
        """Write an initial state into freshly reset `data`; `forward` follows."""
        raise NotImplementedError

    def forward(self, model: Any, data: Any) -> None:
        """Everything that follows from a freshly set state."""
        import mujoco

        mujoco.mj_forward(model, data)

    def advance(self, model: Any, data: Any) -> None:
        """One environment step of physics."""
        import mujoco

        mujoco.mj_step(model, data, self.frame_skip)

    def observe(self, xp: Any, state: State) -> Any:
        raise NotImplementedError

    def reward(self, xp: Any, before: State, action: Any, after: State, ended: Any) -> Any:
        """The reward of a step, [m]; `ended` is what `terminated` says of `after` (False if it never ends)."""
        raise NotImplementedError

    def terminated(self, xp: Any, state: State) -> Any:
        """Whether a step into `state` ends the episode, [m]; only called when `can_terminate`."""
        raise NotImplementedError

    def simulator(self, members: int) -> Simulator:
        from quell.tasks.mujoco import MujocoSimulator

        return MujocoSimulator(self, members)


def within(xp: Any, value: Any, low: Any, high: Any) -> Any:
    """`value`, cut at low and high; numpy's clip takes three times as long on the arrays of a few members."""
    return xp.minimum(xp.maximum(value, low), high)


@functools.lru_cache(maxsize=8)
def gymnasium_asset(filename: str) -> str:
    """Path of an MJCF file that ships with Gymnasium."""
    from importlib.util import find_spec
    from pathlib import Path

    spec = find_spec("gymnasium")
    assert spec is not None  # a core dependency
    assert spec.origin is not None
    return str(Path(spec.origin).parent / "envs" / "mujoco" / "assets" / filename)
