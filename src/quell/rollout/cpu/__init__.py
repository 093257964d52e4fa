"""Processes on this machine: the CPU engine's settings."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from quell.estimate import Problem
from quell.registry import POSITIVE, SIZE, check
from quell.rollout import Engine, check_processes
from quell.threads import cores

WORKER = 30 << 20
"""Bytes of a worker process that plays one small environment, beside what all share."""


@dataclass(frozen=True, kw_only=True)
class Cpu:
    """Worker processes on this machine."""

    name: ClassVar[str] = "cpu"
    workers: Annotated[int | None, SIZE] = None
    """Worker processes, by default one per core. Results do not depend on it."""
    sum: Literal["loop", "vmap"] = "loop"
    """How an estimator's terms are summed: loop (pair by pair, on threads), or vmap (all pairs at once in JAX, in
    single precision; for thousands of short episodes, and where JAX has an accelerator)."""
    worker_timeout: Annotated[float, POSITIVE] = 120.0
    """Seconds without a single environment step after which a worker is replaced; doubled when tried again, so that no
    episode is ever cut short."""

    @property
    def exact(self) -> bool:
        return self.sum == "loop"

    @property
    def processes(self) -> int:
        return self.workers or cores()

    def validate(self) -> None:
        check(self)
        check_processes("workers", self.processes, WORKER)

    def make(self, task: Any, problem: Problem, *, members: int, states: int = 0) -> Engine:
        from quell.rollout.cpu.engine import CpuEngine

        return CpuEngine(task, problem, self, members=members, states=states)


ENGINES = [Cpu]
