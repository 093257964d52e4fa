"""Keeping worker processes alive: whatever befalls one, another takes its place and plays what it left unfinished.

An episode gives the same bits wherever and however often it runs, so every fault has the same answer:

* A worker's process is gone (killed, out of memory, crashed), also while it had nothing to do: a new one is started.
* A worker stands still: it counts every step in shared memory, and the count has not moved for `timeout` seconds. The
  limit doubles with every attempt, so a step that truly takes long is finished in the end; no episode is ever cut.
* An environment failed: the same worker makes new ones and tries again.

Episodes that are done stay done. Work that failed `ATTEMPTS` times without one more is given up. Only time during which
this process was attentive counts, so a suspended laptop loses no worker.
"""

import os
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

import cloudpickle

from quell.errors import EngineFailure, QuellError, UsageError, WorkerLost, warn_once
from quell.estimate import Problem
from quell.rollout.cpu.memory import SharedArrays
from quell.tasks.base import Task

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
ATTEMPTS = 4
TICK = 0.5  # seconds between looks at who stands still
PAUSE = 2.0  # seconds before a third attempt, doubled by each further one: memory may be short for a moment
STARTING = 120.0  # seconds that a new process may take, at least
LEAVING = 5.0  # seconds that an idle worker is given to end by itself


@dataclass(eq=False)
class Member:
    """A worker process."""

    process: subprocess.Popen[bytes]
    connection: Connection
    ready: bool = False
    busy: bool = False
    count: int = -1  # of its steps, when last looked at
    still: float = 0.0  # seconds since that moved


@dataclass(eq=False)
class Job:
    """One place's work, and what went wrong with it so far."""

    message: Any
    doing: Callable[[], str]
    done: Callable[[], int] = lambda: 0
    """How much of it is done: this need not be repeated."""
    attempts: int = 0
    """That failed since more was done."""
    kept: int = 0
    troubles: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    """Warnings of the worker's."""

    def failed(self, trouble: str) -> None:
        """Count an attempt."""
        before, self.kept = self.kept, self.done()
        self.attempts = self.attempts + 1 if self.kept == before else 1
        self.troubles.append(trouble)


class Crew:
    """`count` workers over the same arrays, one of which (`pulse` [count, 8]) they count their steps in."""

    def __init__(self, task: Task, problem: Problem, arrays: SharedArrays, count: int, timeout: float) -> None:
        self._arrays, self._pulse, self._timeout = arrays, arrays["pulse"], timeout
        # What a script or notebook defines itself, such as directions of its own, travels with its code.
        self._setup = cloudpickle.dumps((task, problem, arrays.layout))
        # Workers die with the thread that started them (see quell.rollout.cpu.worker): this one lives as long as we do.
        self._starter = ThreadPoolExecutor(1, thread_name_prefix="quell-workers")
        self._members: list[Member] = []
        try:
            for place in range(count):
                self._members.append(self._start(place))
            self.run([Job(None, lambda: "starting") for _ in range(count)])
        except BaseException:
            self.close()
            raise

    def __len__(self) -> int:
        return len(self._members)

    @property
    def processes(self) -> list[int]:
        """Process ids."""
        return [member.process.pid for member in self._members]

    def run(self, jobs: Sequence[Job]) -> None:
        """Have the first workers do a job each; returns once all are done."""
        todo = dict(enumerate(jobs))
        for place, member in enumerate(self._members):
            if member.busy:  # with what an earlier call was interrupted in
                self._replace(place)
        for place, job in todo.items():
            self._give(place, job)
        ticked, done = time.monotonic(), []
        while todo:
            members = {self._members[place].connection: place for place in todo}
            answered = [members[connection] for connection in wait(list(members), TICK)]  # type: ignore[index]
            now = time.monotonic()
            passed, ticked = min(now - ticked, 2 * TICK), now
            for place in list(todo):
                job = todo[place]
                if place in answered:
                    if self._listen(place, job):
                        done.append(todo.pop(place))
                else:
                    self._look(place, job, passed)
        for text in (text for job in done for text in job.said):
            warn_once(text)
        for troubles in (job.troubles for job in done if job.troubles):
            text = troubles[-1] + (f", the last of {len(troubles)} times" if len(troubles) > 1 else "")
            warnings.warn(f"{text}; its unfinished work was repeated, and the run continues", stacklevel=3)

    def close(self) -> None:
        """End all workers: at once those at work, the others when they notice that the driver is gone."""
        for member in self._members:
            member.connection.close()
            if member.busy or not member.ready:
                member.process.kill()
        until = time.monotonic() + LEAVING
        for member in self._members:
            try:
                member.process.wait(timeout=max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                member.process.kill()
                member.process.wait()
        self._members = []
        self._starter.shutdown()

    def _give(self, place: int, job: Job) -> None:
        """Hand a worker its job, now or once it is ready."""
        member = self._members[place]
        member.still, member.count = 0.0, -1
        if not member.ready or job.message is None:
            return
        member.busy = True
        try:
            member.connection.send(job.message)
        except OSError:  # it died while it had nothing to do
            self._lose(place, job, _how_it_ended(member))

    def _listen(self, place: int, job: Job) -> bool:
        """Take in a worker's answer: whether the job is done."""
        member = self._members[place]
        try:
            failed, said = member.connection.recv()
        except (EOFError, OSError):
            self._lose(place, job, _how_it_ended(member))
            return False
        starting, member.ready, member.busy = not member.ready, True, False
        job.said += said
        if failed is None:
            if starting:
                self._give(place, job)
            return not starting or job.message is None
        error, text = failed
        failure = error if isinstance(error, QuellError) else EngineFailure(f"a worker failed:\n{text}")
        job.failed(f"a worker failed ({(str(error) if error else text).strip().splitlines()[-1][:300]})")
        if starting or isinstance(error, UsageError) or job.attempts >= ATTEMPTS:
            raise failure
        self._give(place, job)
        return False

    def _look(self, place: int, job: Job, passed: float) -> None:
        """Replace a worker that stands still."""
        member, count = self._members[place], int(self._pulse[place, 0])
        member.still = 0.0 if count != member.count else member.still + passed
        member.count = count
        limit = (self._timeout if member.ready else max(self._timeout, STARTING)) * 2**job.attempts
        if member.still > limit:
            self._lose(place, job, f"stood still for {limit:g} s (--worker-timeout)")

    def _lose(self, place: int, job: Job, how: str) -> None:
        job.failed(f"a worker process {how} while {job.doing()}")
        if job.attempts >= ATTEMPTS:
            raise WorkerLost(f"{job.troubles[-1]}; so did the {ATTEMPTS - 1} before it")
        if job.attempts > 1:
            time.sleep(PAUSE * 2 ** (job.attempts - 2))
        self._replace(place)
        self._give(place, job)

    def _replace(self, place: int) -> None:
        member = self._members[place]
        member.connection.close()
        member.process.kill()
        member.process.wait()  # so that it never writes beside its successor
        self._members[place] = self._start(place)

    def _start(self, place: int) -> Member:
        ours, theirs = socket.socketpair()
        fds = theirs.fileno(), self._arrays.fd
        command = [sys.executable, "-P", "-m", "quell.rollout.cpu.worker", *map(str, (*fds, place, os.getpid()))]
        with theirs:
            process = self._starter.submit(
                subprocess.Popen,
                command,
                pass_fds=fds,
                # One BLAS thread each, or they fight over the cores; and modules found here are found there.
                env={**os.environ, **ONE_THREAD, "PYTHONPATH": os.pathsep.join(p or os.getcwd() for p in sys.path)},
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # a Ctrl-C at the terminal goes to the trainer alone
            ).result()
        member = Member(process, Connection(ours.detach()))
        with suppress(OSError):  # if it is gone already, listening to it will tell
            member.connection.send_bytes(self._setup)
        return member


def _how_it_ended(member: Member) -> str:
    try:
        code = member.process.wait(timeout=LEAVING)
    except subprocess.TimeoutExpired:
        return "closed its pipe"
    return f"ended unexpectedly ({f'killed by signal {-code}' if code < 0 else f'exit code {code}'})"
