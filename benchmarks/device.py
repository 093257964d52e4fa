"""How fast the device engine is, and how soon it reaches a score; one command on a machine with a GPU:

    python benchmarks/device.py rates --json results/device/NAME.json
    python benchmarks/device.py seeds --json results/device/seeds-NAME.json
    python benchmarks/device.py seconds halfcheetah --target 3000 --json results/device/seconds-NAME.json

Rates are environment steps per second of whole iterations (perturb, rollout, estimate, update, and what the host does
for the log), and each one's share of a raw closed-loop rollout: the same number of members, one policy that all share,
with the same physics and in the same run, from which nothing is kept. All take turns, and medians count. Nothing is
measured before it has been compiled; what compiling took is given separately.

Seeds are small populations of one method: all of them in one program, and one of them alone, in turns.

Seconds are from the start of this process, compiling included, to the first evaluation in C MuJoCo, with mean actions
over fresh episodes, that reaches the score. Evaluations are between iterations, and their seconds are not counted.

The device is named in the file, which is written after every row. Figures from a CPU show that the program works, and
say nothing of a GPU.
"""

from __future__ import annotations

import itertools
import json
import os
import platform
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import jax
import numpy as np
import tyro

from quell.config import parse_value
from quell.estimate import Problem
from quell.keys import Stream
from quell.perturb import Unperturbed
from quell.rollout.cpu import Cpu
from quell.rollout.device import Device
from quell.rollout.device import engine as device_engine
from quell.training.iteration import Trainer
from quell.training.methods import make_config
from quell.types import Episodes

ROWS: dict[str, tuple[str, str]] = {"es": ("es", "paper"), "cv": ("cv", "paper"), "default": ("natural-cv", "tuned")}
"""Row -> method and preset; batches are so many pairs, whatever the preset says."""


@dataclass
class Rates:
    """Environment steps per second of iterations, beside a raw rollout."""

    tasks: tuple[str, ...] = ("halfcheetah", "swimmer")
    members: tuple[int, ...] = (512, 8192, 32768)
    impls: tuple[str, ...] = ("jax", "warp")
    rows: tuple[str, ...] = tuple(ROWS)
    rounds: int = 3
    horizon: int | None = None
    """Of an episode, if not the task's own."""
    chunk: int | None = None
    json: Path | None = None


@dataclass
class Seeds:
    """Environment steps per second of many seeds in one program, beside one of them alone."""

    task: str = "halfcheetah"
    method: str = "natural-cv"
    seeds: int = 16
    pairs: int = 16
    impl: str = "auto"
    rounds: int = 3
    horizon: int | None = None
    json: Path | None = None


@dataclass
class Seconds:
    """Seconds to a score."""

    task: Annotated[str, tyro.conf.Positional]
    target: float
    method: str = "natural-cv"
    engine: str = "device"
    """device or cpu: on the CPU engine with all of this machine's cores."""
    impl: str = "auto"
    pairs: int | None = None
    """Of a batch, if not the preset's."""
    steps: int = 1_000_000_000
    most: float = 3600.0
    """Seconds after which it is given up."""
    seed: int = 200
    episodes: int = 20
    every: int = 1
    """Iterations between evaluations."""
    settings: tuple[str, ...] = ()
    """More of them, as name=value."""
    json: Path | None = None


def main() -> None:
    chosen = tyro.cli(Rates | Seeds | Seconds, description=__doc__)  # type: ignore[arg-type, var-annotated]
    print(jax.devices()[0].device_kind, flush=True)
    measure: Any = {Rates: rates, Seeds: seeds, Seconds: seconds}[type(chosen)]
    asked = {name: str(value) if isinstance(value, Path) else value for name, value in asdict(chosen).items()}
    for found in measure(chosen):  # what there is so far
        if chosen.json is not None:
            chosen.json.parent.mkdir(parents=True, exist_ok=True)
            chosen.json.write_text(json.dumps({"asked": asked, **machine(), **found}, indent=1))


def machine() -> dict[str, Any]:
    """What all of it ran on."""
    from quell.runs.folder import versions

    devices = [f"{device.platform} {device.device_kind}" for device in jax.devices()]
    return {"devices": devices, "machine": platform.machine(), **versions()}


def rates(asked: Rates) -> Iterator[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    print("environment steps per second, and the share of a raw rollout")
    for task, impl, members in itertools.product(asked.tasks, asked.impls, asked.members):
        for row in measured(asked, task, impl, members):
            rows.append(row)
            share = f"{row['share']:6.2f}" if row["share"] else ""
            facts = f"compiled in {row['compiling']:.0f} s"
            print(f"{task:14}{impl:6}{members:>7} {row['row']:9}{row['rate']:14,.0f} {share:7}{facts}", flush=True)
        yield {"rows": rows}


def measured(asked: Rates, task: str, impl: str, members: int) -> list[dict[str, Any]]:
    """The rows of one task, backend and number of members."""
    settings: Any = Device(impl=impl, chunk=asked.chunk)  # type: ignore[arg-type]
    numbers: dict[str, Any] = {"pairs": members // 2, "batch_steps": 0, "steps": 10**9, "seed": 200}
    numbers |= {"horizon": asked.horizon, "train_horizon": 0}
    configs = {name: make_config(task, ROWS[name][0], ROWS[name][1], numbers) for name in asked.rows}  # type: ignore[arg-type]
    trainers = {name: Trainer(config, settings) for name, config in configs.items()}
    first = next(iter(trainers.values()))
    raw = settings.make(first.task, Problem(first.problem.policy, Unperturbed(), 200), members=members)
    states: dict[str, Any] = {name: trainer.initial_state() for name, trainer in trainers.items()}
    theta = next(iter(states.values())).theta

    def once(name: str, turn: int) -> float:
        """Steps per second of one turn."""
        started = time.perf_counter()
        if name == "raw":
            steps = raw.rollout(theta, Episodes.unperturbed(turn, members, Stream.MEASURE)).steps.sum()
        else:
            states[name], row = trainers[name].iterate(states[name])
            steps = row["episode_length"] * members
        return float(steps) / (time.perf_counter() - started)

    names, compiling = ["raw", *trainers], dict[str, float]()
    for name in names:
        started = time.perf_counter()
        once(name, 0)
        compiling[name] = time.perf_counter() - started
    turns = [{name: once(name, turn) for name in names} for turn in range(1, asked.rounds + 1)]
    rows = []
    for name in names:
        share = median(turn[name] / turn["raw"] for turn in turns) if name != "raw" else None
        facts = {"task": task, "impl": impl, "members": members, "row": name, "compiling": compiling[name]}
        found = [turn[name] for turn in turns]
        rows.append({**facts, "rate": median(found), "share": share, "turns": found, "chunk": asked.chunk})
    device_engine.PROGRAMS.clear()
    return rows


def seeds(asked: Seeds) -> Iterator[dict[str, Any]]:
    """All in one program and one alone take turns; what one after another would do is the rate of the one."""
    settings: Any = Device(impl=asked.impl)  # type: ignore[arg-type]
    numbers: dict[str, Any] = {"pairs": asked.pairs, "batch_steps": 0, "steps": 10**9}
    numbers |= {"horizon": asked.horizon, "train_horizon": 0}
    each = [make_config(asked.task, asked.method, "tuned", {**numbers, "seed": 200 + k}) for k in range(asked.seeds)]  # type: ignore[arg-type]
    trainers = [Trainer(config, settings) for config in each]
    states: list[Any] = [trainer.initial_state() for trainer in trainers]
    engine: Any = trainers[0].engine

    def once(count: int) -> float:
        """Steps per second of an iteration of so many seeds."""
        started, steps = time.perf_counter(), 0.0
        after = engine.side_by_side(list(trainers[:count]), states[:count])
        for k, (following, row) in enumerate(after):
            states[k], steps = following, steps + row["episode_length"] * 2 * asked.pairs
        return steps / (time.perf_counter() - started)

    compiling = {}
    for count in (1, asked.seeds):
        started = time.perf_counter()
        once(count)
        compiling[count] = time.perf_counter() - started
    turns = [{count: once(count) for count in (1, asked.seeds)} for _ in range(asked.rounds)]
    times = median(turn[asked.seeds] / turn[1] for turn in turns)
    rates = {count: median(turn[count] for turn in turns) for count in compiling}
    print(f"one alone {rates[1]:,.0f}, {asked.seeds} in one program {rates[asked.seeds]:,.0f}: {times:.2f} times")
    yield {"turns": turns, "times": times, "compiling": compiling}


def since_start() -> float:
    """Seconds since this process was started, imports included."""
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


def seconds(asked: Seconds) -> Iterator[dict[str, Any]]:
    """A run until it reaches the score."""
    numbers: dict[str, Any] = {"steps": asked.steps, "seed": asked.seed, "eval_every": 0}
    numbers |= dict(one.split("=", 1) for one in asked.settings)
    if asked.pairs is not None:
        numbers |= {"pairs": asked.pairs, "batch_steps": 0}
    numbers = {name: parse_value(value) if isinstance(value, str) else value for name, value in numbers.items()}
    config = make_config(asked.task, asked.method, "tuned", numbers)
    compute: Any = Device(impl=asked.impl) if asked.engine == "device" else Cpu()  # type: ignore[arg-type]
    trainer = Trainer(config, compute)
    judge = Cpu().make(trainer.task, Problem(trainer.problem.policy, Unperturbed(), asked.seed), members=asked.episodes)
    state, away, curve = trainer.initial_state(), 0.0, []
    with judge:
        while state.steps < asked.steps:
            state, row = trainer.iterate(state)
            spent = since_start() - away
            if state.iteration % asked.every == 0:
                started = time.perf_counter()
                episodes = Episodes.unperturbed(state.iteration, asked.episodes, Stream.FRESH, mean_action=True)
                seen = state.obs if config.normalise_obs else None
                score = float(judge.rollout(np.asarray(state.theta), episodes, seen).returns.mean())
                curve.append({"seconds": spent, "steps": state.steps, "score": score, "train": row["return/mean"]})
                print(f"{spent:8.1f} s {state.steps:>14,} steps  {score:10.1f}", flush=True)
                away += time.perf_counter() - started
                reached = spent if score >= asked.target else None
                yield {"reached": reached, "curve": curve}
                if reached:
                    return
            if spent > asked.most:
                break
    print(f"not reached in {asked.most:g} s, {asked.steps:,} steps at most")


if __name__ == "__main__":
    main()
