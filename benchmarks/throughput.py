"""How close a training iteration comes to the engine's limit: HalfCheetah, 5 pairs, one interleaved run.

    python benchmarks/throughput.py            (needs the extra envpool)

Compares, round by round and so under the same load of the machine:

    open loop    each worker process steps its members' physics with ready-made controls, nothing else: the limit
    EnvPool      closed loop with the same policy and noise, as many threads as workers
    es           a whole ES iteration: perturb, roll out, estimate, update
    cv           the same with the control variate (gamma fixed)
    cv+gamma     the same with the control variate as in the paper (gamma learned from 10 trials per batch)

and prints medians and ratios. All of them take 10 episodes of 1000 real steps.
"""

from __future__ import annotations

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

import quell.tasks
from quell.config import default_workers
from quell.keys import Purpose, generator
from quell.methods import make_config
from quell.policy import Policy
from quell.trainer import Trainer

EPISODES, HORIZON = 10, 1000


@dataclass
class Arguments:
    """Throughput on HalfCheetah with 5 pairs, interleaved."""

    rounds: int = 15
    workers: int = default_workers()
    json: Path | None = None
    """Also write the figures here."""


def open_loop_worker(pipe: Connection, members: int) -> None:
    """Physics only: `members` simulations with controls drawn beforehand."""
    import mujoco

    model = quell.tasks.get("halfcheetah").model()  # type: ignore[attr-defined]
    data = [mujoco.MjData(model) for _ in range(members)]
    controls = np.random.default_rng(0).standard_normal((HORIZON, members, model.nu))  # as noisy as the policy
    while pipe.recv():
        for member in data:
            mujoco.mj_resetData(model, member)
        for row in controls:
            for member, control in zip(data, row, strict=True):
                member.ctrl[:] = control
                mujoco.mj_step(model, member, 5)
        pipe.send(None)


def open_loop(workers: int) -> tuple[Callable[[], None], Callable[[], None]]:
    """(run once, stop)"""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    context = multiprocessing.get_context("spawn")
    pipes = []
    for k in range(workers):
        ours, theirs = context.Pipe()
        members = len(range(k, EPISODES, workers))
        context.Process(target=open_loop_worker, args=(theirs, members), daemon=True).start()
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

    envs = envpool.make("HalfCheetah-v4", env_type="gymnasium", num_envs=EPISODES, num_threads=workers)
    policy = Policy(17, 6)
    rng = generator(0, Purpose.INIT)
    act = policy.actor(np.stack([policy.init(rng) for _ in range(EPISODES)]))

    def run() -> None:
        noise = np.stack([policy.draw_noise(rng, HORIZON) for _ in range(EPISODES)], axis=1)
        obs, _ = envs.reset()
        stored = np.empty((HORIZON, EPISODES, 17))
        rewards = np.empty((HORIZON, EPISODES))
        for t in range(HORIZON):
            stored[t] = obs
            obs, rewards[t], *_ = envs.step(act(obs.astype(np.float32), noise[t]))

    return run


def training(method: str, workers: int, **settings: Any) -> tuple[Callable[[], None], Callable[[], None]]:
    """(one iteration, stop)"""
    config = make_config("halfcheetah", method, "paper", {"pairs": EPISODES // 2, **settings})
    trainer = Trainer(config, workers)
    state = [trainer.initial_state()]

    def run() -> None:
        state[0], _ = trainer.iterate(state[0])

    return run, trainer.close


def main(arguments: Arguments) -> None:
    workers = arguments.workers
    limit, stop_limit = open_loop(workers)
    es, stop_es = training("es", workers)
    cv, stop_cv = training("cv", workers, **{"cv.learn_gamma": False})
    cv_gamma, stop_cv_gamma = training("cv", workers)
    contestants = {"open loop": limit, "EnvPool": envpool_loop(workers), "es": es, "cv": cv, "cv+gamma": cv_gamma}
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for round_number in range(arguments.rounds + 2):
        for name, run in contestants.items():
            started = time.perf_counter()
            run()
            if round_number >= 2:  # the first two warm up: compilation, caches
                times[name].append(time.perf_counter() - started)
    for stop in (stop_limit, stop_es, stop_cv, stop_cv_gamma):
        stop()

    middle = {name: median(values) for name, values in times.items()}
    print(f"halfcheetah, {EPISODES} episodes x {HORIZON} steps, {workers} workers, median of {arguments.rounds} rounds")
    for name, value in middle.items():
        print(f"  {name:<10}{value * 1e3:8.1f} ms  {EPISODES * HORIZON / value:>8,.0f} steps/s")
    ratios = {
        "es / open loop": middle["open loop"] / middle["es"],
        "es / EnvPool": middle["EnvPool"] / middle["es"],
        "cv time / es time": middle["cv"] / middle["es"],
        "cv+gamma time / es time": middle["cv+gamma"] / middle["es"],
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
