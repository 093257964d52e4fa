"""The Ray engine beside the local one: `python benchmarks/cluster.py`.

Throughput: halfcheetah with 20 pairs, one iteration of each engine in turn, so that both meet the same machine; the
median ratio of a turn should be at least 0.9. Overhead: iterations of a task that costs nothing, against the number of
parameters and of workers, beside what `scale_model.py` says with round numbers for this machine's constants.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import time
from pathlib import Path

from scale_model import Machine, Workload, nodes_sent, prepared_bytes, scalar_bytes, simulate, sums_bytes

from quell.compute import Compute
from quell.config import default_workers
from quell.methods import make_config
from quell.rollout.cluster.session import Session
from quell.trainer import Trainer, TrainState

ONE_MACHINE = Machine(step=1e-5, memory=2.5e9, network=1.5e9, latency=0.0, call=2e-3, fixed=5e-3, cores=2)
"""Two shared cores; `network` is the object store, a copy in and a copy out."""


def throughput(method: str, rounds: int) -> dict[str, float]:
    """Median steps per second of both engines, measured in alternation, and their ratio."""
    config = make_config("halfcheetah", method, overrides={"pairs": 20})
    workers = default_workers()
    trainers = {"local": Trainer(config, Compute(workers)), "ray": Trainer(config, Compute(workers, "ray"))}
    speeds: dict[str, list[float]] = {name: [] for name in trainers}
    try:
        states: dict[str, TrainState] = {name: trainer.initial_state() for name, trainer in trainers.items()}
        for turn in range(rounds + 1):
            for name, trainer in trainers.items():
                started = time.perf_counter()
                following, _ = trainer.iterate(states[name])
                seconds = time.perf_counter() - started
                if turn:  # the first compiles
                    speeds[name].append((following.steps - states[name].steps) / seconds)
                states[name] = following
        assert (states["local"].theta == states["ray"].theta).all(), "the engines disagree"
    finally:
        for trainer in trainers.values():
            trainer.close()
    medians = {name: statistics.median(values) for name, values in speeds.items()}
    ratios = [ray / local for local, ray in zip(speeds["local"], speeds["ray"], strict=True)]
    return {**medians, "ratio": statistics.median(ratios)}


def overhead(hidden: tuple[int, ...], workers: int, pairs: int, rounds: int) -> dict[str, float]:
    """Median milliseconds of an ES iteration with ten-step episodes: nearly all of it is overhead."""
    settings = {"pairs": pairs, "horizon": 10, "policy.hidden": hidden, "eval_episodes": 1}
    trainer = Trainer(make_config("lqr", "es", overrides=settings), Compute(workers, "ray"))
    try:
        state, times, row = trainer.initial_state(), [], {"cluster/bytes_in": 0.0, "cluster/bytes_out": 0.0}
        for turn in range(rounds + 2):
            started = time.perf_counter()
            state, row = trainer.iterate(state)
            if turn > 1:
                times.append(time.perf_counter() - started)
        load = Workload(trainer.policy.dim, pairs, steps=10, obs=3, method="es")
    finally:
        trainer.close()
    told = simulate(load, workers, "flat", ONE_MACHINE)
    sums = sum(nodes_sent(pairs, workers)) * (sums_bytes("es", load.dim) + 8)
    return {
        "dim": load.dim,
        "workers": workers,
        "milliseconds": 1e3 * statistics.median(times),
        "simulated": 1e3 * (told.work + told.overhead),
        "bytes_in": row["cluster/bytes_in"],
        "bytes_in_formula": scalar_bytes(load) + sums,
        "bytes_out": row["cluster/bytes_out"],
        "bytes_out_formula": 4 * load.dim + prepared_bytes(load),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=Path, help="also write the figures as JSON")
    arguments = parser.parse_args()
    figures: dict[str, object] = {}
    for method in ("es", "cv"):
        figures[method] = measured = throughput(method, arguments.rounds)
        print(f"halfcheetah {method}: local {measured['local']:,.0f} steps/s, ray {measured['ray']:,.0f}, ", end="")
        print(f"ratio {measured['ratio']:.3f}", flush=True)
    rows = []
    session = Session(None, 3)
    try:
        for hidden in ((50, 50), (1000, 1000), (3000, 3000)):
            for workers in (1, 2, 3):
                rows.append(measured := overhead(hidden, workers, pairs=4, rounds=arguments.rounds))
                print("  ".join(f"{name} {value:,.0f}" for name, value in measured.items()), flush=True)
    finally:
        session.close()
    figures["overhead"], figures["machine"] = rows, dataclasses.asdict(ONE_MACHINE)
    if arguments.out:
        arguments.out.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
