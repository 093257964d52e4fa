"""What shaped and low-rank directions are worth: variance at equal divergence, and memory and time at many parameters.

    python benchmarks/directions.py variance [--nats 0.05] [--tasks swimmer hopper] [--json FILE]
    python benchmarks/directions.py size [--sizes 1e5 1e6 1e7] [--json FILE]

`variance` trains the default method for a few iterations and measures plain ES there, on isotropic directions and on
those shaped by the step's metric, both of the same mean KL. `size` trains ES on swimmer, two pairs of 100 steps, with a
network of two equal hidden layers; every run in a process of its own.
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
    parser.add_argument("--nats", type=float, default=0.05)
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
        rows = [variance_at(task, arguments.nats, arguments.pairs) for task in arguments.tasks]
    else:
        rows = [in_own_process(int(size), kind) for size in arguments.sizes for kind in arguments.kinds]
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")


def variance_at(task: str, nats: float, pairs: int) -> dict[str, Any]:
    """Total variance of ES on both kinds, in the metric of the natural step and in that of the parameters."""
    import quell
    from quell.estimate.es import Es
    from quell.perturb.fisher import Fisher
    from quell.perturb.gaussian import Gaussian
    from quell.variances import variance
    from quell.variances.rows import Row

    plain = Es(shaping="none")
    rows = [Row("isotropic", plain, Gaussian(nats=nats)), Row("fisher", plain, Fisher(nats=nats))]
    with tempfile.TemporaryDirectory() as folder:
        run = quell.train(task, steps=STEPS, seed=1, out=folder, progress=False, eval_every=0, eval_episodes=2)
        report = variance(task, at=str(run.path), methods=rows, pairs=pairs, warmup=0, settings=FEW, progress=False)
    found = {summary.name: summary for summary in report.summaries}
    facts: dict[str, Any] = {"task": task, "steps": run.steps, "d": len(run.policy.theta), "nats": nats, "pairs": pairs}
    for metric in ("step", "parameters"):
        isotropic, shaped = (found[name].metrics[metric].variance for name in ("isotropic", "fisher"))
        facts[metric] = {
            "isotropic": isotropic.value,
            "fisher": shaped.value,
            "factor": isotropic.value / shaped.value,
            "at least": isotropic.low / shaped.high,
            "at most": isotropic.high / shaped.low,
        }
    step = facts["step"]
    print(f"{task:<22} d = {facts['d']:>6,}   in the step's metric isotropic / fisher = {step['factor']:.1f}", end="")
    print(f" [{step['at least']:.1f}, {step['at most']:.1f}]   in the parameters {facts['parameters']['factor']:.3g}")
    return facts


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
