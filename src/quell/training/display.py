"""The callback that shows a run on the terminal, and stops it when a signal asks for that."""

import sys
import threading
import time
from contextlib import ExitStack, redirect_stderr
from types import FrameType
from typing import Any

from rich.markup import escape
from rich.progress import MofNCompleteColumn

from quell.errors import as_flags
from quell.terminal import stopping
from quell.terminal.numbers import clock
from quell.terminal.progress import Bars
from quell.terminal.streams import Steady, printable, say
from quell.training.callbacks import Callback

EVERY = 10.0  # seconds between lines where there is no terminal
COMPILING = 2  # iterations of a session that also compile: the second is the first that has a metric, for one


class Display(Callback):
    """A live bar with an ETA on a terminal, a plain line now and then elsewhere.

    SIGINT, SIGTERM and SIGHUP ask the run to stop after the current iteration; a second one interrupts at once.
    """

    def __init__(self, title: str, budget: int, *, cut: int = 0, plain: bool | None = None) -> None:
        """`cut`: steps after which episodes of training end, if not where the task says; evaluations never do."""
        self.title, self.budget = title, budget
        self._cut = f" of {cut} steps" if cut else ""
        self.signal = 0
        """The number of the signal that asked to stop, if one did."""
        self.plain = not Steady(sys.stderr).isatty() if plain is None else plain
        self._shown, self._took, self._told = time.monotonic(), 0.0, threading.Lock()
        self._last_line = 0.0
        self._rows, self._begun = 0, (0.0, 0.0)
        self._eval: float | None = None
        self._bar = Bars("[bold]{task.description}", MofNCompleteColumn(), plain=self.plain)
        self._task = self._bar.add_task(escape(printable(title)), total=budget, facts="starting")
        self._around = ExitStack()

    def __enter__(self) -> "Display":
        self._around.enter_context(stopping.handled(self._on_signal, self._announce))
        self._around.enter_context(redirect_stderr(Steady(sys.stderr)))
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()
        self._around.close()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if not self.stop_requested:
            self.stop_requested, self.signal = True, number
            self._announce(number)
        elif stopping.listener is None:  # in a user's program, which goes on
            raise KeyboardInterrupt
        else:
            stopping.end(number)

    def _announce(self, number: int) -> None:
        """Say, once, what a signal will lead to; a listener may be quicker than Python's own handler."""
        if self._told.acquire(blocking=False):
            took = f"the last one took {self._took:.2g} s" if self._took else "the first one may take a minute"
            self._bar.say(f"stopping: this iteration is finished ({took}) and saved; a second signal stops at once")

    def on_iteration(self, row: dict[str, Any]) -> None:
        now = time.monotonic()
        self._shown, self._took = now, now - self._shown
        self._eval = row.get("eval/mean_action", self._eval)
        self._rows += 1
        facts = "  ".join([*self._eta(now, row["steps"]), *self._facts(row)])
        self._bar.update(self._task, completed=row["steps"], facts=facts)
        due = now - self._last_line >= EVERY or row["steps"] >= self.budget or row.get("eval/reached")
        if self.plain and due:
            self._last_line = now
            say(f"{self.title} {min(row['steps'] / self.budget, 1):4.0%}  {row['steps']:,.0f} steps  {facts}")

    def on_note(self, text: str) -> None:
        text = as_flags(text)
        if self.plain:
            say(f"{self.title}: {text}")
        else:
            self._bar.update(self._task, facts=escape(text))

    def _eta(self, now: float, steps: float) -> list[str]:
        """From the pace of this session, once its first iterations have compiled what the others need."""
        if self._rows <= COMPILING:
            self._begun = now, steps
            return []
        begun, first = self._begun
        return [f"ETA {clock(max(0.0, self.budget - steps) * (now - begun) / max(steps - first, 1.0))}"]

    def _facts(self, row: dict[str, Any]) -> list[str]:
        parts = [f"return {row['return/mean']:.4g}{self._cut}"]
        if self._eval is not None:
            parts.append(f"eval {self._eval:.4g}")
        parts.append(f"{row['speed']:,.0f} steps/s")
        if row.get("eval/reached"):
            parts.append(f"target reached with {row['eval/mean_action']:.4g}")
        if row.get("trouble/flat"):
            parts.append("every episode the same")
        if row["trouble/total"]:
            parts.append(f"trouble {row['trouble/total']:.0f}")
        return parts
