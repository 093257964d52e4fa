"""Does TRPO's line search ever change a step?

    python benchmarks/line_search.py [TASK ...] [--steps 100000] [--json FILE]

Trains TRPO twice on every task of the benchmark, with its tuned settings and a seed that no result is reported on: with
the search on the surrogate, and without. Where the two end with the same bits, no step was refused or shortened by it.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np

import quell
from quell.campaign.tune import FIRST_SEED
from quell.commands.benchmark import TASKS


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", default=TASKS)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--json", type=Path, help="write what was found here")
    arguments = parser.parse_args()
    found = {}
    for task in arguments.tasks:
        found[task] = compare(task, arguments.steps)
        print(f"{task}: {found[task]}", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps({"steps": arguments.steps, "seed": FIRST_SEED, "tasks": found}, indent=1))
    return 0


def compare(task: str, steps: int) -> dict[str, int | bool]:
    """Updates of a run, how many of them were shortened with the search and without, and whether theta is the same."""
    settings = {"steps": steps, "seed": FIRST_SEED, "eval_every": 0, "eval_episodes": 1, "checkpoint_every": 10**6}
    with tempfile.TemporaryDirectory() as folder:
        on, off = (
            quell.train(task, method="trpo", line_search=search, out=folder, progress=False, workers=1, **settings)
            for search in (True, False)
        )
    shortened = [sum(row.get("update/shortened", 0) > 0 for row in run.history) for run in (on, off)]
    return {
        "updates": len(on.history),
        "shortened": shortened[0],
        "shortened_without": shortened[1],
        "same": bool(np.array_equal(on.theta, off.theta)),
    }


if __name__ == "__main__":
    raise SystemExit(main())
