"""Does a long run stay as it was? Memory, descriptors, threads and processes of 20,000 iterations.

    python benchmarks/soak.py

Trains a tiny task with the default method and looks at the driver and its workers every few seconds.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from quell.runs.folder import versions

RESULTS = Path(__file__).parent.parent / "results"
SETTINGS = {
    "method": "natural-cv",
    "horizon": "20",
    "pairs": "2",
    "batch-steps": "0",
    "eval-episodes": "1",
    "workers": "1",
}
STEPS = 2 * 2 * 20  # of an iteration
SAMPLES = 200
"""What is kept, at most."""


@dataclass
class Arguments:
    """Train and watch."""

    iterations: int = 20_000
    task: str = "lqr"
    every: float = 5.0
    """Seconds between two looks."""
    out: Path = RESULTS / "soak/lqr-cv.json"


def look(driver: int) -> dict[str, float]:
    """What a driver and its workers hold now."""
    workers = [int(c) for path in Path(f"/proc/{driver}/task").glob("*/children") for c in path.read_text().split()]
    held = {"driver_mb": megabytes(driver), "workers_mb": sum(map(megabytes, workers)), "processes": 1 + len(workers)}
    held["threads"] = len(os.listdir(f"/proc/{driver}/task"))
    held["descriptors"] = sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in (driver, *workers))
    return held


def megabytes(pid: int) -> float:
    """Resident memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def summary(samples: list[dict[str, float]]) -> dict[str, dict[str, float]]:
    """Of each quantity: the median of the second and of the last tenth, and the most there ever was after the first."""
    tenth = max(1, len(samples) // 10)
    found = {}
    for name in ("driver_mb", "workers_mb", "processes", "threads", "descriptors"):
        values = [sample[name] for sample in samples]
        early, late = statistics.median(values[tenth : 2 * tenth]), statistics.median(values[-tenth:])
        found[name] = {"early": round(early, 1), "late": round(late, 1), "most": round(max(values[tenth:]), 1)}
    return found


def watch(arguments: Arguments, folder: Path) -> list[dict[str, float]]:
    """Samples of a run from its first iteration to its last."""
    flags = [word for name, value in SETTINGS.items() for word in (f"--{name}", value)]
    steps = ["--steps", str(arguments.iterations * STEPS), "--out", str(folder), "--name", "soak"]
    command = [sys.executable, "-m", "quell", "train", arguments.task, *flags, *steps]
    samples: list[dict[str, float]] = []
    metrics, rows, at = folder / arguments.task / "natural-cv" / "soak" / "metrics.jsonl", 0, 0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as run:
        while run.poll() is None:
            time.sleep(arguments.every)
            if metrics.exists():
                data = metrics.read_bytes()[at:]
                rows, at = rows + data.count(b"\n"), at + len(data)
            if 0 < rows < arguments.iterations and run.poll() is None:
                samples.append({"iteration": rows, **look(run.pid)})
        if run.returncode:
            sys.exit(f"the run failed with exit code {run.returncode}")
    return samples


def main() -> None:
    arguments = tyro.cli(Arguments)
    with tempfile.TemporaryDirectory() as folder:
        begun = time.monotonic()
        samples = watch(arguments, Path(folder))
    kept = samples[:: -(-len(samples) // SAMPLES)]
    facts: dict[str, Any] = {"command": "python benchmarks/soak.py", "versions": versions()}
    facts |= {"iterations": arguments.iterations, "seconds": round(time.monotonic() - begun)}
    rounded = [{name: round(value, 1) for name, value in sample.items()} for sample in kept]
    facts |= {"summary": summary(rounded), "samples": rounded}
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(facts, indent=1) + "\n")
    print(json.dumps(facts["summary"], indent=1))


if __name__ == "__main__":
    main()
