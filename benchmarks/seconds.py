"""Wall seconds from the start of a process until its policy earns a score, and keeps earning it.

    python benchmarks/seconds.py [--tasks halfcheetah hopper ...] [--methods natural-cv trpo ppo es ars] [--seeds 10]
    python benchmarks/seconds.py --workers 16 --methods natural-cv
    python benchmarks/seconds.py --table

With nothing else on the machine. Every run is a process of its own: start-up, imports and compilation count. About
every 10,000 steps the clock stands still while 20 fresh episodes are played with the policy's mean actions: where its
training episodes, or its last such look, earned half of the next target or more, and now and then for the curve. A
score is reached at the first of two policies in a row that earn it, and a run ends with its last target reached, or
after `--steps`. If other programs had more than `--idle` cores meanwhile, it is not counted, and is repeated the next
time. The command can be stopped at any time and goes on where it was; runs with other workers are kept apart.

The last prints the table. Other libraries: benchmarks/peers.py.
"""

from __future__ import annotations

import argparse
import dataclasses
import gzip
import itertools
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

TARGETS: dict[str, tuple[float, ...]] = {
    **{"halfcheetah": (3000, 5000), "hopper": (3000,), "walker2d": (3000,), "swimmer": (300,), "ant": (2000,)},
    **{"dm-cheetah-run": (400,), "dm-cartpole-swingup": (800,)},
    **{"gym:CartPole-v1": (500,), "gym:LunarLander-v3": (200,)},
}
METHODS = ("natural-cv", "trpo", "ppo", "es", "ars")
FIRST_SEED, EPISODES, EVERY = 220, 20, 10_000  # seeds that decided nothing; episodes and steps of an evaluation
NEAR, CURVE = 0.5, 14  # share of a target that is worth a look; looks for a run's curve
OUT = Path(__file__).parent.parent / "results/seconds/runs.jsonl.gz"
Run = dict[str, Any]


def main() -> None:
    parser = options(__doc__, TARGETS, METHODS, FIRST_SEED, OUT)
    parser.add_argument("--workers", type=int, help="processes that play; such runs are a row of their own")
    parser.add_argument("--idle", type=float, default=0.15, help="cores that others may use")
    given = parser.parse_args()
    if not given.table:
        campaign(given)
    print(table(read(given.out)))


def options(
    text: str | None, tasks: Iterable[str], methods: Iterable[str], first: int, out: Path
) -> argparse.ArgumentParser:
    """Those of any campaign of such runs, with its defaults."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="*", default=list(tasks))
    parser.add_argument("--methods", nargs="*", default=list(methods))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=first)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--set", default="{}", help="settings that differ, as JSON; such runs are a row of their own")
    parser.add_argument("--out", type=Path, default=out)
    parser.add_argument("--table", action="store_true", help="only print what is there")
    return parser


def campaign(given: argparse.Namespace) -> None:
    """The runs whose line is not there yet, seed by seed: methods and tasks take turns."""
    given.out.parent.mkdir(parents=True, exist_ok=True)
    named = f" {given.set}" if json.loads(given.set) else ""
    cases = [
        {"task": task, "method": method + named, "seed": seed, "steps": given.steps, "workers": given.workers}
        for seed in range(given.first_seed, given.first_seed + given.seeds)
        for task in given.tasks
        for method in given.methods
    ]
    for case in cases:
        if any(case.items() <= {"workers": None, **row}.items() for row in read(given.out)):
            continue
        row, others = timed(case)
        if others > given.idle:
            print(f"not counted, others had {others:.2f} cores: {case}", flush=True)
            continue
        with gzip.open(given.out, "at") as out:
            out.write(json.dumps({**case, **row, "others": round(others, 2)}) + "\n")
        told = {name: row[name] for name in ("first", "spent", "ended")}
        print(case, told, [reached(row["curve"], target) for target in TARGETS[case["task"]]], flush=True)


def timed(case: Run) -> tuple[Run, float]:
    """What a run's process says of itself, and how many cores other programs had meanwhile."""
    began, before = time.monotonic(), busy() - own()
    command = [sys.executable, __file__, json.dumps({**case, "began": began})]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    others = (busy() - own() - before) / (time.monotonic() - began)
    return json.loads(done.stdout.splitlines()[-1]), max(0.0, others)


def busy() -> float:
    """Processor seconds of all programs so far."""
    user, nice, system, _, _, *interrupts = map(int, Path("/proc/stat").read_text().splitlines()[0].split()[1:8])
    return (user + nice + system + sum(interrupts)) / os.sysconf("SC_CLK_TCK")


def own() -> float:
    """Those of this process, and of those that it started and that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def child(case: Run) -> None:
    """One run. Its clock began before its process did."""
    import jax

    import quell

    method, _, changed = case["method"].partition(" ")
    targets, last = TARGETS[case["task"]], case["steps"] // EVERY
    marks = {round(last ** (i / (CURVE - 1))) - 1 for i in range(CURVE)}
    curve: list[list[Any]] = []  # [seconds, steps, score], the score None where a policy was not looked at
    facts: dict[str, Any] = {"first": None, "begun": 0, "spent": 0.0, "ended": 0}  # behind the first iteration; at last
    looks: list[Looks] = []
    outside = 0.0  # seconds that the clock stood still

    class Watches(quell.Callback):
        def on_iteration(self, row: Any) -> None:
            nonlocal outside
            seconds, steps = round(time.monotonic() - case["began"] - outside, 2), int(row["steps"])
            if facts["first"] is None:
                facts.update(first=seconds, begun=steps)
            facts.update(spent=seconds, ended=steps)
            if steps // EVERY <= (curve[-1][1] // EVERY if curve else 0):
                return
            waiting = [target for target in targets if reached(curve, target) is None]
            seen = next((score for *_, score in reversed(curve) if score is not None), 0.0)
            curve.append([seconds, steps, None])
            if len(curve) - 1 in marks or max(row["return/mean"], seen) >= NEAR * waiting[0]:
                state = self.training.state
                jax.block_until_ready(state.estimator)  # what goes on in the background is not for nothing
                began = time.monotonic()
                looks[:] = looks or [Looks(self.training.config)]
                curve[-1][2] = looks[0].score(state, len(curve))
                outside += time.monotonic() - began
            self.stop_requested |= all(reached(curve, target) is not None for target in targets)

    settings = {"seed": case["seed"], "steps": case["steps"], "eval_every": 0, "eval_episodes": 1}
    settings |= {"workers": case["workers"]} if case["workers"] else {}
    with tempfile.TemporaryDirectory() as out:
        quell.train(
            case["task"],
            method=method,
            out=out,
            progress=False,
            callbacks=Watches(),
            **{**settings, **json.loads(changed or "{}")},
        )
    for one in looks:
        one.close()
    print(json.dumps({**facts, "curve": curve}))


class Looks:
    """Plays a policy's mean actions in fresh episodes, in processes of its own."""

    def __init__(self, config: Any, episodes: int = EPISODES, workers: int | None = None) -> None:
        from quell.rollout.cpu import Cpu
        from quell.training.iteration import Trainer

        self._episodes = episodes
        self._trainer = Trainer(dataclasses.replace(config, eval_episodes=episodes), Cpu(workers=workers))

    def score(self, state: Any, number: int) -> float:
        from quell.keys import Stream
        from quell.types import Episodes

        episodes = Episodes.unperturbed(number, self._episodes, Stream.FRESH, mean_action=True)
        normaliser = state.obs if self._trainer.config.normalise_obs else None
        return round(float(self._trainer.engine.rollout(state.theta, episodes, normaliser).returns.mean()), 1)

    def close(self) -> None:
        self._trainer.close()


def reached(curve: list[list[Any]], target: float) -> float | None:
    """Seconds at the first of two policies in a row that earn the target."""
    for (seconds, _, score), (*_, following) in itertools.pairwise(curve):
        if score is not None and following is not None and min(score, following) >= target:
            return float(seconds)
    return None


def read(path: Path) -> list[Run]:
    return [json.loads(line) for line in gzip.open(path, "rt")] if path.exists() else []


def groups(rows: Iterable[Run]) -> Iterator[tuple[str, float, str, list[Run]]]:
    """(task, target, method, its runs)."""
    found: dict[tuple[str, str], list[Run]] = {}
    for row in rows:
        own = f"{row['method']}, {row['workers']} workers" if row.get("workers") else row["method"]
        found.setdefault((row["task"], own), []).append(row)
    for task, targets in TARGETS.items():
        for target in targets:
            for (of, method), runs in found.items():
                if of == task:
                    yield task, target, method, runs


def speed_of(run: Run) -> float:
    """Steps per second behind the first iteration; of runs before those steps were kept, with them."""
    seconds = run["spent"] - run["first"]
    return (run["ended"] - run.get("begun", 0)) / seconds if seconds else math.nan


def table(rows: Iterable[Run]) -> str:
    """Median, range and how many seeds got there, of each task and method."""
    heads = ["task", "score", "method", "seconds, median", "range", "reached", "steps, median", "steps/s"]
    lines = [f"| {' | '.join([*heads, 'first iteration'])} |", "|---" * 9 + "|"]
    for task, target, method, runs in groups(rows):
        # A run that did not get there counts as longer than any that did.
        seconds = sorted(reached(run["curve"], target) or math.inf for run in runs)
        there = [one for one in seconds if one < math.inf]
        steps = [
            next(n for s, n, _ in run["curve"] if s == reached(run["curve"], target))
            for run in runs
            if reached(run["curve"], target) is not None
        ]
        middle = statistics.median(seconds)
        took = f"{middle:.1f}" if middle < math.inf else f"not within {runs[0]['steps']:,} steps"
        ends = f"{there[0]:.1f} to {there[-1]:.1f}" if there else ""
        speed = statistics.median(map(speed_of, runs))
        first = statistics.median(run["first"] for run in runs)
        cells = [task, f"{target:g}", method, took, ends, f"{len(there)} of {len(runs)}"]
        cells += [f"{statistics.median(steps):,.0f}" if steps else "", f"{speed:,.0f}", f"{first:.1f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    told = json.loads(sys.argv[1]) if sys.argv[1:2] and sys.argv[1].startswith("{") else None
    child(told) if told else main()
