"""What shaped and low-rank directions are worth: variance at equal divergence, and memory and time at many parameters.

    python benchmarks/directions.py variance [--nats 0.005 0.05] [--tasks swimmer hopper] [--json FILE]
    python benchmarks/directions.py size [--sizes 1e5 1e6 1e7] [--json FILE]

`variance` trains the default method for a few iterations and measures plain ES there, on isotropic directions and on
those shaped by the step's metric, both of the same mean KL to second order; what it truly is stands beside. `size`
trains ES on swimmer, two pairs of 100 steps, with two hidden layers of equal size; every run in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

TASKS = ("swimmer", "hopper", "dm-cartpole-swingup")
STEPS = 60_000
FEW = {"pairs": 5}  # an iteration: there are then enough of them to tell a variance
ITERATIONS = 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["variance", "size", "one"])
    parser.add_argument("--nats", nargs="*", type=float, default=[0.005, 0.05])
    parser.add_argument("--tasks", nargs="*", default=list(TASKS))
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--sizes", nargs="*", type=float, default=[1e5, 1e6, 1e7])
    parser.add_argument("--kinds", nargs="*", default=["gaussian", "low-rank"])
    parser.add_argument("--json", type=Path, help="write the numbers here")
    arguments = parser.parse_args()
    if arguments.what == "one":
        print(json.dumps(one_size(int(arguments.sizes[0]), arguments.kinds[0])))
        return
    if arguments.what == "variance":
        rows = [row for task in arguments.tasks for row in variances_of(task, arguments.nats, arguments.pairs)]
    else:
        rows = [in_own_process(int(size), kind) for size in arguments.sizes for kind in arguments.kinds]
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")


def variances_of(task: str, sizes: list[float], pairs: int) -> list[dict[str, Any]]:
    """Total variance of ES on both kinds, in the metric of the natural step and in that of the parameters."""
    import quell

    with tempfile.TemporaryDirectory() as folder:
        run = quell.train(task, steps=STEPS, seed=1, out=folder, progress=False, eval_every=0, eval_episodes=2)
        return [{"task": task, "steps": run.steps} | variance_at(task, str(run.path), nats, pairs) for nats in sizes]


def variance_at(task: str, run: str, nats: float, pairs: int) -> dict[str, Any]:
    import quell
    from quell.estimate.es import Es
    from quell.measure import variance
    from quell.measure.fisher import geometry
    from quell.measure.points import find_point
    from quell.measure.rows import Row
    from quell.perturb.fisher import Fisher
    from quell.perturb.gaussian import Gaussian

    kinds = {"isotropic": Gaussian(nats=nats), "fisher": Fisher(nats=nats)}
    rows = [Row(name, Es(shaping="none"), directions) for name, directions in kinds.items()]
    report = variance(task, at=run, methods=rows, pairs=pairs, warmup=0, settings=FEW, progress=False)
    point = find_point(task, run, preset="paper", seed=0, settings={})
    where = geometry(point, compute=quell.Cpu())
    found = {summary.name: summary for summary in report.summaries}
    facts: dict[str, Any] = {"d": len(point.theta), "nats": nats, "pairs": pairs}
    facts["kl"] = {name: divergence(where, directions) for name, directions in kinds.items()}
    for metric in ("step", "parameters"):
        isotropic, shaped = (found[name].metrics[metric].variance for name in kinds)
        facts[metric] = {
            "isotropic": isotropic.value,
            "fisher": shaped.value,
            "factor": isotropic.value / shaped.value,
            "at least": isotropic.low / shaped.high,
            "at most": isotropic.high / shaped.low,
        }
    step, kl = facts["step"], facts["kl"]
    print(f"{task:<20} d = {facts['d']:,}, {nats} nats (KL {kl['isotropic']:.4f}, {kl['fisher']:.4f}): ", end="")
    interval = f"[{step['at least']:.1f}, {step['at most']:.1f}]"
    print(f"isotropic / fisher = {step['factor']:.1f} {interval} in the step's metric", flush=True)
    return facts


def divergence(where: Any, directions: Any, pairs: int = 25) -> float:
    """Mean KL between the perturbed and the plain policy, as it truly is."""
    import numpy as np

    from quell.perturb import draw_of, draw_pair
    from quell.policy.likelihood import mean_kl
    from quell.types import Episodes

    shape, draw, kl = directions.prepare(where.kronecker), draw_of(where.policy, 1, Episodes.of_pairs(0, pairs)), []
    states = where.states.astype(np.float32)
    for pair in range(pairs):
        for eps in draw_pair(directions, draw, pair, shape):
            moved = (where.theta + shape.sigma * eps).astype(np.float32)
            kl.append(float(mean_kl(where.policy)(moved, where.theta, states)))
    return float(np.mean(kl))


def in_own_process(size: int, kind: str) -> dict[str, Any]:
    command = [sys.executable, __file__, "one", "--sizes", str(size), "--kinds", kind]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{kind:<10} d = {size:>11,}   failed: {done.stderr.strip().splitlines()[-1][:90]}")
        return {"kind": kind, "d": size, "failed": done.returncode}
    facts = dict(json.loads(done.stdout.splitlines()[-1]))
    memory = f"peak {facts['driver']:.2f} GiB, of a worker {facts['worker']:.2f} GiB"
    print(f"{kind:<10} d = {facts['d']:>11,}   {facts['seconds']:.2f} s an iteration   {memory}")
    return facts


def one_size(size: int, kind: str) -> dict[str, Any]:
    """Seconds of an iteration, the fastest but for the first, and the highest memory of this process and its worker."""
    import quell

    width = round((size + 36) ** 0.5 - 6)
    with tempfile.TemporaryDirectory() as folder:
        result = quell.train(
            "swimmer",
            method="es",
            directions=kind,
            hidden=(width, width),
            pairs=2,
            batch_steps=0,
            horizon=100,
            steps=ITERATIONS * 400,
            seed=1,
            workers=1,
            out=folder,
            progress=False,
            eval_every=0,
            eval_episodes=1,
            keep_checkpoints=1,
        )
    seconds = [
        after["seconds"] - before["seconds"] for before, after in zip(result.history, result.history[1:], strict=False)
    ]
    peaks = {"driver": resource.RUSAGE_SELF, "worker": resource.RUSAGE_CHILDREN}
    memory = {name: resource.getrusage(who).ru_maxrss / 2**20 for name, who in peaks.items()}
    return {"kind": kind, "d": len(result.policy.theta), "seconds": min(seconds), **memory}


if __name__ == "__main__":
    main()
