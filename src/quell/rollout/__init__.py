"""Engines: things that run episodes and sum what an estimator makes of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

from quell.errors import UsageError, warn_once
from quell.estimate import Estimator, Problem, Rows, Total
from quell.limits import gib, require_memory
from quell.registry import name_of
from quell.threads import cores
from quell.types import Array, Batch, Episodes, ObsStats, Rollouts, Shape, Sums

S = TypeVar("S")


class Stages(Protocol[S]):
    """A run's fixed parts, and its iteration stage by stage: perturb -> rollout -> estimate -> update."""

    config: Any
    problem: Problem

    def in_turn(self, state: S) -> tuple[S, dict[str, float]]:
        """The whole of it."""

    def pairs(self, state: S) -> int:
        """How many the next iteration has."""

    def shape(self, state: S, metric: Any) -> Shape | None:
        """What directions take from the run; in a compiled program too."""

    def updated(self, state: S, batch: Batch, states: Array | None, total: Total) -> tuple[S, dict[str, Any]]:
        """(the state after the batch, what there is to log of it); in a compiled program too."""

    def following(self, state: S, moved: S, row: dict[str, Any], played: Played) -> tuple[S, dict[str, float]]:
        """The next state and all that is logged, given the one that `updated` made."""


@dataclass(frozen=True)
class Played:
    """What is counted of an iteration's episodes."""

    rollouts: Rollouts
    """Rewards, steps and ends of those that were played."""
    obs: ObsStats
    """Of all observations, these included."""
    nats: Any
    """The size of the perturbation as a divergence; 0 where it is not known."""
    started: float
    """When the iteration began, by `time.perf_counter`."""


def unheard(text: str) -> None:
    """Nobody listens."""


class Engine(Protocol):
    """Runs episodes of one task with one policy; results depend on the request alone, never on the engine's size."""

    tell: Callable[[str], None] = staticmethod(unheard)
    """Called with what takes a while; who wants to know puts a function in its place."""

    def rollout(
        self, theta: Array, episodes: Episodes, normaliser: ObsStats | None = None, rows: range | None = None
    ) -> Rollouts:
        """Run all members, or those in `rows`, where calls just before have run the ones in front of them. Arrays are
        valid until the next call; trajectories may stay where they were made."""

    def total(self, estimator: Estimator, batch: Batch, rows: Rows, theta: Array) -> Sums:
        """The sum of the terms of all pairs of the batch just run."""

    def iterate(self, stages: Stages[S], state: S) -> tuple[S, dict[str, float]]:
        """One iteration: the next state, and what there is to log of it.

        The stages call `rollout` and `total` in turn. An engine that can do all of it in one compiled program does so
        here; estimators and steps that say `traceable` can be part of it.
        """
        return stages.in_turn(state)

    def sized(self, pairs: int) -> int:
        """The number of pairs that it would rather play than so many, where a batch is counted in steps."""
        return pairs

    def metrics(self) -> dict[str, float]:
        """What there is to log about the engine itself."""
        return {}

    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Compute(Protocol):
    """Where episodes run: a frozen dataclass in `ENGINES`. Results do not depend on it: it is no part of a config.

    They are the same to the last bit with every engine, except one that says `exact = False`: its results agree as far
    as its precision goes, and a run's versions.json names it.
    """

    def validate(self) -> None:
        """Raise UsageError for what makes no sense or cannot be had."""

    def make(self, task: Any, problem: Problem, *, members: int, states: int = 0) -> Engine:
        """The engine; `members` and `states` (per episode) are the most it will ever be asked for at once."""


EXACT = "exact"


def precision(compute: Compute) -> str:
    """What is written down of an engine: its name, unless it is exact."""
    return EXACT if getattr(compute, "exact", True) else name_of(compute)


MOST_PER_CORE, MANY_PER_CORE, MANY = 100, 4, 16
"""Processes that are refused, and that are warned of: more than these on every core, and than these at all."""


ADVICE = "one per core, the default, is usually fastest"


def check_processes(name: str, count: int, each: int) -> None:
    """Complain of a setting that asks for `count` processes of `each` bytes or more, all on this machine's cores."""
    available = cores()
    if count > MOST_PER_CORE * available:
        raise UsageError(
            f"`{name}={count}` must be at most {MOST_PER_CORE * available}: there are {available} cores ({ADVICE})"
        )
    require_memory(count * each, f"`{name}={count}`, as many processes,")
    if count > max(MANY, MANY_PER_CORE * available):
        taken = f"and take {gib(count * each)} GiB of memory or more"
        warn_once(f"`{name}={count}`: so many processes share {available} cores {taken}; {ADVICE}")
