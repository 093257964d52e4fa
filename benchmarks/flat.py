"""How often theta moves where episodes all earn the same, and whether a solved task stays solved.

    python benchmarks/flat.py [TASK ...] [--methods natural-cv trpo] [--seeds 100 101] [--steps 300000] [--json FILE]

Trains every method on every task, with tuned settings and seeds that no result is reported on, and counts iterations:
those that moved theta, those in which all episodes earned the same, and, behind the first in which that was the most
ever earned, what the later ones earned in units of it.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import quell
from quell.campaign.tune import FIRST_SEED

TASKS = ("gym:MountainCar-v0", "gym:Acrobot-v1", "dm-pendulum-swingup", "inverted-pendulum", "gym:CartPole-v1")
COLUMNS = ("moved", "alike", "kept", "lowest", "last")
HEAD = "| task | method | seed | iterations | moved theta | all earned alike | kept | lowest batch | last evaluation |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", default=TASKS)
    parser.add_argument("--methods", nargs="*", default=("natural-cv", "trpo"))
    parser.add_argument("--seeds", nargs="*", type=int, default=(FIRST_SEED, FIRST_SEED + 1))
    parser.add_argument("--steps", type=int, default=300_000)
    parser.add_argument("--json", type=Path, help="write what was found here")
    arguments = parser.parse_args()
    found: list[dict[str, Any]] = []
    print(HEAD, "|---" * HEAD.count(" |") + "|", sep="\n")
    for task in arguments.tasks:
        for method in arguments.methods:
            for seed in arguments.seeds:
                found.append({"task": task, "method": method, "seed": seed, **run(task, method, seed, arguments.steps)})
                print(line(found[-1]), flush=True)
    if arguments.json:
        rows = ",\n".join(json.dumps(row) for row in found)
        arguments.json.write_text(f'{{"steps": {arguments.steps}, "runs": [\n{rows}\n]}}\n')
    return 0


def run(task: str, method: str, seed: int, steps: int) -> dict[str, Any]:
    settings = {"steps": steps, "seed": seed, "eval_every": 0, "checkpoint_every": 10**6, "workers": 1}
    with tempfile.TemporaryDirectory() as folder:
        result = quell.train(task, method=method, out=folder, progress=False, **settings)  # type: ignore[arg-type]
    return counted(result.history)


def counted(history: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Iterations, how many of them moved theta and in how many all earned alike; and, once all episodes of a batch
    earned what no batch exceeded, the mean and the lowest of later batches, and the last evaluation, in units of that:
    of what an episode earns above the run's worst batch."""
    means = [row["return/mean"] for row in history]
    alike = [bool(row["trouble/flat"]) for row in history]
    best, worst = max(means), min(means)
    solved = [i for i, flat in enumerate(alike) if flat and means[i] == best > worst]
    later = [(means[i] - worst) / (best - worst) for i in range(solved[0], len(means))] if solved else []
    return {
        "iterations": len(history),
        "moved": sum(row["update/ratio"] > 0 for row in history),
        "alike": sum(alike),
        "kept": round(sum(later) / len(later), 4) if later else None,
        "lowest": round(min(later), 4) if later else None,
        "last": history[-1].get("eval/mean_action"),
    }


def line(row: Mapping[str, Any]) -> str:
    facts = [row[name] if row[name] is not None else "" for name in COLUMNS]
    return f"| {row['task']} | {row['method']} | {row['seed']} | {row['iterations']} | {' | '.join(map(str, facts))} |"


if __name__ == "__main__":
    raise SystemExit(main())
