"""Engines: things that run episodes."""

from __future__ import annotations

from typing import Any, Protocol

from numpy.typing import NDArray

from quell.estimate import Total
from quell.observations import ObsStats
from quell.rollout.cpu import CpuEngine
from quell.types import Episodes, Rollouts

__all__ = ["CpuEngine", "Engine"]


class Engine(Protocol):
    """Runs episodes of one task with one policy; results depend on the request alone, never on the engine's size."""

    def rollout(self, theta: NDArray[Any], episodes: Episodes, normaliser: ObsStats | None = None) -> Rollouts: ...

    @property
    def total(self) -> Total | None:
        """Adds up the contributions of the batch just run where its trajectories are, if that is not this process."""

    def metrics(self) -> dict[str, float]:
        """What there is to log about the engine itself."""

    def close(self) -> None: ...
