"""Where a run's episodes run. Results do not depend on any of it, so it is no part of a run's config."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from quell.config import default_workers
from quell.errors import UsageError, require


@dataclass(frozen=True)
class Compute:
    """Processes on this machine, or workers on a Ray cluster."""

    workers: int | None = None
    """Worker processes (Ray: actors); by default one per core. Results do not depend on it."""
    engine: Literal["cpu", "ray"] = "cpu"
    """cpu: processes on this machine. ray: a Ray cluster, by default one of its own on this machine."""
    address: str | None = None
    """ray: host:port of a running cluster's head node, or auto for the one this machine belongs to."""
    worker_cores: int = 1
    """ray: cores per worker."""
    worker_timeout: float = 60.0
    """ray: seconds without a sign of life after which a worker is replaced and its work done by another."""

    def validate(self) -> Compute:
        """Raise UsageError for what makes no sense or cannot be had."""
        for name, value in (("workers", self.workers), ("worker-cores", self.worker_cores)):
            if value is not None and value < 1:
                raise UsageError(f"{name} must be at least 1, got {value}")
        if not (math.isfinite(self.worker_timeout) and self.worker_timeout > 0):
            raise UsageError(f"worker-timeout must be a number greater than 0, got {self.worker_timeout}")
        if self.engine not in ("cpu", "ray"):
            raise UsageError(f"unknown engine {self.engine!r}: use cpu or ray")
        if self.engine == "ray":
            require("ray", "engine 'ray'")
        elif self.address is not None:
            raise UsageError("an address is for the Ray engine: add --engine ray")
        return self

    @property
    def processes(self) -> int:
        """Workers on this machine."""
        return self.workers or max(1, default_workers() // (self.worker_cores if self.engine == "ray" else 1))
