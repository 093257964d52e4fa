"""Steps per second of ES: quell beside EvoTorch and sb3-contrib on HalfCheetah-v5, in turns, on two cores.

    python3.11 -m venv PEERS && PEERS/bin/pip install evotorch stable-baselines3 sb3-contrib "gymnasium[mujoco]"
    python benchmarks/es_peers.py PEERS/bin/python [--rounds 5] [--seconds 10] [--json results/throughput/es-peers.json]

    quell       a whole iteration of `es`, 10 pairs, two workers; and of the default with its own batches
    evotorch    PGPE on GymNE with two actors, 20 members (10 symmetric pairs)
    sb3-ars     ARS of sb3-contrib with RL Zoo's settings (a linear policy), in one process

Each turn is a process of its own: it warms up, then trains for so many seconds and counts environment steps. Policies
are networks of two layers of 32, but for ARS; observations are normalised. With nothing else on the machine.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

MEMBERS, ACTORS = 20, 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peers", nargs="?", default=sys.executable, help="the Python that has the other libraries")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rows", nargs="*", choices=list(ROWS), default=list(ROWS))
    parser.add_argument("--json", type=Path, help="write what was found here")
    parser.add_argument("--one", choices=list(ROWS), help="be the turn of this row")
    given = parser.parse_args()
    if given.one:
        print(json.dumps(ROWS[given.one](given.seconds)))
        return
    found: dict[str, list[float]] = {row: [] for row in given.rows}
    for _ in range(given.rounds):
        for row in given.rows:
            python = sys.executable if row.startswith("quell") else given.peers
            command = [python, __file__, "--one", row, "--seconds", str(given.seconds)]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            found[row].append(json.loads(done.stdout.splitlines()[-1]))
            print(f"{row}: {found[row][-1]:,.0f} steps/s", flush=True)
    print(table(found))
    if given.json:
        facts = {"platform": platform.platform(), "seconds": given.seconds, "steps_per_second": found}
        given.json.write_text(json.dumps(facts, indent=1) + "\n")


def rate(work: Callable[[], int], seconds: float) -> float:
    """Steps per second; `work` trains a little more and says how many steps there have been."""
    before, began = work(), time.perf_counter()
    while True:
        steps = work() - before
        if (spent := time.perf_counter() - began) >= seconds:
            return round(steps / spent, 1)


def table(found: dict[str, list[float]]) -> str:
    """Medians, and the median over turns of how many times as fast quell's ES is."""
    lines = ["| | steps/s, median | range | ES of quell is so many times as fast |", "|---|---|---|---|"]
    for row, rates in found.items():
        times = median(own / other for own, other in zip(found["quell es"], rates, strict=True))
        lines.append(f"| {row} | {median(rates):,.0f} | {min(rates):,.0f} to {max(rates):,.0f} | {times:.1f} |")
    return "\n".join(lines)


def quell(method: str, **settings: Any) -> Callable[[], int]:
    from quell.rollout.cpu import Cpu
    from quell.training.iteration import Trainer
    from quell.training.methods import make_config

    trainer = Trainer(make_config("halfcheetah", method, overrides={"steps": 10**9, **settings}), Cpu(workers=ACTORS))
    state = trainer.initial_state()

    def work() -> int:
        nonlocal state
        state, _ = trainer.iterate(state)
        return int(state.steps)

    work()  # compiles
    return work


def evotorch() -> Callable[[], int]:
    from evotorch.algorithms import PGPE
    from evotorch.neuroevolution import GymNE

    network = "Linear(obs_length, 32) >> Tanh() >> Linear(32, 32) >> Tanh() >> Linear(32, act_length)"
    problem = GymNE("HalfCheetah-v5", network, observation_normalization=True, num_actors=ACTORS)
    searcher = PGPE(
        problem, popsize=MEMBERS, center_learning_rate=0.01, stdev_learning_rate=0.1, stdev_init=0.02, optimizer="adam"
    )

    def work() -> int:
        searcher.step()
        return int(searcher.status["total_interaction_count"])

    return work


def ars(seconds: float) -> float:
    from peers import speed

    return float(speed("halfcheetah", "sb3-ars", 0, seconds)["steps_per_second"])


ROWS: dict[str, Callable[[float], float]] = {
    "quell es": lambda seconds: rate(quell("es", pairs=MEMBERS // 2, batch_steps=0), seconds),
    "quell natural-cv": lambda seconds: rate(quell("natural-cv"), seconds),
    "evotorch": lambda seconds: rate(evotorch(), seconds),
    "sb3-ars": ars,
}


if __name__ == "__main__":
    main()
