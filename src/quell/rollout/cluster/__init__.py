"""Many machines: the Ray engine's settings."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from quell.errors import require
from quell.estimate import Problem
from quell.registry import POSITIVE, SIZE, check
from quell.rollout import Engine
from quell.threads import cores


@dataclass(frozen=True, kw_only=True)
class Ray:
    """Workers on a Ray cluster, by default a local one started for the run."""

    name: ClassVar[str] = "ray"
    workers: Annotated[int | None, SIZE] = None
    """Actors, by default as many as the cluster's cores allow. Results do not depend on it."""
    address: str | None = None
    """host:port of a running cluster's head node, or auto for the cluster of this machine."""
    worker_cores: Annotated[int, SIZE] = 1
    """Cores per worker."""
    worker_timeout: Annotated[float, POSITIVE] = 60.0
    """Seconds without a sign of life after which a worker is replaced and its work done by another; and seconds without
    a single environment step after which a worker replaces its own processes."""

    @property
    def processes(self) -> int:
        """Workers, where the cluster is this machine alone."""
        return self.workers or max(1, cores() // self.worker_cores)

    def validate(self) -> None:
        check(self)
        require("ray", "engine 'ray'")

    def make(self, task: Any, problem: Problem, *, members: int, states: int = 0) -> Engine:
        from quell.rollout.cluster.engine import RayEngine

        return RayEngine(task, problem, self, members=members, states=states)


ENGINES = [Ray]
