"""How fast a task runs here, beside EnvPool and beside the library it comes from.

All run closed loop, with the same 2 x 32 policy and action noise. Ours and EnvPool do the same work on all cores: one
episode of each of ten members, as an iteration of ES needs it. EnvPool runs in its usual, synchronous mode, which steps
all environments together, so those whose episode is over run on until the last one's is; only steps of the ten episodes
count. "Endless" is its speed when every episode's end starts another, which ES has no use for: a bound on what it could
do. (Its asynchronous mode can leave out finished environments; that is not measured.) The original is one environment
in one process, which is how it is usually run. All take turns, and medians count: machines are noisy.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from importlib.util import find_spec
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quell.keys import Purpose, generator
from quell.perturb import Directions
from quell.policy import Policy
from quell.rollout import CpuEngine
from quell.tasks.base import Task
from quell.types import Episodes

Once = Callable[[], int]
"""Do some work; returns the real environment steps it took."""
ROUNDS = 5
MEMBERS = 10
SIGMA = np.float32(0.02)
GYM = {
    "ant": "Ant",
    "halfcheetah": "HalfCheetah",
    "hopper": "Hopper",
    "humanoid": "Humanoid",
    "inverted-double-pendulum": "InvertedDoublePendulum",
    "inverted-pendulum": "InvertedPendulum",
    "swimmer": "Swimmer",
    "walker2d": "Walker2d",
}
SUITE = {
    "dm-cartpole-balance": ("cartpole", "balance"),
    "dm-cartpole-swingup": ("cartpole", "swingup"),
    "dm-cartpole-two-poles": ("cartpole", "two_poles"),
    "dm-cheetah-run": ("cheetah", "run"),
    "dm-hopper-hop": ("hopper", "hop"),
    "dm-hopper-stand": ("hopper", "stand"),
    "dm-pendulum-swingup": ("pendulum", "swingup"),
    "dm-quadruped-escape": ("quadruped", "escape"),
    "dm-quadruped-walk": ("quadruped", "walk"),
}


def envpool_id(name: str) -> str | None:
    """EnvPool's name of one of our tasks, if it has it."""
    if name in GYM:
        return f"{GYM[name]}-v5"
    if name in SUITE:
        domain, task = SUITE[name]
        return f"{domain.title()}{task.title().replace('_', '')}-v1"
    return "BipedalWalker-v3" if name == "bipedalwalker" else None


def measure(task: Task, workers: int, seconds: float) -> dict[str, float | None]:
    """Steps per second of everyone, about `seconds` each; None where somebody does not have the task."""
    with ExitStack() as stack:
        contestants: dict[str, Once | None] = {
            "ours": ours(task, workers, stack),
            "envpool": envpool(task, workers),
            "endless": envpool(task, workers, endless=True),
            "original": original(task),
        }
        rates: dict[str, list[float]] = {name: [] for name in contestants}
        for turn in range(ROUNDS + 1):  # the first warms up
            for name, once in contestants.items():
                if once is not None:
                    found = _rate(once, seconds / ROUNDS if turn else 0.0)
                    rates[name] += [found] if turn else []
    return {name: median(values) if values else None for name, values in rates.items()}


def ours(task: Task, workers: int, stack: ExitStack) -> Once:
    """A batch on the CPU engine."""
    policy = _policy(task)
    theta = policy.init(generator(0, Purpose.INIT))
    directions = Directions("gaussian", 0, MEMBERS // 2, policy.dim)
    engine = stack.enter_context(CpuEngine(task, policy, directions, workers=workers, members=MEMBERS))
    iterations = itertools.count()

    def once() -> int:
        episodes = Episodes.of_pairs(next(iterations), MEMBERS // 2, float(SIGMA), record=False, shared_reset=True)
        return int(engine.rollout(theta, episodes).steps.sum())

    return once


def envpool(task: Task, workers: int, *, endless: bool = False) -> Once | None:
    """The same batch on EnvPool, or a stretch without end; None if it does not have the task or is not installed."""
    name = envpool_id(task.name)
    if name is None or not find_spec("envpool"):
        return None
    import envpool as library

    envs = library.make(name, env_type="gymnasium", num_envs=MEMBERS, num_threads=workers)
    shape = envs.action_space.shape
    first = _flat(envs.reset()[0])
    policy = Policy(first.shape[1], int(np.prod(shape)))
    rng = generator(0, Purpose.INIT)
    theta = policy.init(rng)
    act = policy.actor(np.stack([theta + SIGMA * rng.standard_normal(policy.dim, np.float32) for _ in range(MEMBERS)]))

    def step(obs: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        actions = act(obs, policy.draw_noise(rng, MEMBERS)).reshape(MEMBERS, *shape)
        found, _, terminated, truncated, _ = envs.step(actions.astype(envs.action_space.dtype))
        return _flat(found), terminated | truncated

    def batch() -> int:
        """One episode of every member."""
        obs, running, steps = _flat(envs.reset()[0]), np.ones(MEMBERS, bool), 0
        while running.any():
            steps += int(running.sum())
            obs, over = step(obs)
            running &= ~over
        return steps

    current, resetting = first, np.zeros(MEMBERS, bool)

    def stretch() -> int:
        """A hundred steps without regard to episodes; a call that only resets an environment is no step of it."""
        nonlocal current, resetting
        steps = 0
        for _ in range(100):
            steps += int((~resetting).sum())
            current, resetting = step(current)
        return steps

    return stretch if endless else batch


def _flat(obs: Any) -> NDArray[np.float32]:
    """Observations of all members as rows."""
    parts = obs.values() if isinstance(obs, dict) else [obs]
    return np.concatenate([np.reshape(part, (MEMBERS, -1)) for part in parts], axis=1, dtype=np.float32)


def original(task: Task) -> Once | None:
    """Fifty steps of one Gymnasium or dm_control environment; None if the task does not come from there."""
    step = _gymnasium(task.name) if task.name in GYM else _dm_control(task.name) if task.name in SUITE else None
    if step is None:
        return None

    def once() -> int:
        for _ in range(50):
            step()
        return 50

    return once


def _gymnasium(name: str) -> Callable[[], None]:
    import gymnasium

    env = gymnasium.make(f"{GYM[name]}-v5")
    obs, _ = env.reset(seed=0)
    act, current = _single(len(obs), int(np.prod(env.action_space.shape or ()))), [obs]

    def step() -> None:
        current[0], _, terminated, truncated, _ = env.step(act(current[0]))
        if terminated or truncated:
            current[0], _ = env.reset()

    return step


def _dm_control(name: str) -> Callable[[], None] | None:
    os.environ.setdefault("MUJOCO_GL", "egl")  # escape draws its terrain with OpenGL, on a machine without a screen too
    try:
        from dm_control import suite

        env = suite.load(*SUITE[name], task_kwargs={"random": 0})
        spec, stamp = env.action_spec(), env.reset()
    except Exception:  # no OpenGL: then there is nothing to measure
        return None

    def flat(observation: Any) -> NDArray[np.float64]:
        return np.concatenate([np.ravel(part) for part in observation.values()])

    act, current = _single(len(flat(stamp.observation)), spec.shape[0]), [stamp]

    def step() -> None:
        last = current[0].last()
        current[0] = env.reset() if last else env.step(act(flat(current[0].observation)))

    return step


def _single(obs_size: int, action_size: int) -> Callable[[NDArray[Any]], NDArray[Any]]:
    policy, rng = Policy(obs_size, action_size), generator(0, Purpose.INIT)
    act = policy.actor(policy.init(rng)[None])
    return lambda obs: act(obs[None].astype(np.float32), policy.draw_noise(rng, 1))[0]


def _policy(task: Task) -> Policy:
    return Policy(task.obs_size, task.action_size, "categorical" if task.discrete else "gaussian")


def _rate(once: Once, seconds: float) -> float:
    """Steps per second over about `seconds`, one call at least."""
    started, steps, elapsed = time.perf_counter(), 0, 0.0
    while not steps or elapsed < seconds:
        steps += once()
        elapsed = time.perf_counter() - started
    return steps / elapsed
