"""How close a training iteration comes to the engine's limit: HalfCheetah, 5 pairs, one interleaved run.

    python benchmarks/throughput.py            (needs the extra envpool)

Compares, round by round and so under the same load of the machine:

    open loop    each worker process replays its members' episodes from recorded actions, physics only: the limit
    EnvPool      closed loop with the same policy and noise, as many threads as workers
    es           a whole ES iteration: perturb, roll out, estimate, update
    cv           the same with the control variate (gamma fixed)
    cv+gamma     the same with the control variate as in the paper (gamma learned from 10 trials per batch)
    auto         the same with several control variates, chosen in the policy's metric (the tuned default)

and prints medians and ratios. All of them take 10 episodes of 1000 real steps.
"""

from __future__ import annotations

import copy
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

import jax
import numpy as np
import tyro

import quell.tasks
from quell.config import default_workers
from quell.keys import Purpose, generator
from quell.methods import make_config
from quell.policy import Policy
from quell.tasks.mujoco import without_clock
from quell.trainer import Trainer
from quell.types import Episodes

EPISODES, HORIZON = 10, 1000


@dataclass
class Arguments:
    """Throughput on HalfCheetah with 5 pairs, interleaved."""

    rounds: int = 15
    workers: int = default_workers()
    json: Path | None = None
    """Also write the figures here."""


def open_loop_worker(pipe: Connection, members: list[int], actions: np.ndarray) -> None:
    """Physics only: the members' own episodes again, from the same resets with the actions they took."""
    import mujoco

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

    envs = envpool.make("HalfCheetah-v4", env_type="gymnasium", num_envs=EPISODES, num_threads=workers)
    policy = Policy(17, 6)
    rng = generator(0, Purpose.ACTION)
    act = policy.actor(np.stack([policy.init(generator(0, Purpose.INIT))] * EPISODES))

    def run() -> None:
        noise = np.stack([policy.draw_noise(rng, HORIZON) for _ in range(EPISODES)], axis=1)
        obs, _ = envs.reset()
        stored = np.empty((HORIZON, EPISODES, 17))
        rewards = np.empty((HORIZON, EPISODES))
        for t in range(HORIZON):
            stored[t] = obs
            obs, rewards[t], *_ = envs.step(act(obs.astype(np.float32), noise[t]))

    return run


def training(method: str, workers: int, **settings: Any) -> tuple[Callable[[], None], Trainer]:
    """(the first iteration, its trainer): always the episodes that the open loop replays, as some take longer."""
    trainer = Trainer(make_config("halfcheetah", method, "paper", {"pairs": EPISODES // 2, **settings}), workers)
    state = trainer.initial_state()

    def run() -> None:
        jax.block_until_ready(trainer.iterate(state))

    return run, trainer


def recorded_actions(trainer: Trainer) -> np.ndarray:
    """The actions [episodes, t, a] of iteration 0, at the initial policy."""
    episodes = Episodes.of_pairs(0, EPISODES // 2, 0.02, record=True, shared_reset=False)
    paths = trainer.engine.rollout(trainer.initial_state().theta, episodes).trajectories
    assert paths is not None
    return paths.actions.copy()


def main(arguments: Arguments) -> None:
    workers = arguments.workers
    es, es_trainer = training("es", workers)
    cv, cv_trainer = training("cv", workers, **{"cv.learn_gamma": False})
    cv_gamma, cv_gamma_trainer = training("cv", workers)
    auto, auto_trainer = training("cv", workers, **{"cv.eta": "auto", "cv.metric": "policy"})
    limit, stop_limit = open_loop(workers, recorded_actions(cv_trainer))
    contestants = {
        "open loop": limit,
        "EnvPool": envpool_loop(workers),
        "es": es,
        "cv": cv,
        "cv+gamma": cv_gamma,
        "auto": auto,
    }
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for round_number in range(arguments.rounds + 2):
        for name, run in contestants.items():
            started = time.perf_counter()
            run()
            if round_number >= 2:  # the first two warm up: compilation, caches
                times[name].append(time.perf_counter() - started)
    stop_limit()
    for trainer in (es_trainer, cv_trainer, cv_gamma_trainer, auto_trainer):
        trainer.close()

    middle = {name: median(values) for name, values in times.items()}
    print(f"halfcheetah, {EPISODES} episodes x {HORIZON} steps, {workers} workers, median of {arguments.rounds} rounds")
    for name, value in middle.items():
        print(f"  {name:<10}{value * 1e3:8.1f} ms  {EPISODES * HORIZON / value:>8,.0f} steps/s")
    ratios = {
        "es / open loop": middle["open loop"] / middle["es"],
        "es / EnvPool": middle["EnvPool"] / middle["es"],
        "cv time / es time": middle["cv"] / middle["es"],
        "cv+gamma time / es time": middle["cv+gamma"] / middle["es"],
        "auto time / es time": middle["auto"] / middle["es"],
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
