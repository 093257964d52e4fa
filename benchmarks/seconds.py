"""Wall seconds from the start of a process until its policy earns a score, and keeps earning it.

    python benchmarks/seconds.py [--tasks halfcheetah hopper ...] [--methods natural-cv trpo ppo es ars] [--seeds 10]
    python benchmarks/seconds.py --untimed ...
    python benchmarks/seconds.py --judge
    python benchmarks/seconds.py --table

The first trains, with nothing else on the machine. Every run is a process of its own: start-up, imports and compilation
count. About every 10,000 steps it keeps its policy with the time, and evaluates nothing. A run ends once its training
episodes have earned 0.9 of the task's highest target for 20,000 steps, and a third of the steps more; or after
`--steps`. If other programs had more than `--idle` cores meanwhile, it is not counted, and is repeated the next time.
The command can be stopped at any time and goes on where it was.

The second trains the same way on a machine that is shared, one worker and no clock: a seed gives the same policies
whatever else is going on. A seed that was not timed is given the seconds that the timed runs of its task and method
took for as many steps (the median).

The third plays, whenever there is time, 20 fresh episodes with mean actions of the policies kept: of all whose
training episodes earned 0.3 of a target or more until the targets are reached, and of some others for the curve. A
score is reached at the first of two policies in a row that are at or above the target. The fourth prints the table.

Other libraries: benchmarks/peers.py.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

TARGETS: dict[str, tuple[float, ...]] = {
    **{"halfcheetah": (3000, 5000), "hopper": (3000,), "walker2d": (3000,), "swimmer": (300,), "ant": (2000,)},
    **{"dm-cheetah-run": (400,), "dm-cartpole-swingup": (800,)},
    **{"gym:CartPole-v1": (500,), "gym:LunarLander-v3": (200,)},
}
METHODS = ("natural-cv", "trpo", "ppo", "es", "ars")
FIRST_SEED, EPISODES, EVERY = 200, 20, 10_000  # seeds that decided nothing; episodes and steps of an evaluation
SETTLED, BEYOND, NEAR = 20_000, 4 / 3, 0.3  # steps at the target; how far a run goes on; share that is worth a look
CURVE = 14  # evaluations of a run for its curve
OUT = Path(__file__).parent.parent / "results/seconds/runs.jsonl.gz"
Run = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="*", default=list(TARGETS))
    parser.add_argument("--methods", nargs="*", default=METHODS)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument(
        "--set", default="{}", help="settings that differ, as JSON; such runs are a method of their own"
    )
    parser.add_argument("--idle", type=float, default=0.15, help="cores that others may use")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--kept", type=Path, default=Path("runs/seconds"), help="where policies are kept")
    parser.add_argument("--untimed", action="store_true", help="what is reached after how many steps, at any load")
    parser.add_argument("--judge", action="store_true", help="evaluate the policies kept")
    parser.add_argument("--table", action="store_true", help="only print what is there")
    given = parser.parse_args()
    if given.judge:
        judge(given.out, given.kept)
    elif not given.table:
        campaign(given)
    print(table(read(given.out)))


def campaign(given: argparse.Namespace) -> None:
    """The runs whose line is not there yet, seed by seed: methods and tasks take turns."""
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.kept.mkdir(parents=True, exist_ok=True)
    changed = given.set if json.loads(given.set) else ""
    clock = {"timed": not given.untimed}
    cases = [
        {"task": task, "method": f"{method} {changed}".strip(), "seed": seed, "steps": given.steps, **clock}
        for seed in range(given.first_seed, given.first_seed + given.seeds)
        for task in given.tasks
        for method in given.methods
    ]
    for case in cases:
        if any(case.items() <= row.items() for row in read(given.out)):
            continue
        row, others = timed({**case, "kept": str(kept(given.kept, case))})
        if others > given.idle and not given.untimed:
            print(f"not counted, others had {others:.2f} cores: {case}", flush=True)
            continue
        with gzip.open(given.out, "at") as out:
            out.write(json.dumps({**case, **row, "others": round(others, 2)}) + "\n")
        print(case, {name: row[name] for name in ("first", "spent", "ended")}, f"others {others:.2f}", flush=True)


def timed(case: Run) -> tuple[Run, float]:
    """What a run's process says of itself, and how many cores other programs had meanwhile."""
    began, before = time.monotonic(), _busy() - _own()
    command = [sys.executable, __file__, json.dumps({**case, "began": began})]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    others = (_busy() - _own() - before) / (time.monotonic() - began)
    return json.loads(done.stdout.splitlines()[-1]), max(0.0, others)


def _busy() -> float:
    """Processor seconds of all programs so far."""
    user, nice, system, _, _, *interrupts = map(int, Path("/proc/stat").read_text().splitlines()[0].split()[1:8])
    return (user + nice + system + sum(interrupts)) / os.sysconf("SC_CLK_TCK")


def _own() -> float:
    """Those of this process, and of those that it started and that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def kept(folder: Path, case: Run) -> Path:
    name = f"{case['task']}-{case['method']}-{case['seed']}{'' if case['timed'] else '-untimed'}"
    return folder / f"{''.join(c if c.isalnum() or c == '-' else '_' for c in name)}.npz"


def child(case: Run) -> None:
    """One run. Its clock began before its process did."""
    import quell

    task, (method, _, changed), settled = case["task"], case["method"].partition(" "), max(TARGETS[case["task"]])
    settled -= 0.1 * abs(settled)  # with action noise and perturbed a policy earns less than with its mean actions
    policies: list[Any] = []
    facts: dict[str, Any] = {"first": None, "ends": case["steps"], "below": 0}

    class Keeps(quell.Callback):
        def on_iteration(self, row: Any) -> None:
            seconds, steps = time.monotonic() - case["began"], int(row["steps"])
            facts["first"] = facts["first"] or round(seconds, 2)
            if steps // EVERY > (policies[-1][1] // EVERY if policies else 0):
                state = self.training.state
                policies.append((seconds, steps, row["return/mean"], state.theta, state.obs))
            if not row["return/mean"] >= settled:
                facts["below"] = steps
            elif steps - facts["below"] >= SETTLED:
                facts["ends"] = min(facts["ends"], BEYOND * steps)
            self.stop_requested |= steps >= facts["ends"]
            facts.update(spent=round(seconds, 2), ended=steps)

    settings = {"seed": case["seed"], "steps": case["steps"], "eval_every": 0, **json.loads(changed or "{}")}
    out = Path(case["kept"]).parent / "folders"
    settings |= {} if case["timed"] else {"workers": 1}
    quell.train(task, method=method, out=out, name=f"{time.time_ns()}", progress=False, callbacks=Keeps(), **settings)
    seconds, steps, earned, thetas, stats = zip(*policies, strict=True)
    arrays: dict[str, Any] = {"seconds": seconds, "steps": steps, "earned": earned, "theta": np.stack(thetas)}
    arrays |= {f"obs.{name}": np.stack([getattr(one, name) for one in stats]) for name in ("count", "total", "squares")}
    np.savez(case["kept"], **arrays)
    print(json.dumps({name: facts[name] for name in ("first", "spent", "ended")}))


def judge(out: Path, folder: Path) -> None:
    """Add to every run what its policies earn, where that is not known and the policies are there."""
    for row in read(out):
        if "curve" in row or not (path := kept(folder, row)).exists():
            continue
        arrays = dict(np.load(path))
        twin = next((one for one in read(out) if "curve" in one and case_of(one) == case_of(row)), None)
        curve = judged(row, arrays) if twin is None else alike(arrays, twin, dict(np.load(kept(folder, twin))))
        print(*case_of(row), [reached(curve, t) for t in TARGETS[row["task"]]], flush=True)
        rows = [{**one, "curve": curve} if one == row else one for one in read(out)]
        with gzip.open(out, "wt") as file:
            file.writelines(json.dumps(one) + "\n" for one in rows)


def case_of(row: Run) -> tuple[str, str, int]:
    return row["task"], row["method"], row["seed"]


def alike(arrays: dict[str, Any], twin: Run, same: dict[str, Any]) -> list[list[Any]]:
    """What the policies of the same seed earned when it was trained before: they are the same, bit for bit."""
    count = min(len(arrays["theta"]), len(same["theta"]))
    assert (arrays["theta"][:count] == same["theta"][:count]).all()
    scores = {steps: score for _, steps, score in twin["curve"]}
    return [
        [round(float(t), 2), int(n), scores.get(int(n))]
        for t, n in zip(arrays["seconds"], arrays["steps"], strict=True)
    ]


def judged(row: Run, arrays: dict[str, Any]) -> list[list[Any]]:
    """[seconds, steps, score], the score None where a policy was not looked at."""
    from quell.keys import Stream
    from quell.rollout.cpu import Cpu
    from quell.training.iteration import Trainer
    from quell.training.methods import make_config
    from quell.types import Episodes, ObsStats

    method, _, changed = row["method"].partition(" ")
    settings = {"seed": row["seed"], "steps": row["steps"], "eval_episodes": EPISODES, **json.loads(changed or "{}")}
    config, targets = make_config(row["task"], method, overrides=settings), TARGETS[row["task"]]
    curve: list[list[Any]] = [
        [round(float(t), 2), int(n), None] for t, n in zip(arrays["seconds"], arrays["steps"], strict=True)
    ]
    trainer = Trainer(config, Cpu(workers=1))

    def look(k: int) -> None:
        stats = ObsStats(*(arrays[f"obs.{name}"][k] for name in ("count", "total", "squares")))
        episodes = Episodes.unperturbed(k, EPISODES, Stream.FRESH, mean_action=True)
        played = trainer.engine.rollout(arrays["theta"][k], episodes, stats if config.normalise_obs else None)
        curve[k][2] = round(float(played.returns.mean()), 1)

    try:
        for k, earned in enumerate(arrays["earned"]):
            waiting = [target for target in targets if reached(curve[:k], target) is None]
            if any(earned >= NEAR * target for target in waiting):
                look(k)
        for k in sorted({round(len(curve) ** (i / (CURVE - 1))) - 1 for i in range(CURVE)}):
            if curve[k][2] is None:
                look(k)
    finally:
        trainer.close()
    return curve


def reached(curve: list[list[Any]], target: float) -> float | None:
    """Seconds at the first of two policies in a row that earn the target."""
    for (seconds, _, score), (*_, following) in itertools.pairwise(curve):
        if score is not None and following is not None and min(score, following) >= target:
            return float(seconds)
    return None


def read(path: Path) -> list[Run]:
    return [json.loads(line) for line in gzip.open(path, "rt")] if path.exists() else []


def groups(rows: Iterable[Run]) -> Iterator[tuple[str, float, str, list[Run]]]:
    """(task, target, method, its runs), of those that are judged; those that were not timed have the others' pace."""
    found: dict[tuple[str, str], list[Run]] = {}
    for row in rows:
        if "curve" in row:
            found.setdefault((row["task"], row["method"]), []).append(row)
    for task, targets in TARGETS.items():
        for target in targets:
            for (of, method), runs in found.items():
                if of == task and any(run["timed"] for run in runs):
                    yield task, target, method, paced(runs)


def paced(runs: list[Run]) -> list[Run]:
    """One run per seed, timed if there is one; others get the median of the timed runs' seconds for their steps."""
    clocks = [np.array([point[:2] for point in run["curve"]]) for run in runs if run["timed"]]

    def seconds(steps: int) -> float:
        """At the speed of a timed run's second half beyond its end."""
        took = []
        for clock in clocks:
            (middle, begun), (end, last) = clock[len(clock) // 2], clock[-1]
            beyond = max(0.0, steps - last) * (end - middle) / max(last - begun, 1.0)
            took.append(float(np.interp(steps, clock[:, 1], clock[:, 0])) + beyond)
        return round(statistics.median(took), 2)

    chosen = {run["seed"]: run for run in runs if not run["timed"]} | {run["seed"]: run for run in runs if run["timed"]}
    return [
        run if run["timed"] else {**run, "curve": [[seconds(n), n, score] for _, n, score in run["curve"]]}
        for run in (chosen[seed] for seed in sorted(chosen))
    ]


def table(rows: Iterable[Run]) -> str:
    """Median, range and how many seeds got there, of each task and method."""
    heads = ["task", "score", "method", "seconds, median", "range", "reached", "timed", "steps, median", "steps/s"]
    lines = [f"| {' | '.join([*heads, 'first iteration'])} |", "|---" * 10 + "|"]
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
        clocked = [run for run in runs if run["timed"]]
        speed = statistics.median(run["ended"] / (run["spent"] - run["first"]) for run in clocked)
        first = statistics.median(run["first"] for run in clocked)
        cells = [task, f"{target:g}", method, took, ends, f"{len(there)} of {len(runs)}"]
        cells += [
            str(len(clocked)),
            f"{statistics.median(steps):,.0f}" if steps else "",
            f"{speed:,.0f}",
            f"{first:.1f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    told = json.loads(sys.argv[1]) if sys.argv[1:2] and sys.argv[1].startswith("{") else None
    child(told) if told else main()
