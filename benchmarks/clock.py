"""What the control variate costs on the clock, beside ES, where episodes are short and where they are long.

    python benchmarks/clock.py --json results/throughput/clock.json
    python benchmarks/clock.py --against COMMIT --json FILE

Whole training iterations at an untrained policy, all rows in turn and so under the same load of the machine: the
paper's batches of five pairs, which are a hundred steps where episodes last ten, the default's of 4,000 steps, and
those that each method is tuned to.
Times are per 1,000 environment steps; ratios are to ES with the same batches, taken turn by turn. The second form races
every row against another commit's (see against.py).
"""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import tyro
from against import FIXED, START, iterations, make_trainer, race, ratio, serve

FILLED = {"pairs": 2, "batch_steps": 4000, "train_horizon": 0}
ROWS: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "es": ("es", "paper", {}, "es"),
    "cv": ("cv", "paper", FIXED, "es"),
    "cv+gamma": ("cv", "paper", {}, "es"),
    "es, 4000 steps": ("es", "tuned", FILLED, "es, 4000 steps"),
    "default": ("natural-cv", "tuned", FILLED, "es, 4000 steps"),
    "es, own batches": ("es", "tuned", {}, "es, own batches"),
    "default, own batches": ("natural-cv", "tuned", {}, "es, own batches"),
}
"""Row -> method, preset, what is different about it, and the row it is compared with."""


@dataclass
class Arguments:
    """The control variate's time beside that of ES."""

    tasks: tuple[str, ...] = ("inverted-pendulum", "hopper", "halfcheetah")
    rounds: int = 15
    workers: int = len(os.sched_getaffinity(0))
    json: Path | None = None
    """Also write the figures here."""
    against: str | None = None
    """A commit to race against, instead of ES."""
    processes: int = 3
    """Against a commit: fresh processes of each side, with so many rounds each."""
    serve: bool = False
    """Be one side of a race."""


def turns(task: str, rounds: int, workers: int) -> dict[str, dict[str, Any]]:
    """Row -> milliseconds per 1,000 steps of each turn, and the median number of steps of an iteration."""
    trainers = {
        row: make_trainer(task, method, preset, workers=workers, **settings)
        for row, (method, preset, settings, _) in ROWS.items()
    }
    found: dict[str, dict[str, Any]] = {row: {"ms": [], "steps": []} for row in ROWS}
    try:
        states = {row: settled(trainer) for row, trainer in trainers.items()}
        for number in range(rounds + 2):
            for row, trainer in trainers.items():
                started = time.perf_counter()
                steps = trainer.iterate(states[row])[0].steps - states[row].steps
                seconds = time.perf_counter() - started
                if number >= 2:  # before, things compile
                    found[row]["ms"].append(round(1e6 * seconds / steps, 3))
                    found[row]["steps"].append(steps)
    finally:
        for trainer in trainers.values():
            trainer.close()
    return found


def settled(trainer: Any) -> Any:
    """The state after two iterations, which know how long episodes are, but with the policy untrained."""
    state = first = trainer.initial_state()
    for _ in range(2):
        state = dataclasses.replace(trainer.iterate(state)[0], theta=first.theta)
    return state


def be_a_side(arguments: Arguments) -> None:
    trainers = {
        f"{task} {row}": make_trainer(task, method, preset, workers=arguments.workers, **START, **settings)
        for task in arguments.tasks
        for row, (method, preset, settings, _) in ROWS.items()
    }
    try:
        serve({name: iterations(trainer, settled(trainer)) for name, trainer in trainers.items()})
    finally:
        for trainer in trainers.values():
            trainer.close()


def main(arguments: Arguments) -> None:
    if arguments.serve:
        return be_a_side(arguments)
    if arguments.against:
        given = ["--tasks", *arguments.tasks, "--workers", str(arguments.workers)]
        repeats = {"rounds": arguments.rounds, "processes": arguments.processes}
        rows = race(__file__, arguments.against, arguments=given, **repeats)
        if arguments.json:
            arguments.json.write_text(json.dumps({"against": arguments.against, **repeats, "rows": rows}) + "\n")
        return None
    facts: dict[str, Any] = {
        "machine": platform.processor() or platform.machine(),
        "workers": arguments.workers,
        "load": os.getloadavg(),
        "tasks": {},
    }
    print("| task | row | steps of an iteration | ms per 1,000 steps | time beside ES |\n|---|---|---|---|---|")
    for task in arguments.tasks:
        facts["tasks"][task] = found = turns(task, arguments.rounds, arguments.workers)
        for row, (*_, plain) in ROWS.items():
            one = found[row]
            one["ratio"] = [round(value, 3) for value in ratio(found[plain]["ms"], one["ms"])]
            beside = "" if row == plain else "{:.2f} [{:.2f}, {:.2f}]".format(*one["ratio"])
            print(f"| {task} | {row} | {median(one['steps']):.0f} | {median(one['ms']):.1f} | {beside} |", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(facts) + "\n")
    return None


if __name__ == "__main__":
    main(tyro.cli(Arguments))
