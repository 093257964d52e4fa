"""Steps per second as a run grows: workers, pairs, parameters, length of episodes.

    python benchmarks/growth.py [--only workers pairs parameters horizon] [--json results/throughput/growth.json]

Whole iterations of ES and of the default on halfcheetah at an untrained policy, one thing changed at a time, all cases
in turn and again, so that whatever else the machine does meets all of them. The median of the turns counts. Workers
have 32 pairs to share; networks play episodes of 100 steps, since the widest ones need seconds for them.
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
PLAIN: dict[str, Any] = {"pairs": 8, "batch_steps": 0, "train_horizon": 0}
Case = tuple[str, int, dict[str, Any]]
CASES: dict[str, list[Case]] = {
    "workers": [(f"{n}", n, {"pairs": 32}) for n in (1, 2, 4, 8, 16)],
    "pairs": [(f"{n}", 0, {"pairs": n}) for n in (2, 8, 32, 128, 512)],
    "parameters": [
        (f"{width * (17 + 1 + width + 1 + 6) + 12:,}", 0, {"policy.hidden": (width, width), "train_horizon": 100})
        for width in (16, 64, 256, 1024, 3150)
    ],
    "horizon": [(f"{n:,}", 0, {"train_horizon": n, "pairs": max(8, 4000 // n)}) for n in (10, 100, 1000)],
}
METHODS = ("es", "natural-cv")
WIDEST = 2_000_000
"""Parameters beyond which natural-cv is left out: a natural step decomposes matrices of 3,000 rows there."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--only", nargs="*", choices=list(CASES), default=list(CASES))
    parser.add_argument("--json", type=Path, help="write what was found here")
    given = parser.parse_args()
    rates: dict[str, dict[str, dict[str, list[float]]]] = {}
    for _ in range(given.turns):
        for what in given.only:
            for name, workers, changed in CASES[what]:
                for method in methods_of(what, name):
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
            share = f"{row['natural-cv'] / row['es']:.2f}" if "natural-cv" in row else ""
            shown = [f"{row[method]:,}" if method in row else "" for method in METHODS]
            print(f"| {name} | {' | '.join(shown)} | {share} |")
    if given.json:
        machine = {"cores": len(os.sched_getaffinity(0)), "machine": platform.machine(), "turns": given.turns}
        given.json.write_text(json.dumps({**machine, "task": TASK, "steps_per_second": medians}, indent=1) + "\n")


def methods_of(what: str, name: str) -> tuple[str, ...]:
    """Those that a case is run with."""
    too_wide = what == "parameters" and int(name.replace(",", "")) > WIDEST
    return METHODS[:1] if too_wide else METHODS


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
