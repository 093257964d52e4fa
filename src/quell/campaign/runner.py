"""Runs jobs, several at a time, each in a child process; one that fails does not stop the others."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from types import FrameType
from typing import Any, Literal

from quell.campaign.plan import STOPPED, Job
from quell.rollout import check_processes
from quell.rollout.cpu.crew import ONE_THREAD
from quell.runs import archive
from quell.runs.files import as_facts
from quell.terminal.campaign import CampaignDisplay
from quell.terminal.stopping import handled

CHILD = 200 << 20
"""Bytes of a process that trains a small policy."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    job: Job
    status: Literal["done", "stopped", "failed"]
    message: str = ""


class Runner:
    """Keeps `count` children at work until the jobs are done; SIGINT and SIGTERM stop and save them all."""

    def __init__(self, count: int, display: CampaignDisplay) -> None:
        check_processes("jobs", count, CHILD)
        self.count, self.display = count, display
        self._children: set[subprocess.Popen[str]] = set()
        self._lock = threading.Lock()
        self._stopping = False
        self.signal = 0
        """The number of the signal that asked to stop, if one did."""

    def run(self, jobs: Sequence[Job]) -> list[Outcome]:
        """Outcomes in the order in which the runs ended."""
        told = handled(self._on_signal, lambda _: None, lambda _: None, SIGNALS)
        with told, ThreadPoolExecutor(self.count) as pool, self.display:
            outcomes = []
            for future in as_completed([pool.submit(self._one, job) for job in jobs]):
                outcomes.append(outcome := future.result())
                self.display.ended(outcome.job.title, outcome.status, outcome.message)
            for group in {archive.place_of(job.record)[0] for job in jobs}:
                archive.pack(group)
            return outcomes

    def exit_code(self, outcomes: Sequence[Outcome]) -> int:
        """The command's: 128 and more if a signal stopped it before all was done, 1 if a run failed."""
        found = {outcome.status for outcome in outcomes}
        return 128 + (self.signal or signal.SIGINT) if "stopped" in found else int("failed" in found)

    def stop(self) -> None:
        """Ask every child to save and end; no further ones are started."""
        self.display.say("stopping: every run saves and ends; a second signal ends them at once")
        with self._lock:
            self._stopping = True
            for child in self._children:
                assert child.stdin is not None
                child.stdin.close()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.signal = self.signal or number
        if self._stopping:
            for child in tuple(self._children):
                child.kill()
        threading.Thread(target=self.stop).start()  # not here: the lock may be held by what was interrupted

    def _one(self, job: Job) -> Outcome:
        child = self._start(job)
        if child is None:
            return Outcome(job, "stopped")
        self.display.started(job.title)
        errors: list[str] = []
        facts: dict[str, Any] = {}
        reader = threading.Thread(target=lambda: errors.extend(child.stderr or ()))
        reader.start()
        with child:
            for line in child.stdout or ():
                facts = as_facts(line) or facts
                self.display.moved(job.title, facts.get("steps", 0), job.config.steps)
            code = child.wait()
            reader.join()
            with self._lock:
                self._children.discard(child)
        return self._outcome(job, code, facts, errors)

    def _start(self, job: Job) -> subprocess.Popen[str] | None:
        with self._lock:
            if self._stopping:
                return None
            command = [sys.executable, "-P", "-m", "quell.campaign.child", job.encode()]
            pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
            own = {**os.environ, **ONE_THREAD}  # in a session of its own: Ctrl-C reaches us alone, and we pass it on
            child = subprocess.Popen(command, env=own, text=True, start_new_session=True, **pipes)
            self._children.add(child)
            return child

    def _outcome(self, job: Job, code: int, facts: dict[str, Any], errors: list[str]) -> Outcome:
        if code == 0 and job.done:
            self._record(job, facts)
            return Outcome(job, "done")
        if code == STOPPED or self._stopping:
            return Outcome(job, "stopped")
        lines = [line.strip() for line in errors if line.strip()]
        ended = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
        return Outcome(job, "failed", lines[-1] if lines else ended)

    def _record(self, job: Job, facts: dict[str, Any]) -> None:
        """One line about time and place; apart from the record, which must not depend on them."""
        row = {"task": job.config.task, "method": job.config.method, "seed": job.config.seed, **facts}
        row |= {"label": job.label} if job.label else {}
        if "seconds" in facts:
            row |= {name: round(facts[name], 2) for name in ("seconds", "core_seconds")}
            with self._lock, job.timings.open("a") as file:
                file.write(json.dumps(row) + "\n")
