"""One display for many runs: a live bar with the runs at work on a terminal, a line per finished run elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

from quell.paper.estimate import clock
from quell.paper.plan import Job


class Display:
    """Progress in units of expected time, so that slow tasks weigh what they take."""

    def __init__(self, jobs: Sequence[Job], seconds: Sequence[float], *, plain: bool | None = None) -> None:
        self.plain = not sys.stderr.isatty() if plain is None else plain
        self._weights = {job.label: weight for job, weight in zip(jobs, seconds, strict=True)}
        self._total = sum(seconds)
        self._shares: dict[str, float] = {}
        self._count, self._ended, self._failed = len(jobs), 0, 0
        self._started = time.monotonic()
        self._lock = threading.Lock()
        self._bar: Any = None
        self._rows: dict[str, Any] = {}

    def __enter__(self) -> Display:
        if not self.plain:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn

            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=30),
                TextColumn("{task.percentage:>3.0f}%"),
                TextColumn("{task.fields[facts]}"),
                console=Console(stderr=True),
            )
            self._overall = self._bar.add_task("[bold]all runs", total=self._total, facts="starting")
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def started(self, job: Job) -> None:
        with self._lock:
            if self._bar is not None:
                self._rows[job.label] = self._bar.add_task(job.label, total=1.0, facts="")

    def moved(self, job: Job, steps: float) -> None:
        with self._lock:
            self._shares[job.label] = share = min(1.0, steps / job.config.steps)
            if self._bar is not None:
                self._bar.update(self._rows[job.label], completed=share, facts=f"{steps:,.0f} steps")
                self._bar.update(self._overall, completed=self._done(), facts=self._facts())

    def ended(self, job: Job, status: str, message: str) -> None:
        with self._lock:
            self._ended += status != "stopped"
            self._failed += status == "failed"
            if status != "stopped":
                self._shares[job.label] = 1.0
            if self._bar is not None:
                if job.label in self._rows:
                    self._bar.remove_task(self._rows.pop(job.label))
                self._bar.update(self._overall, completed=self._done(), facts=self._facts())
            told = f"{job.label} FAILED: {message}" if status == "failed" else f"{job.label} {status}"
            if self.plain and status != "stopped":
                print(f"{self._ended}/{self._count} {told}  ETA {self._eta()}", file=sys.stderr, flush=True)
            elif status == "failed":
                self.say(told)

    def say(self, text: str) -> None:
        """A line above the bar."""
        if self._bar is not None:
            self._bar.console.print(text, markup=False)
        else:
            print(text, file=sys.stderr, flush=True)

    def _done(self) -> float:
        return sum(self._weights[label] * share for label, share in self._shares.items())

    def _facts(self) -> str:
        failed = f"  {self._failed} failed" if self._failed else ""
        return f"{self._ended}/{self._count} runs  ETA {self._eta()}{failed}"

    def _eta(self) -> str:
        done = self._done()
        elapsed = time.monotonic() - self._started
        return clock(elapsed * (self._total - done) / done) if done > 0 else "?"
