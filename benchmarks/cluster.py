"""The Ray engine beside the local one: `python benchmarks/cluster.py`, or beside that of another commit: `--against`.

Throughput: halfcheetah with 20 pairs, one iteration of each engine in turn, so that both meet the same machine; the
median ratio of a turn should be at least 0.9. Overhead: iterations of a task that costs nothing, against the number of
parameters and of workers, beside what `scale_model.py` says with round numbers for this machine's constants.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from against import START, iterations, make_trainer, race, serve

WORKERS = len(os.sched_getaffinity(0))
DEFAULT = "natural-cv"
WIDTHS = ((50, 50), (1000, 1000), (3000, 3000))
"""Hidden layers of the policies on which overhead is measured."""
ONE_MACHINE: dict[str, Any] = {
    **{"step": 1e-5, "memory": 2.5e9, "network": 1.5e9},
    **{"latency": 0.0, "call": 2e-3, "fixed": 5e-3, "cores": 2},
}
"""Two shared cores; `network` is the object store, a copy in and a copy out."""


def on_halfcheetah(method: str, engine: str) -> Any:
    """Twenty pairs on all cores: ES with the paper's settings, or the default."""
    preset = "tuned" if method == DEFAULT else "paper"
    return make_trainer("halfcheetah", method, preset, workers=WORKERS, engine=engine, pairs=20, batch_steps=0, **START)


def nearly_nothing(hidden: tuple[int, ...], workers: int, pairs: int) -> Any:
    """ES with ten-step episodes on Ray: nearly all of an iteration is overhead."""
    settings = {"pairs": pairs, "horizon": 10, "policy.hidden": hidden, "eval_episodes": 1}
    return make_trainer("lqr", "es", "paper", workers=workers, engine="ray", **START, **settings)


def throughput(method: str, rounds: int) -> dict[str, float]:
    """Median steps per second of both engines, measured in alternation, and their ratio."""
    trainers = {name: on_halfcheetah(method, engine) for name, engine in (("local", "cpu"), ("ray", "ray"))}
    speeds: dict[str, list[float]] = {name: [] for name in trainers}
    try:
        states = {name: trainer.initial_state() for name, trainer in trainers.items()}
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
    """Median milliseconds of such an iteration, and its bytes, beside the model's."""
    from scale_model import Machine, Workload, nodes_sent, prepared_bytes, scalar_bytes, simulate, sums_bytes

    trainer = nearly_nothing(hidden, workers, pairs)
    try:
        state, times, row = trainer.initial_state(), [], {"cluster/bytes_in": 0.0, "cluster/bytes_out": 0.0}
        for turn in range(rounds + 2):
            started = time.perf_counter()
            state, row = trainer.iterate(state)
            if turn > 1:
                times.append(time.perf_counter() - started)
        load = Workload(trainer.problem.policy.dim, pairs, steps=10, obs=3, method="es")
    finally:
        trainer.close()
    told = simulate(load, workers, "flat", Machine(**ONE_MACHINE))
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


def contestants(words: str) -> dict[str, Any]:
    """Row -> a trainer on Ray, of the rows whose names contain `words`."""
    rows: dict[str, tuple[Any, tuple[Any, ...]]] = {
        f"halfcheetah {method}": (on_halfcheetah, (method, "ray")) for method in ("es", DEFAULT)
    }
    for hidden, workers in itertools.product(WIDTHS[:2], (1, 2)):
        rows[f"overhead {hidden[0]} x {workers}"] = nearly_nothing, (hidden, workers, 4)
    return {name: make(*given) for name, (make, given) in rows.items() if words in name}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--widths", type=int, default=len(WIDTHS), help="how many sizes of networks")
    parser.add_argument("--out", type=Path, help="also write the figures as JSON")
    parser.add_argument("--against", help="a commit whose Ray engine to race instead (see against.py)")
    parser.add_argument("--processes", type=int, default=3, help="against: fresh processes of each side")
    parser.add_argument("--rows", default="", help="against: only the rows whose names contain this")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        with ray_session(WORKERS * 6):
            serve({name: iterations(trainer) for name, trainer in contestants(arguments.rows).items()})
        return
    figures: dict[str, Any]
    if arguments.against:
        repeats = {"rounds": arguments.rounds, "processes": arguments.processes}
        figures = {"against": arguments.against, **repeats}
        figures["rows"] = race(__file__, arguments.against, arguments=["--rows", arguments.rows], **repeats)
    else:
        figures = beside_the_local_engine(arguments.rounds, arguments.widths)
    if arguments.out:
        arguments.out.write_text(json.dumps(figures, indent=1) + "\n")


def beside_the_local_engine(rounds: int, widths: int) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for method in ("es", DEFAULT):
        figures[method] = measured = throughput(method, rounds)
        print(f"halfcheetah {method}: local {measured['local']:,.0f} steps/s, ray {measured['ray']:,.0f}, ", end="")
        print(f"ratio {measured['ratio']:.3f}", flush=True)
    rows = []
    with ray_session(3):
        for hidden in WIDTHS[:widths]:
            for workers in (1, 2, 3):
                rows.append(measured := overhead(hidden, workers, pairs=4, rounds=rounds))
                print("  ".join(f"{name} {value:,.0f}" for name, value in measured.items()), flush=True)
    return {**figures, "overhead": rows, "machine": ONE_MACHINE}


@contextmanager
def ray_session(cores: int) -> Iterator[None]:
    """One local cluster for several engines."""
    from quell.rollout.cluster.session import Session

    session = Session(None, cores)
    try:
        yield
    finally:
        session.close()


if __name__ == "__main__":
    main()
