"""How close a training iteration comes to the engine's limit: HalfCheetah, 5 pairs, one interleaved run.

    python benchmarks/throughput.py            (needs the extra envpool)
    python benchmarks/throughput.py --against COMMIT --json FILE

The second form races this checkout against another commit (see against.py). The first compares, round by round and so
under the same load of the machine:

    open loop    each worker process replays its members' episodes from recorded actions, physics only: the limit
    EnvPool      closed loop with the same policy and noise, as many threads as workers
    es           a whole ES iteration: perturb, roll out, estimate, update
    cv           the same with the paper's control variate (gamma fixed)
    cv+gamma     the same with gamma learned, as in the paper (from 10 trials per batch)
    natural-cv   the default: a critic's control variate and a natural step

and prints medians and ratios. All of them take 10 episodes of 1000 real steps.
"""

from __future__ import annotations

import copy
import itertools
import json
import multiprocessing
import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import tyro
from against import FIXED, START, iterations, make_trainer, race, serve

EPISODES, HORIZON = 10, 1000
KINDS: dict[str, tuple[str, str, dict[str, Any]]] = {
    **{"es": ("es", "paper", {}), "cv": ("cv", "paper", FIXED), "cv+gamma": ("cv", "paper", {})},
    "natural-cv": ("natural-cv", "tuned", {"batch_steps": 0, "train_horizon": 0}),
}
"""Row -> method, preset, and what is different about it."""


@dataclass
class Arguments:
    """Throughput on HalfCheetah with 5 pairs, interleaved."""

    rounds: int = 15
    workers: int = len(os.sched_getaffinity(0))
    json: Path | None = None
    """Also write the figures here."""
    against: str | None = None
    """A commit to race against, instead of EnvPool and physics alone."""
    tasks: tuple[str, ...] = ("halfcheetah",)
    """Against a commit: on these tasks."""
    rows: tuple[str, ...] = tuple(KINDS)
    """Against a commit: these of the rows."""
    processes: int = 3
    """Against a commit: fresh processes of each side, with so many rounds each."""
    serve: bool = False
    """Be one side of a race."""


def open_loop_worker(pipe: Connection, members: list[int], actions: np.ndarray) -> None:
    """Physics only: the members' own episodes again, from the same resets with the actions they took."""
    import mujoco

    import quell.tasks
    from quell.keys import Purpose, generator
    from quell.tasks.mujoco import without_clock

    simulator = quell.tasks.get("halfcheetah").simulator(len(members))
    environments = [generator(0, Purpose.ENVIRONMENT, 0, member // 2, member % 2) for member in members]
    model, data = simulator.models[0], simulator.data  # type: ignore[attr-defined]
    controls = [member.ctrl for member in data]
    while pipe.recv():
        simulator.reset([copy.deepcopy(rng) for rng in environments])
        with without_clock():
            for row in actions:
                for member, control, action in zip(data, controls, row, strict=True):
                    control[:] = action
                    mujoco.mj_step(model, member, 5)
        pipe.send(None)


def open_loop(workers: int, actions: np.ndarray) -> tuple[Callable[[], None], Callable[[], None]]:
    """(run once, stop), for the actions [episodes, t, a] of a recorded iteration."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    context = multiprocessing.get_context("spawn")
    pipes = []
    for k in range(workers):
        ours, theirs = context.Pipe()
        members = list(range(k, EPISODES, workers))
        taken = np.ascontiguousarray(actions[members].transpose(1, 0, 2))
        context.Process(target=open_loop_worker, args=(theirs, members, taken), daemon=True).start()
        pipes.append(ours)

    def run() -> None:
        for pipe in pipes:
            pipe.send(True)
        for pipe in pipes:
            pipe.recv()

    def stop() -> None:
        for pipe in pipes:
            pipe.send(False)

    return run, stop


def envpool_loop(workers: int) -> Callable[[], None]:
    """EnvPool stepped in lockstep by a batched policy of the same size, with action noise and stored trajectories."""
    import envpool

    from quell.keys import Purpose, generator
    from quell.policy.act import actor
    from quell.policy.network import Policy

    envs = envpool.make("HalfCheetah-v4", env_type="gymnasium", num_envs=EPISODES, num_threads=workers)
    policy = Policy(17, 6)
    rng = generator(0, Purpose.ACTION)
    act = actor(policy, np.stack([policy.init(generator(0, Purpose.INIT))] * EPISODES))

    def run() -> None:
        noise = np.stack([policy.draw_noise(rng, HORIZON) for _ in range(EPISODES)], axis=1)
        obs, _ = envs.reset()
        stored = np.empty((HORIZON, EPISODES, 17))
        rewards = np.empty((HORIZON, EPISODES))
        for t in range(HORIZON):
            stored[t] = obs
            obs, rewards[t], *_ = envs.step(act(obs.astype(np.float32), noise[t]))

    return run


def contestants(tasks: tuple[str, ...], rows: tuple[str, ...], workers: int) -> dict[str, Any]:
    """Row -> its trainer."""
    made = {}
    for task, row in itertools.product(tasks, rows):
        method, preset, settings = KINDS[row]
        name = row if len(tasks) == 1 else f"{task} {row}"
        made[name] = make_trainer(task, method, preset, workers=workers, pairs=EPISODES // 2, **START, **settings)
    return made


def recorded_actions(trainer: Any) -> np.ndarray:
    """The actions [episodes, t, a] of iteration 0, at the initial policy."""
    from quell.types import Episodes

    episodes = Episodes.of_pairs(0, EPISODES // 2, record=True, shared_reset=False)
    paths = trainer.engine.rollout(trainer.initial_state().theta, episodes).trajectories
    assert paths is not None
    return paths.actions.copy()


def main(arguments: Arguments) -> None:
    if arguments.against:
        given = ["--tasks", *arguments.tasks, "--rows", *arguments.rows, "--workers", str(arguments.workers)]
        repeats = {"rounds": arguments.rounds, "processes": arguments.processes}
        found = race(__file__, arguments.against, arguments=given, **repeats)
        if arguments.json:
            facts = {"against": arguments.against, "workers": arguments.workers, **repeats, "rows": found}
            arguments.json.write_text(json.dumps(facts, indent=1) + "\n")
        return
    trainers = contestants(arguments.tasks, arguments.rows, arguments.workers)
    try:
        if arguments.serve:
            serve({name: iterations(trainer) for name, trainer in trainers.items()})
        else:
            beside_others(arguments, trainers)
    finally:
        for trainer in trainers.values():
            trainer.close()


def beside_others(arguments: Arguments, trainers: dict[str, Any]) -> None:
    """Iterations beside physics alone and EnvPool."""
    workers = arguments.workers
    limit, stop_limit = open_loop(workers, recorded_actions(trainers["cv"]))
    runs: dict[str, Callable[[], Any]] = {"open loop": limit, "EnvPool": envpool_loop(workers)}
    runs |= {name: iterations(trainer, count=1) for name, trainer in trainers.items()}
    times: dict[str, list[float]] = {name: [] for name in runs}
    for round_number in range(arguments.rounds + 2):
        for name, run in runs.items():
            started = time.perf_counter()
            run()
            if round_number >= 2:  # the first two warm up: compilation, caches
                times[name].append(time.perf_counter() - started)
    stop_limit()

    middle = {name: median(values) for name, values in times.items()}
    print(f"halfcheetah, {EPISODES} episodes x {HORIZON} steps, {workers} workers, median of {arguments.rounds} rounds")
    for name, value in middle.items():
        print(f"  {name:<10}{value * 1e3:8.1f} ms  {EPISODES * HORIZON / value:>8,.0f} steps/s")
    ratios = {
        "es / open loop": middle["open loop"] / middle["es"],
        "es / EnvPool": middle["EnvPool"] / middle["es"],
        "cv time / es time": middle["cv"] / middle["es"],
        "cv+gamma time / es time": middle["cv+gamma"] / middle["es"],
        "natural-cv time / es time": middle["natural-cv"] / middle["es"],
    }
    for name, value in ratios.items():
        print(f"  {name:<26}{value:.2f}")
    if arguments.json:
        facts = {
            "machine": platform.processor() or platform.machine(),
            "workers": workers,
            "seconds": times,
            "ratios": ratios,
        }
        arguments.json.write_text(json.dumps(facts, indent=1))


if __name__ == "__main__":
    main(tyro.cli(Arguments))
