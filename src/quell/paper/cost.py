"""What runs cost, from the timings beside the records."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from quell.campaign.plan import Job, read_timings
from quell.runs.archive import TIMINGS


def core_hours(group: Path) -> float:
    """Of all runs of a campaign: processor time, or seconds by the clock where that was not kept."""
    return sum(map(_seconds, read_timings(group / TIMINGS))) / 3600


def expected(out: Path, due: Sequence[Job]) -> tuple[float, list[str]]:
    """Core-hours that runs would take, at the median pace of runs of their task and method in a folder; tasks that none
    is known of. Where the method was never timed on a task, the slowest one there counts.
    """
    paces = _paces(row for path in sorted(out.glob(f"*/{TIMINGS}")) for row in read_timings(path))
    known = {job.title: pace for job in due if (pace := _pace(paces, job.config.task, job.config.method)) is not None}
    hours = sum(known[job.title] * job.config.steps for job in due if job.title in known) / 3600
    return hours, sorted({job.config.task for job in due if job.title not in known})


def _pace(paces: Mapping[tuple[str, str], float], task: str, method: str) -> float | None:
    return paces.get((task, method), paces.get((task, "")))


def _paces(rows: Any) -> dict[tuple[str, str], float]:
    """(task, method) -> core-seconds per step; method "" is the slowest of those there are."""
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in rows:
        if row.get("steps"):
            found[row["task"], row["method"]].append(_seconds(row) / row["steps"])
    paces = {key: median(values) for key, values in found.items()}
    slowest: dict[tuple[str, str], float] = {}
    for (task, _), pace in paces.items():
        slowest[task, ""] = max(pace, slowest.get((task, ""), 0.0))
    return paces | slowest


def _seconds(row: Mapping[str, Any]) -> float:
    return float(row["core_seconds"] if "core_seconds" in row else row["seconds"])
