"""How fast tasks run here, beside EnvPool, beside physics alone, and beside the library they come from.

    python benchmarks/task_speed.py [TASK ...] --seconds 3 --json FILE

All but the original do the same work on all cores: perturb the policy ten times and play one episode with each, closed
loop, as an iteration of ES needs it. Only steps of those ten episodes count. EnvPool is measured in two modes. The
synchronous one steps all environments together, so those whose episode is over run on until the last one's is. The
asynchronous one leaves them out, at the price of receiving every environment by itself.

Physics alone is MuJoCo's own threaded rollout in C, given ten initial states and random controls for as long as ours
lasted on average: no policy, observation, reward or end, so a limit to what any engine can do. The original is one
environment in one process, which is how it is usually run. All take turns, and medians count: machines are noisy.
"""

from __future__ import annotations

import itertools
import json
import os
import time
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from operator import truediv
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import numpy as np
import tyro
from numpy.typing import NDArray

from quell.errors import EXTRAS
from quell.estimate import Problem
from quell.keys import Purpose, generator
from quell.perturb import Draw, draw_pair, perturbed
from quell.perturb.gaussian import Gaussian
from quell.policy import Policy
from quell.policy.act import actor
from quell.rollout.cpu import Cpu
from quell.tasks import get, names
from quell.tasks.base import MujocoTask, Task
from quell.threads import cores
from quell.types import Episodes

Once = Callable[[], int]
"""Do some work; returns the real environment steps it took."""
COLUMNS = ("ours", "envpool", "async", "ratio", "physics", "original")
SLICE = 0.25  # seconds of a turn: speed drifts within seconds on a shared machine
ROUNDS = 5  # at least
MEMBERS = 10
SIGMA = 0.02
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


@dataclass(frozen=True)
class Arguments:
    """Steps per second of each task: ours, EnvPool's in both modes, our ratio to the faster, physics, the original."""

    tasks: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[TASK ...]")] = ()
    """These tasks only."""
    seconds: float = 2.0
    """How long each measurement takes."""
    workers: int | None = None
    """Worker processes, and EnvPool threads; by default one per core."""
    json: Path | None = None
    """Also write the measurements here."""


def main(arguments: Arguments) -> None:
    print(f"{'task':<26}" + "".join(f"{title:>10}" for title in COLUMNS))
    rows = {}
    for task in map(get, arguments.tasks or names()):
        if task.extra is not None and find_spec(EXTRAS[task.extra]) is None:
            print(f"{task.name:<26} needs quell[{task.extra}]")
            continue
        rows[task.name] = measure(task, arguments.workers or cores(), arguments.seconds)
        print(f"{task.name:<26}" + "".join(f"{_cell(rate):>10}" for rate in rows[task.name].values()), flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1))


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}" if value < 100 else f"{value:,.0f}"


def envpool_id(name: str) -> str | None:
    """EnvPool's name of one of our tasks, if it has it."""
    if name in GYM:
        return f"{GYM[name]}-v5"
    if name in SUITE:
        domain, task = SUITE[name]
        return f"{domain.title()}{task.title().replace('_', '')}-v1"
    return "BipedalWalker-v3" if name == "bipedalwalker" else None


def measure(task: Task, workers: int, seconds: float) -> dict[str, float | None]:
    """Steps per second of everyone, about `seconds` each, and our ratio to the faster EnvPool mode.

    The ratio is the median over turns, not the ratio of medians: whatever else slows the machine for a while slows both
    sides of a turn. None where somebody does not have the task. The keys are `COLUMNS`, in that order.
    """
    with ExitStack() as stack:
        batch = ours(task, workers, stack)
        length = max(1, batch() // MEMBERS)
        contestants: dict[str, Once | None] = {
            "ours": batch,
            "envpool": envpool(task, workers),
            "async": envpool(task, workers, asynchronous=True),
            "physics": physics(task, workers, length, stack),
            "original": original(task),
        }
        rates: dict[str, list[float]] = {name: [] for name in contestants}
        turns = max(ROUNDS, round(seconds / SLICE))
        for turn in range(turns + 1):
            for name, once in list(contestants.items()):
                if once is None:
                    continue
                started = time.perf_counter()
                rate = _rate(once, seconds / turns if turn else 0.0)
                slow = time.perf_counter() - started > seconds
                if turn or slow:  # the first turn warms up
                    rates[name].append(rate)
                if slow:  # one batch is measurement enough
                    contestants[name] = None
    middle = {name: median(values) for name, values in rates.items() if values}
    rivals = [rates[mode] for mode in ("envpool", "async") if rates[mode]]
    if rivals:
        middle["ratio"] = min(median(map(truediv, rates["ours"], rival)) for rival in rivals)
    return {column: middle.get(column) for column in COLUMNS}


def ours(task: Task, workers: int, stack: ExitStack) -> Once:
    """A batch on the CPU engine."""
    policy = _policy(task)
    theta = policy.init(generator(0, Purpose.INIT))
    problem = Problem(policy, Gaussian(sigma=SIGMA), seed=0)
    engine = stack.enter_context(Cpu(workers=workers).make(task, problem, members=MEMBERS))
    iterations = itertools.count()

    def once() -> int:
        episodes = Episodes.of_pairs(next(iterations), MEMBERS // 2)
        return int(engine.rollout(theta, episodes).steps.sum())

    return once


def envpool(task: Task, workers: int, *, asynchronous: bool = False) -> Once | None:
    """The same batch on EnvPool; None if it does not have the task or is not installed."""
    name = envpool_id(task.name)
    if name is None or not find_spec("envpool"):
        return None
    with warnings.catch_warnings(category=UserWarning, action="ignore"):  # about EnvPool's own spaces
        import envpool as library

        batch_size = 1 if asynchronous else MEMBERS
        envs = library.make(name, env_type="gymnasium", num_envs=MEMBERS, batch_size=batch_size, num_threads=workers)
    spaces = getattr(envs.observation_space, "values", lambda: [envs.observation_space])()
    policy = Policy(sum(int(np.prod(space.shape)) for space in spaces), int(np.prod(envs.action_space.shape)))
    rng = generator(0, Purpose.INIT)
    theta = policy.init(rng)
    obs, over = np.zeros((MEMBERS, policy.obs_size), np.float32), np.zeros(MEMBERS, bool)
    iterations = itertools.count()

    def receive(count: int) -> None:
        for _ in range(count // batch_size):
            received, _, terminated, truncated, info = envs.recv()
            if asynchronous:  # one environment: plain indices, as this runs for every step of every member
                row = int(info["env_id"][0])
                obs[row] = _flat(received, 1)[0] if isinstance(received, dict) else received[0]
                over[row] = terminated[0] or truncated[0]
            else:
                obs[:], over[:] = _flat(received, MEMBERS), terminated | truncated

    def once() -> int:
        draw = Draw(0, next(iterations), MEMBERS // 2, policy.dim)
        eps = np.concatenate([draw_pair(Gaussian(), draw, pair) for pair in range(MEMBERS // 2)])
        act = actor(policy, perturbed(theta, SIGMA, eps))
        envs.async_reset()
        receive(MEMBERS)
        running, steps = np.ones(MEMBERS, bool), 0
        while running.any():
            steps += int(running.sum())
            actions = act(obs, policy.draw_noise(rng, MEMBERS)).reshape(MEMBERS, *envs.action_space.shape)
            stepped = np.flatnonzero(running) if asynchronous else np.arange(MEMBERS)
            envs.send(actions[stepped].astype(envs.action_space.dtype), stepped.astype(np.int32))
            receive(len(stepped))
            running &= ~over
        return steps

    return once


def physics(task: Task, workers: int, length: int, stack: ExitStack) -> Once | None:
    """`length` steps from each of ten initial states in C; None if the task is not on one MuJoCo model."""
    if not isinstance(task, MujocoTask) or task.own_model:
        return None
    import mujoco
    from mujoco.rollout import Rollout

    from quell.tasks.mujoco import Member, without_clock

    model, rng = task.model(), generator(0, Purpose.ENVIRONMENT)
    data = [mujoco.MjData(model) for _ in range(workers)]
    kind = mujoco.mjtState.mjSTATE_FULLPHYSICS
    states = np.empty((MEMBERS, mujoco.mj_stateSize(model, kind)))
    for state in states:
        mujoco.mj_resetData(model, data[0])
        Member(task, model, data[0]).start(rng)
        mujoco.mj_getState(model, data[0], state, kind)
    pool = stack.enter_context(Rollout(nthread=workers))

    def once() -> int:
        controls = rng.standard_normal((MEMBERS, length, model.nu)).repeat(task.frame_skip, axis=1)
        with without_clock():
            pool.rollout(model, data, states, controls)
        return MEMBERS * length

    return once


def _flat(obs: Any, rows: int) -> NDArray[np.float32]:
    """Observations as rows of numbers."""
    parts = obs.values() if isinstance(obs, dict) else [obs]
    return np.concatenate([np.reshape(part, (rows, -1)) for part in parts], axis=1, dtype=np.float32)


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
    act = actor(policy, policy.init(rng)[None])
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


if __name__ == "__main__":
    main(tyro.cli(Arguments))
