"""The tables and figures of the paper, and the runs each needs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from quell.errors import UsageError, did_you_mean
from quell.paper.published import ABLATION_TASKS, LABELS

PPO_METHODS = ("ppo", "ppo+s", "ppo+a", "ppo+s+a", "ppo+s+m", "ppo+a+m", "ppo+s+a+m")
ES_METHODS = ("es", "ortho", "gcmc", "qmc", "cv")


@dataclass(frozen=True)
class Entry:
    """A table or figure of the paper."""

    title: str
    tasks: tuple[str, ...]
    methods: tuple[str, ...]


ENTRIES = {
    "table-es": Entry("Final return: ES and its variants", tuple(LABELS), (*ES_METHODS, "pg")),
    "table-pg": Entry("Final return: policy gradients", tuple(LABELS), ("ppo", "trpo", "det", "cv", "pg")),
    "table-ppo": Entry("Final return: what PPO owes to its extras", ABLATION_TASKS, (*PPO_METHODS, "cv")),
    "fig-curves": Entry("Learning curves", tuple(LABELS), ES_METHODS),
    "fig-improvement": Entry("Improvement over the untrained policy, ES = 1", tuple(LABELS), ES_METHODS),
}


def choose(wanted: Iterable[str], known: Sequence[str], what: str) -> tuple[str, ...]:
    """The wanted names, or all; complains about a method or task that the entry does not have."""
    chosen = tuple(dict.fromkeys(wanted))
    for name in chosen:
        if name not in known:
            raise UsageError(f"no {what} {name!r} here{did_you_mean(name, known)}; there are: {', '.join(known)}")
    return chosen or tuple(known)
