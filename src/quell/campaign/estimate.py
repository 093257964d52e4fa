"""How long runs will take: from the times of earlier runs where there are any, else from a table."""

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from quell.campaign.plan import Job
from quell.runs.files import as_facts
from quell.training.methods import make_task

STEPS_PER_SECOND = {
    **{"lqr": 300_000, "lqr-302": 300_000, "swimmer": 19_000, "halfcheetah": 27_000, "walker2d": 9_000},
    **{"roboschool-pong": 23_000, "roboschool-halfcheetah": 6_000, "bipedalwalker": 9_000},
    **{"dm-cheetah-run": 65_000, "dm-pendulum-swingup": 200_000, "dm-cartpole-two-poles": 60_000},
    **{"dm-cartpole-swingup": 60_000, "dm-cartpole-balance": 60_000, "dm-hopper-hop": 21_000},
    **{"dm-hopper-stand": 21_000, "dm-quadruped-walk": 10_000, "dm-quadruped-escape": 2_200},
}
"""Training steps per second of plain ES on one core, roughly."""
OTHER_TASK = 5_000
GRADIENT_MICROSECONDS = {"cv": 6.0, "pg": 4.0, "trpo": 6.0, "ppo": 6.0}  # time per step that policy gradients add
MANY_UPDATES = 10
START = 4.0  # seconds a run takes to start and end


def seconds_of(job: Job, known: dict[tuple[str, str], float]) -> float:
    """Time one run takes on one core, with its evaluations."""
    task, method = job.config.task, job.config.method
    plain = STEPS_PER_SECOND.get(task, OTHER_TASK)
    extra = GRADIENT_MICROSECONDS.get(method.partition("+")[0], 0.0) * 1e-6
    speed = known.get((task, method)) or 1 / (1 / plain + extra * (MANY_UPDATES if method.endswith("+m") else 1))
    horizon = make_task(job.config).horizon
    evaluated = 3 * job.episodes * horizon / plain
    trained = max(job.config.steps, 2 * job.config.pairs * horizon)  # one iteration at least
    return START + 1.1 * trained / speed + evaluated


def known_speeds(out: Path) -> dict[tuple[str, str], float]:
    """(task, method) -> median steps per second of the runs recorded under a results folder."""
    speeds: dict[tuple[str, str], list[float]] = {}
    for path in sorted(out.glob("*/timings.jsonl")):
        for row in read_timings(path):
            spent = row.get("core_seconds", row["seconds"])  # others may have shared the processor
            if spent > 0:
                speeds.setdefault((row["task"], row["method"]), []).append(row["steps"] / spent)
    return {key: median(values) for key, values in speeds.items()}


def read_timings(path: Path) -> list[dict[str, Any]]:
    """Rows of a timings file; a half-written line is left out."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [row for line in lines if (row := as_facts(line))]


def makespan(seconds: Sequence[float], jobs: int) -> float:
    """When the last run ends, if each starts on the first free core."""
    ends = [0.0] * jobs
    for duration in seconds:
        ends.sort()
        ends[0] += duration
    return max(ends)
