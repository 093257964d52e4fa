"""What a task is: sizes, a horizon, and a simulator that steps several members in lockstep."""

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from quell.errors import UsageError
from quell.types import Array as Array

State = Mapping[str, Any]  # named physics arrays, each with the members on the leading axis: {"qpos": [m, nq], ...}
SKY, FLOOR, TILE = (222, 230, 238), (196, 206, 214), (184, 195, 205)  # behind and below a robot that is filmed
Draws = tuple[Any, ...]
"""Arrays of random numbers, all that an episode needs: taken from its generator once, at the start."""


class Simulator(Protocol):
    """`m` episodes of one task advancing together; member i's randomness comes from its own generator.

    It may also have `bounds` (lowest, highest action); `truncated` [k]: members whose environment, of another library,
    ended the episode short of a terminal state, for good; and for films `steps_per_second` with
    `picture(width, height)`, or with `pose()` and `pictures(poses, per_second, width, height)`, whose camera can suit
    all the poses of a film.
    """

    def reset(self, generators: Sequence[np.random.Generator]) -> Array:
        """Start len(generators) <= m new episodes; returns observations [k, obs_size] (float64)."""

    def step(self, actions: Array, active: Array) -> tuple[Array, Array, Array]:
        """Advance the active members; returns (observations [k, obs_size], rewards [k], terminated [k]). Rows of the
        others are undefined, arrays may be reused by the next call, and the horizon is the caller's business."""


@runtime_checkable
class PaysLater(Simulator, Protocol):
    """A simulator that gives rewards of many steps at once. Nobody needs a reward before the episode is over, and for a
    few members an array operation takes as long on one step as on fifty."""

    def advance(self, actions: Array, active: Array) -> tuple[Array, Array]:
        """`step` without rewards: (observations, terminated); `actions` must keep its values until these are paid."""

    def rewards(self) -> Array:
        """Rewards [n, k] of the n >= 1 steps since the last call or reset."""


class Facts:
    """What a task states about itself, mostly in class attributes."""

    name: str
    summary: str
    engine: str = "arrays"
    extra: str | None = None  # the optional dependency group the task needs, as in `pip install 'quell[dm]'`
    obs_size: int
    action_size: int  # numbers in an action; for a discrete task, those to choose from, of all choices together
    discrete: bool = False
    choices: tuple[int, ...] = ()
    """Of a discrete task: how many there are to choose from in each entry of an action; empty where there is one."""
    can_terminate: bool = False
    first_length: int = 200
    """Steps of an untrained policy's episode, about, where it can terminate: `batch_steps` begins with it."""

    @property
    def original(self) -> str | None:
        """What the task reproduces, as library:name (gymnasium:Hopper-v5, dm_control:hopper/hop); None if nothing."""
        return None


@dataclass(frozen=True, kw_only=True)
class Task(Facts):
    """A task. Dataclass fields are its settings (`quell.task("lqr", noise=0.5)`); who adds none needs no decorator."""

    horizon: int = 1000

    def simulator(self, members: int) -> Simulator:
        raise NotImplementedError

    @property
    def bare(self) -> "Task":
        """The same task, without what `quell.tasks.regimes` puts around it."""
        return self

    def filmed(self) -> "Task":
        """The same task, with simulators that can draw themselves if they ever can."""
        return self

    @property
    def bounds(self) -> tuple[Array, Array] | None:
        """(lowest, highest) actions, where there are bounds."""
        simulator: Any = self.simulator(1)
        return None if simulator is self else getattr(simulator, "bounds", None)  # a task may be its own simulator

    def rows(self, obs: Any) -> tuple[Array, bool]:
        """Observations as the environment gives them, in rows [n, obs_size]; and whether it was a single one."""
        rows = np.asarray(obs, np.float32)
        if rows.shape[-1:] != (self.obs_size,) or rows.ndim > 2:
            raise UsageError(f"{self.name} has observations of {self.obs_size} numbers, not of shape {rows.shape}")
        return np.atleast_2d(rows), rows.ndim == 1

    def as_given(self, actions: Array) -> Array:
        """A policy's actions [n, a], within bounds, as the environment's `step` takes them."""
        if not self.discrete:
            return actions
        return actions.astype(np.int64) if self.choices else actions[:, 0].astype(np.int64)

    def notes(self) -> list[str]:
        """Facts to print beside a result, such as a known optimum."""
        return []


class MujocoTask(Task):
    """A task on MuJoCo: a model, an initial state, array functions of the physics state, and facts about the stepping.

    `observe`, `reward` and `terminated` take an array namespace `xp` (numpy or jax.numpy) and states whose
    arrays carry the members on the leading axis, so that an accelerator engine can run them unchanged.
    A task never calls MuJoCo: what to call follows from the facts, and is the business of quell.tasks.mujoco.
    """

    engine = "mujoco"
    frame_skip: int  # physics steps in an environment step
    pace: float = 1.0
    """How long an environment step is, the task's own being 1. Speeds are per second whatever it is, and what a step
    pays is `pace` times `reward`."""
    fields: tuple[str, ...] = ("qpos", "qvel")  # which MjData arrays the functions below read
    in_sync: bool = False
    """Whether positions, velocities and sensors are those of the state after a step. A plain mj_step leaves what it
    computed for the state before its last substep; only qpos and qvel are new."""
    sensors_once: bool = False
    """Whether sensors are evaluated once in a step, not in every substep; only with `in_sync`, to the same result."""
    settling_steps: int = 0
    """Physics steps without control between the initial state and the first observation; only with `in_sync`."""
    raise_until_free: float = 0.0
    """Metres by which the initial state is raised from height 0, again and again, until nothing touches; 0: never."""
    contact_forces: bool = False  # whether a step computes cfrc_ext, which MuJoCo leaves out unless asked
    own_model: bool = False  # when an episode changes the model itself (terrain), so that members cannot share one
    unseen_geom: int | None = None  # the geom that MuJoCo's range finders look through, because `look` finds it faster

    def model(self) -> Any:
        """The compiled mujoco.MjModel."""
        raise NotImplementedError

    def draw(self, model: Any, rng: np.random.Generator) -> Draws:
        """All that is random in one episode."""
        raise NotImplementedError

    def initial(self, xp: Any, model: Any, draws: Draws) -> tuple[Any, Any]:
        """(qpos [nq], qvel [nv]) at which the episode of these draws starts."""
        raise NotImplementedError

    def terrain(self, draws: Draws) -> "Terrain | None":
        """The ground on which the episode of these draws plays, where it has its own."""
        return None

    def look(self, terrain: "Terrain", site_xpos: Array, site_xmat: Array, sensordata: Array) -> None:
        """Write into `sensordata` what the range finders see of `unseen_geom`."""

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


class Terrain(NamedTuple):
    """A height field: `heights` [n, n] in units of its size, and at every point a `roof` that nothing near is above."""

    heights: Array
    roof: Array


def within(xp: Any, value: Any, low: Any, high: Any) -> Any:
    """`value`, cut at low and high; numpy's clip takes three times as long on the arrays of a few members."""
    return xp.minimum(xp.maximum(value, low), high)


def folder_of(package: str) -> Path:
    """The folder of an installed package, found without importing it."""
    spec: Any = importlib.util.find_spec(package)
    return Path(spec.submodule_search_locations[0])
