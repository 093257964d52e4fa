"""One display for many runs: a live bar with the runs at work on a terminal, a line per finished run elsewhere."""

import sys
import threading
import time
from collections.abc import Mapping

from rich.progress import TaskID

from quell.terminal.numbers import clock
from quell.terminal.progress import Bars


class CampaignDisplay(Bars):
    """Progress by shares of the work; any thread may say that a run, by its title, started, moved or ended."""

    def __init__(self, work: Mapping[str, float], *, plain: bool | None = None) -> None:
        """`work`: title of each run -> how much it is, in any unit (its steps, say)."""
        super().__init__("{task.description}", plain=not sys.stderr.isatty() if plain is None else plain)
        self._work, self._total = work, sum(work.values())
        self._shares: dict[str, float] = {}
        self._ended, self._failed = 0, 0
        self._started, self._books = time.monotonic(), threading.Lock()
        self._overall = self.add_task("[bold]all runs", total=self._total, facts="starting")
        self._rows: dict[str, TaskID] = {}

    def started(self, title: str) -> None:
        with self._books:
            self._rows[title] = self.add_task(title, total=1.0, facts="")

    def moved(self, title: str, steps: float, budget: int) -> None:
        with self._books:
            self._shares[title] = share = min(1.0, steps / budget)
            self.update(self._rows[title], completed=share, facts=f"{steps:,.0f} steps")
            self.update(self._overall, completed=self._done(), facts=self._facts())

    def ended(self, title: str, status: str, message: str = "") -> None:
        """`status` is "done", "stopped" or "failed"."""
        with self._books:
            self._ended += status != "stopped"
            self._failed += status == "failed"
            if status != "stopped":
                self._shares[title] = 1.0
            if title in self._rows:
                self.remove_task(self._rows.pop(title))
            self.update(self._overall, completed=self._done(), facts=self._facts())
            line = f"{title} FAILED: {message}" if status == "failed" else f"{title} {status}"
            if self.disable and status != "stopped":
                self.say(f"{self._ended}/{len(self._work)} {line}  ETA {self._eta()}")
            elif status == "failed":
                self.say(line)

    def _done(self) -> float:
        return sum(self._work[title] * share for title, share in self._shares.items())

    def _facts(self) -> str:
        failed = f"  {self._failed} failed" if self._failed else ""
        return f"{self._ended}/{len(self._work)} runs  ETA {self._eta()}{failed}"

    def _eta(self) -> str:
        done = self._done()
        return clock((time.monotonic() - self._started) * (self._total - done) / done) if done > 0 else "?"


class Quiet(CampaignDisplay):
    """Shows nothing."""

    def __init__(self, work: Mapping[str, float]) -> None:
        super().__init__(work, plain=True)

    def say(self, text: str) -> None: ...
