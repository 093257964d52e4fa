"""Is MJX's physics that of C MuJoCo? Task by task, for the device engine:

    python benchmarks/parity.py [TASK ...] --impl jax --episodes 100 --json results/device/parity-NAME.json

Two questions. How far the two are apart after 1, 10 and 50 steps, from the same states, with the same random actions:
the largest difference of any joint and of any observation over some worlds. And what the same policy returns over so
many episodes on each, with a 95% interval of the difference of the two means: the policy is the one that comes with
quell for the task, or an untrained one of seed 200, acting with its mean action. The two engines draw their own resets.

The file is written after every task, and tasks that are there already are left out.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import jax
import numpy as np
import tyro
from device import machine
from scipy.stats import ttest_ind

import quell
from quell import zoo
from quell.cache import keep_compiled
from quell.errors import QuellError
from quell.keys import Purpose, generator
from quell.policy import GaussianPolicy
from quell.rollout.device import Device
from quell.rollout.device.worlds.mjx import MjxWorld
from quell.tasks import get, names
from quell.tasks.base import MujocoTask
from quell.training.trained import TrainedPolicy

LOOKS = (1, 10, 50)  # steps


@dataclass
class Arguments:
    """Differences between MJX and C MuJoCo."""

    tasks: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    """By default all on MuJoCo."""
    impl: str = "jax"
    worlds: int = 16
    steps: int = LOOKS[-1]
    episodes: int = 100
    """0: no returns."""
    horizon: int | None = None
    """Of the episodes whose returns are compared, if not the task's own."""
    iterations: int = 4
    ls_iterations: int = 8
    json: Path | None = None


def main() -> None:
    asked = tyro.cli(Arguments, description=__doc__)
    keep_compiled()
    found: dict[str, Any] = {}
    if asked.json is not None and asked.json.exists():
        found = json.loads(asked.json.read_text())["tasks"]
    print(f"{'':26}" + "".join(f"{f'|dq| {n}':>12}{f'|do| {n}':>12}" for n in LOOKS) + "   returns C, MJX, difference")
    chosen = asked.tasks or [name for name in names() if isinstance(get(name), MujocoTask)]
    for part in (stepped, returned) if asked.episodes else (stepped,):
        for name in chosen:
            own = found.setdefault(name, {})
            if part.__name__ in own or "refused" in own:
                continue
            started = time.perf_counter()
            try:
                own[part.__name__] = part(asked, name)
            except QuellError as error:
                own["refused"] = str(error)
            seconds = time.perf_counter() - started
            print(f"{name:26}{told(own)}   ({seconds:.0f} s)", flush=True)
            if asked.json is not None:
                asked.json.parent.mkdir(parents=True, exist_ok=True)
                options = {key: value for key, value in asdict(asked).items() if key not in ("json", "tasks")}
                asked.json.write_text(json.dumps({"asked": options, **machine(), "tasks": found}, indent=1))


def told(one: dict[str, Any]) -> str:
    if "refused" in one:
        return f"  {one['refused']}"
    steps = "".join(f"{at['qpos']:12.1e}{at['obs']:12.1e}" for at in one["stepped"]["after"].values())
    if "returned" not in one:
        return steps
    gap, low, high = one["returned"]["difference"]
    means = [f"{np.mean(one['returned'][side]):.1f}" for side in ("c", "mjx")]
    return f"{steps}   {', '.join(means)}, {gap:.1f} [{low:.1f}, {high:.1f}]"


def device(asked: Arguments) -> Device:
    settings: Any = {"impl": asked.impl, "iterations": asked.iterations, "ls_iterations": asked.ls_iterations}
    return Device(**settings)


def returned(asked: Arguments, name: str) -> dict[str, Any]:
    """What the same policy returns on both."""
    policy, whose = policy_for(name, asked.horizon)
    returns = {
        side: quell.evaluate(policy, episodes=asked.episodes, seed=200, engine=engine).returns.tolist()
        for side, engine in (("c", quell.Cpu()), ("mjx", device(asked)))
    }
    interval = ttest_ind(returns["mjx"], returns["c"], equal_var=False).confidence_interval()
    gap = [float(np.mean(returns["mjx"]) - np.mean(returns["c"])), float(interval.low), float(interval.high)]
    return {**returns, "difference": gap, "policy": whose, "horizon": policy.task.horizon}


@jax.default_matmul_precision("highest")  # as the engine has it: a GPU would take 10 bits
def stepped(asked: Arguments, name: str) -> dict[str, Any]:
    """Largest differences after so many steps."""
    task: Any = get(name)
    world, count = MjxWorld(task, device(asked)), asked.worlds
    simulator = task.simulator(count)
    start = simulator.reset([generator(200, Purpose.FRESH_ENVIRONMENT, k) for k in range(count)])
    states = [np.stack([getattr(data, field) for data in simulator.data]) for field in ("qpos", "qvel", "act")]
    state, obs = jax.jit(world.placed)(*states)
    step, rng = jax.jit(world.step), np.random.default_rng(200)
    low, high = (np.nan_to_num(side, posinf=1, neginf=-1) for side in simulator.bounds)
    found = {"reset": float(np.abs(np.asarray(obs) - start).max()), "after": {}, "ends": 0}
    spent = 0.0
    for number in range(1, asked.steps + 1):
        actions = rng.uniform(low, high, (count, task.action_size)).astype(np.float32)
        seen, rewards, ended = simulator.step(actions, np.ones(count, bool))
        started = time.perf_counter()
        state, obs, earned, over = jax.block_until_ready(step(state, actions))
        spent += (time.perf_counter() - started) * (number > 1)
        found["ends"] += int((np.asarray(over) != ended).sum())
        if number in LOOKS:
            qpos = np.stack([data.qpos for data in simulator.data])
            pairs = {"qpos": (state.qpos, qpos), "obs": (obs, seen), "reward": (earned, rewards)}
            found["after"][str(number)] = {
                name: float(np.abs(np.asarray(ours) - theirs).max()) for name, (ours, theirs) in pairs.items()
            }
    troubled = {name: int(np.sum(value)) for name, value in world.trouble(state).items()}
    return {**found, "trouble": troubled, "rate": count * (asked.steps - 1) / spent if spent else None}


def policy_for(name: str, horizon: int | None) -> tuple[TrainedPolicy, str]:
    """The policy that comes with quell, or an untrained one; and which it is."""
    if name in zoo.names():
        trained, whose = quell.load(f"{zoo.PREFIX}{name}").policy, f"{zoo.PREFIX}{name}"
        task = trained.task if horizon is None else get(name, horizon=horizon)
        return TrainedPolicy(trained.policy, trained.theta, trained.obs_stats, task), whose
    task = get(name) if horizon is None else get(name, horizon=horizon)
    policy = GaussianPolicy(output_scale=0.1).make(task)
    return TrainedPolicy(policy, policy.init(generator(200, Purpose.INIT)), None, task), "untrained"


if __name__ == "__main__":
    main()
