"""Keeping workers alive, handing them jobs, and re-issuing what is lost.

A job is one call to a worker that gives the same bits wherever and however often it runs, so the answer to every fault
is the same: forget the worker, start another, give its job to an idle worker. Three things count as a fault:

* Ray reports it: the process or its machine is gone, or a result was lost on the way.
* Silence: no answer to pings (which a thread of their own answers) for `silence` seconds. A worker that answers, but
  knows nothing of the call it was given, never got it or its answer was lost: it is asked again.
* Overdue: the call takes far longer than any before it. The limit doubles with every attempt at the same job, so a job
  that truly takes long is finished in the end; no episode is ever cut short to meet a deadline.

A worker whose machine has other versions of what decides the numbers is refused, and its machine left alone. Where the
cluster's head is gone, the run ends, saved, before Ray ends the process.

Only time during which this process was attentive counts, so a suspended laptop loses no worker.
"""

import time
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from quell.errors import EngineFailure, QuellError, UsageError, WorkerLost
from quell.rollout.cluster import host
from quell.rollout.cluster.host import Host, versions
from quell.rollout.cluster.lookout import Lookout
from quell.rollout.cluster.worker import Worker
from quell.rollout.cpu.engine import CpuEngine
from quell.runs.folder import RECORDED_PACKAGES
from quell.threads import VARIABLE, xla_threads

TICK = 0.5  # the longest wait before faults are looked for again
GATHER = 10.0  # how long the first iteration waits for workers still starting, once one is ready
BEATS = 8  # pings within the time after which a worker counts as silent
ATTEMPTS = 10  # a job that has lost this many workers is what kills them
OVERDUE = 20.0  # times the longest call so far
DECIDING = [name for name in RECORDED_PACKAGES if name != "ray"]  # the numbers, that is; Ray compares its own version


@dataclass(frozen=True)
class Patience:
    """How long to wait, in seconds, before calling something lost."""

    silence: float = 60.0  # a worker that answers nothing
    stall: float = 120.0  # no worker at all
    call: float = 600.0  # a call is never overdue before this
    head: float = 15.0  # the head takes no connections, or says nothing; Ray itself waits 60


@dataclass(eq=False)
class Job:
    """A call that any worker can make; `holder` is the one that has what it needs, or, once it is done, that did it."""

    submit: Callable[[Any], Any]
    holder: "Member | None" = None
    attempts: int = 0


@dataclass(eq=False)
class Member:
    """A worker as the fleet sees it; the three pending answers are Ray references."""

    actor: Any
    starting: Any
    ping: Any = None
    call: Any = None
    job: Job | None = None
    alive: bool = True
    quiet: float = 0.0  # since it last answered anything
    busy: float = 0.0  # since it was given its job
    idle: float = 0.0  # of that, how long it has said that it works on nothing
    repeats: int = 0  # how often it was asked again
    process: int = 0  # its number, once it has introduced itself

    @property
    def ready(self) -> bool:
        return self.starting is None


class Fleet:
    """The workers of a session: `count` of them, or as many as the cluster's cores allow, however these change."""

    def __init__(
        self, local: Callable[[], CpuEngine], cores: int, count: int | None, most: int, patience: Patience
    ) -> None:
        """`local` makes the engine that a worker is, on `cores` cores."""
        import ray

        self._ray, self._cores, self._count, self._most, self._patience = ray, cores, count, most, patience
        ray.cloudpickle.register_pickle_by_value(host)  # as code: what a machine has of quell may be another
        self._packed = ray.put(ray.cloudpickle.dumps(partial(Worker, local)))
        self._versions = versions(DECIDING)
        self._actors = ray.remote(
            num_cpus=cores,
            max_restarts=0,
            max_task_retries=0,  # Ray's own retries would not know that a replacement is already at work
            concurrency_groups={"work": 1, "ping": 1},
            allow_out_of_order_execution=True,  # a call that was lost on the way must not hold up the next
        )(Host)
        self._lookout = Lookout()
        self.members: list[Member] = []
        self.lost = self.reissued = self._wanted = self._failed_starts = 0  # failed starts: in a row
        self._refused: dict[str, str] = {}  # nodes whose versions differ, and how
        self._looks = 0
        self._slowest = self._stalled = self._unseen = 0.0
        self._why = "none could be started"
        self._ticked = self._next_start = time.monotonic()
        try:
            self._gather()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._lookout.close()
        for member in self.members:
            self._kill(member)
        self.members = []

    @property
    def ready(self) -> int:
        """How many workers could take a job."""
        return sum(member.ready for member in self.members)

    def run(self, jobs: Sequence[Job]) -> list[Any]:
        """The results of all jobs, in their order."""
        todo, done = deque(jobs), dict[Job, Any]()
        self._ticked = time.monotonic()
        while len(done) < len(jobs):
            self._recruit()
            self._assign(todo)
            for member, result in self._listen():
                assert member.job is not None
                done[member.job] = result
                member.job.holder, member.job = member, None
            todo.extend(self._lose_the_faulty())
        return [done[job] for job in jobs]

    def _gather(self) -> None:
        """Wait for the first worker, and a little longer for the rest; who comes later joins then."""
        first: float | None = None
        while not self.ready or (self.ready < self._wanted and time.monotonic() - (first or 0.0) < GATHER):
            self._recruit()
            self._listen()
            self._lose_the_faulty()
            if self._refused and not self._offered:
                raise UsageError("; ".join(self._refused.values()))
            first = first or (time.monotonic() if self.ready else None)

    @property
    def _offered(self) -> int:
        """How many workers the cluster has room for, on nodes with our versions."""
        nodes = [node for node in self._lookout.nodes if node["NodeID"] not in self._refused]
        return sum(int(node["Resources"].get("CPU", 0) // self._cores) for node in nodes)

    def _recruit(self) -> None:
        """Start as many workers as are missing; after failed starts, ever less often."""
        self._wanted = min(self._count or self._offered, self._most)
        elsewhere = {"label_selector": {"ray.io/node-id": f"!in({','.join(self._refused)})"}} if self._refused else {}
        while len(self.members) < self._wanted and time.monotonic() >= self._next_start:
            actor = self._actors.options(**elsewhere).remote(self._packed, {VARIABLE: str(xla_threads())})
            self.members.append(Member(actor, actor.introduce.options(concurrency_group="work").remote(DECIDING)))

    def _assign(self, todo: deque[Job]) -> None:
        """Give idle workers jobs: what they hold the data for first, then what no living worker does."""
        for member in self.members:
            if not member.ready or member.job is not None:
                continue
            own = [job for job in todo if job.holder is member]
            free = [job for job in todo if job.holder is None or not job.holder.alive]
            for job in (own or free)[:1]:
                todo.remove(job)
                member.job, member.busy, member.idle, member.repeats = job, 0.0, 0.0, 0
                member.call = job.submit(member.actor)

    def _listen(self) -> list[tuple[Member, Any]]:
        """Wait a moment for answers; the results of calls that are done. Faults mark their worker as not alive."""
        for member in self.members:
            if member.ready and member.ping is None and member.quiet > self._patience.silence / BEATS:
                member.ping = member.actor.ping.options(concurrency_group="ping").remote()
        asked = [(ref, one) for one in self.members for ref in (one.starting, one.ping, one.call)]
        owner, answered = {ref: member for ref, member in asked if ref is not None}, []
        if owner:
            self._ray.wait(list(owner), num_returns=1, timeout=TICK)
            answered, _ = self._ray.wait(list(owner), num_returns=len(owner), timeout=0)
        else:
            time.sleep(TICK)
        now = time.monotonic()
        passed, self._ticked = min(now - self._ticked, 2 * TICK), now
        for member in self.members:
            member.quiet += passed if member.ready else 0.0
            member.busy += passed
        self._stalled = 0.0 if self.ready else self._stalled + passed
        self._unseen = 0.0 if self._lookout.looks != self._looks else self._unseen + passed
        self._looks = self._lookout.looks
        return [(owner[ref], result) for ref in answered for result in self._answer(owner[ref], ref)]

    def _answer(self, member: Member, ref: Any) -> list[Any]:
        """Take in one answer: a list with the result if it is that of a call."""
        errors = self._ray.exceptions
        try:
            result = self._ray.get(ref)
        except errors.ActorUnavailableError:  # a message was lost: ask again; silence decides when to give up
            self._ask_again(member, ref)
        except errors.RayTaskError as error:
            cause = error.cause
            if not isinstance(cause, WorkerLost | errors.RayError):
                raise cause if isinstance(cause, QuellError) else EngineFailure(f"a worker failed:\n{error}") from None
            self._blame(member, cause)
        except errors.RayError as error:
            self._blame(member, error)
        else:
            member.quiet = 0.0
            if ref == member.ping:
                member.ping = None
                self._compare(member, working=result)
            elif ref == member.starting and not member.process:
                self._admit(member, result)
            elif ref == member.starting:
                member.starting, self._failed_starts = None, 0
            else:
                member.call, self._slowest = None, max(self._slowest, member.busy)
                return [result]
        return []

    def _admit(self, member: Member, told: dict[str, Any]) -> None:
        """Have a worker start, unless its versions are not ours: then its node is left alone from here on."""
        ours, theirs, node = self._versions, told["versions"], told["node"]
        differing = [
            f"{name} {theirs[name]} (here {ours[name]})" for name in ours if theirs.get(name, ours[name]) != ours[name]
        ]
        if not differing:
            member.process = told["process"]
            member.starting = member.actor.start.options(concurrency_group="work").remote()
            return
        self.members.remove(member)
        self._kill(member)
        if node not in self._refused:
            self._why = f"node {told['host']} ({told['address']}) is not used: it has {', '.join(differing)}"
            self._refused[node] = self._why
            if self._offered:  # else this is what ends the run
                warnings.warn(self._why, stacklevel=2)

    def _compare(self, member: Member, *, working: bool) -> None:
        """What a worker says it does against what it should be doing."""
        silence = self._patience.silence
        member.idle = 0.0 if working or member.call is None else member.idle + silence / BEATS
        if member.idle > silence / 2 * 2**member.repeats:
            member.idle, member.repeats = 0.0, member.repeats + 1
            self._ask_again(member, member.call)

    def _ask_again(self, member: Member, ref: Any) -> None:
        if ref == member.ping:
            member.ping = None
        elif ref == member.starting:
            ask, *told = (member.actor.start,) if member.process else (member.actor.introduce, DECIDING)
            member.starting = ask.options(concurrency_group="work").remote(*told)
        else:
            assert member.job is not None
            member.call = member.job.submit(member.actor)

    def _blame(self, member: Member, error: BaseException) -> None:
        member.alive = False
        self._why = str(error).strip().partition("\n")[0]
        if not member.ready:
            self._failed_starts += 1
            self._next_start = time.monotonic() + min(30.0, 0.5 * 2**self._failed_starts)

    def _lose_the_faulty(self) -> list[Job]:
        """Forget workers that are dead, silent or overdue; the jobs they leave behind."""
        left = []
        for member in list(self.members):
            limit = max(self._patience.call, OVERDUE * self._slowest) * 2 ** (member.job.attempts if member.job else 0)
            if member.quiet > self._patience.silence:
                self._blame(member, TimeoutError(f"no sign of life for {self._patience.silence:.0f} s"))
            elif member.job is not None and member.busy > limit:
                self._blame(member, TimeoutError(f"a call took more than {limit:.0f} s"))
            if member.alive:
                continue
            self.lost += 1
            self.members.remove(member)
            self._kill(member)
            if member.job is not None:
                left.append(member.job)
        for job in left:
            self.reissued += 1
            job.attempts += 1
            if job.attempts >= ATTEMPTS:
                raise EngineFailure(f"{ATTEMPTS} Ray workers were lost over the same shard; the last: {self._why}")
        if self._unseen > self._patience.head:
            where, waited = self._lookout.head, self._patience.head
            raise EngineFailure(f"the Ray cluster's head ({where}) has not answered for {waited:.0f} s")
        if self._stalled > (stall := self._patience.stall):
            raise EngineFailure(f"no Ray worker for {stall:.0f} s; the last was lost because: {self._why}")
        return left

    def _kill(self, member: Member) -> None:
        member.alive = False
        self._ray.kill(member.actor)
