"""Runs that nobody made."""

from __future__ import annotations

from quell.campaign.plan import Job
from quell.runs.record import Record


def pretend(job: Job, value: float) -> None:
    """A record as a run would leave it, whose policy earns `value`."""
    returns = {"sampled": [value], "mean_action": [value]}
    curve: dict[str, list[float | None]] = {n: [] for n in ("iteration", "steps", "return", "ratio", "evaluation")}
    Record(job.config, {}, returns, [0.0], curve, job.label).write(job.record)
