"""How long training episodes should be: scores against steps where they are cut short, on tuning seeds.

    python benchmarks/horizons.py [--tasks halfcheetah hopper ...] [--methods natural-cv ...] [--horizons 0 100 200 400]
    python benchmarks/horizons.py --set '{"step.kl": 0.2}' --methods natural-cv
    python benchmarks/horizons.py --table

A row per task, method and `train_horizon` (0: episodes of full length), with the same steps in a batch, or, of ES and
ARS, the same pairs. Policies are judged in whole episodes with their mean actions, five of them about every 25,000
steps, later every 50,000. Runs are processes of their own with one worker and one thread, `--jobs` at a time; seeds
take turns, so that a campaign that is stopped has about as many of every row. The same command goes on where it was.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from seconds import TARGETS, Looks, options, reached
from seconds import read as read

TASKS = ("halfcheetah", "hopper", "walker2d", "ant", "swimmer", "dm-cheetah-run", "dm-cartpole-swingup")
HORIZONS = (0, 100, 200, 400)
FIRST_SEED, EPISODES, EVERY, LATER = 100, 5, 25_000, 300_000
OUT = Path(__file__).parent.parent / "results/tuning/horizons.jsonl.gz"
ONE_THREAD = {"JAX_PLATFORMS": "cpu", "PJRT_NPROC": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
Run = dict[str, Any]


def main() -> None:
    parser = options(__doc__, TASKS, ("natural-cv",), FIRST_SEED, OUT)
    parser.add_argument("--horizons", nargs="*", type=int, default=HORIZONS)
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="runs at a time")
    given = parser.parse_args()
    if not given.table:
        campaign(given)
    print(table(read(given.out)))


def campaign(given: argparse.Namespace) -> None:
    given.out.parent.mkdir(parents=True, exist_ok=True)
    cases: list[Run] = [
        {"task": task, "method": method, "horizon": horizon, "set": json.loads(given.set), "seed": seed}
        for seed in range(given.first_seed, given.first_seed + given.seeds)
        for task in given.tasks
        for method in given.methods
        for horizon in given.horizons
    ]
    there, alone = read(given.out), threading.Lock()

    def one(case: Run) -> None:
        command = [sys.executable, __file__, json.dumps({**case, "steps": given.steps})]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **ONE_THREAD})
        if done.returncode:
            print(f"failed: {case}", flush=True)
            return
        line = done.stdout.splitlines()[-1]
        with alone, gzip.open(given.out, "at") as out:
            out.write(line + "\n")
        print(case, json.loads(line)["curve"][-1], flush=True)

    with ThreadPoolExecutor(given.jobs) as pool:
        list(pool.map(one, [case for case in cases if not any(case.items() <= row.items() for row in there)]))


def child(case: Run) -> None:
    """One run: [steps, steps, score] as benchmarks/seconds.py has [seconds, steps, score]."""
    import quell

    curve: list[list[float]] = []
    looks: list[Looks] = []

    class Watches(quell.Callback):
        def on_iteration(self, row: Any) -> None:
            steps = int(row["steps"])
            every = EVERY if steps <= LATER else 2 * EVERY
            if steps < case["steps"] and curve and steps // every <= curve[-1][1] // every:
                return
            looks[:] = looks or [Looks(self.training.config, EPISODES, workers=1)]
            curve.append([steps, steps, looks[0].score(self.training.state, len(curve))])

    settings = {"train_horizon": case["horizon"]}  # 0 too: a preset may cut episodes
    with tempfile.TemporaryDirectory() as out:
        quell.train(
            case["task"],
            method=case["method"],
            out=out,
            progress=False,
            callbacks=Watches(),
            **{"seed": case["seed"], "steps": case["steps"], "eval_every": 0, "eval_episodes": 1, "workers": 1},
            **{**settings, **case["set"]},
        )
    for one in looks:
        one.close()
    print(json.dumps({**case, "curve": curve}))


def table(rows: Iterable[Run]) -> str:
    """Steps to each target (a run that does not get there counts as longest), and the score at the end."""
    heads = ["task", "method", "episodes of", "seeds", "steps to the targets, median (reached)", "score at the end"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    groups: dict[tuple[Any, ...], list[Run]] = {}
    for row in rows:
        changed = "".join(f", {name} {value}" for name, value in row["set"].items())
        groups.setdefault((row["task"], row["method"] + changed, row["horizon"]), []).append(row)
    for (task, method, horizon), runs in sorted(groups.items()):
        found = []
        for target in TARGETS.get(task, ()):
            steps = [reached(run["curve"], target) or math.inf for run in runs]
            middle, there = statistics.median(steps), sum(one < math.inf for one in steps)
            found.append(f"{target:g}: {f'{middle:,.0f}' if middle < math.inf else '–'} ({there})")
        ends = [run["curve"][-1][2] for run in runs]
        cells = [task, method, f"{horizon or 'full'}", f"{len(runs)}", ", ".join(found)]
        lines.append(f"| {' | '.join(cells)} | {statistics.mean(ends):,.0f} ± {statistics.pstdev(ends):,.0f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    told = json.loads(sys.argv[1]) if sys.argv[1:2] and sys.argv[1].startswith("{") else None
    child(told) if told else main()
