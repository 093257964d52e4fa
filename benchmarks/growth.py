"""Steps per second as a run grows: workers, pairs, parameters, length of episodes.

    python benchmarks/growth.py [--json results/throughput/growth.json]

Whole iterations of ES and of the default on halfcheetah at an untrained policy, one thing changed at a time, all cases
in turn and again, so that whatever else the machine does meets all of them. The median of the turns counts.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from pathlib import Path
from typing import Any

from quell.rollout.cpu import Cpu
from quell.training.iteration import Trainer
from quell.training.methods import make_config

TASK, TURNS, LEAST = "halfcheetah", 3, 0.5  # seconds of a turn, at least
PLAIN: dict[str, Any] = {"pairs": 8, "batch_steps": 0}
CASES: dict[str, list[tuple[str, int, dict[str, Any]]]] = {
    "workers": [(f"{n}", n, {}) for n in (1, 2, 4, 8, 16)],
    "pairs": [(f"{n}", 0, {"pairs": n}) for n in (1, 2, 8, 32, 128)],
    "hidden units (parameters)": [
        (f"{width} ({width * (17 + 1 + width + 1 + 6) + 12:,})", 0, {"policy.hidden": (width, width)})
        for width in (16, 64, 256, 1024)
    ],
    "steps of an episode": [(f"{n:,}", 0, {"train_horizon": n, "pairs": max(8, 4000 // n)}) for n in (10, 100, 1000)],
}
METHODS = ("es", "natural-cv")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--json", type=Path, help="write what was found here")
    given = parser.parse_args()
    rates: dict[str, dict[str, dict[str, list[float]]]] = {}
    for _ in range(given.turns):
        for what, cases in CASES.items():
            for name, workers, changed in cases:
                for method in METHODS:
                    found = rates.setdefault(what, {}).setdefault(name, {}).setdefault(method, [])
                    found.append(rate(method, workers, changed))
    medians = {
        what: {name: {m: round(statistics.median(r)) for m, r in row.items()} for name, row in rows.items()}
        for what, rows in rates.items()
    }
    print(f"{len(os.sched_getaffinity(0))} cores; steps per second, the median of {given.turns} turns")
    for what, rows in medians.items():
        print(f"\n| {what} | {' | '.join(METHODS)} | share |", "|---" * 4 + "|", sep="\n")
        for name, row in rows.items():
            share = row["natural-cv"] / row["es"]
            print(f"| {name} | {' | '.join(f'{row[method]:,}' for method in METHODS)} | {share:.2f} |")
    if given.json:
        machine = {"cores": len(os.sched_getaffinity(0)), "machine": platform.machine(), "turns": given.turns}
        given.json.write_text(json.dumps({**machine, "task": TASK, "steps_per_second": medians}, indent=1) + "\n")


def rate(method: str, workers: int, changed: dict[str, Any]) -> float:
    """Steps per second of whole iterations, behind a first one that compiles."""
    config = make_config(TASK, method, overrides={**PLAIN, "steps": 10**9, "seed": 100, **changed})
    trainer = Trainer(config, Cpu(workers=workers or None))
    try:
        state, _ = trainer.iterate(trainer.initial_state())
        before, started = state.steps, time.perf_counter()
        while (elapsed := time.perf_counter() - started) < LEAST:
            state, _ = trainer.iterate(state)
        return (state.steps - before) / elapsed
    finally:
        trainer.close()


if __name__ == "__main__":
    main()
