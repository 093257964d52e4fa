"""Which runs a table or figure needs."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from quell.config import Config, Preset, from_dict, to_dict
from quell.errors import UsageError, did_you_mean
from quell.paper.published import ABLATION_TASKS, LABELS, LQR_STEPS, STEPS

STOPPED = 75
"""Exit code of a run's process that was asked to stop; the run can be continued."""
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
    "table-ppo": Entry(
        "Final return: what PPO owes to its extras",
        ABLATION_TASKS,
        ("ppo", "ppo+s", "ppo+a", "ppo+s+a", "ppo+s+m", "ppo+a+m", "ppo+s+a+m", "cv"),
    ),
    "fig-curves": Entry("Learning curves", tuple(LABELS), ES_METHODS),
    "fig-improvement": Entry("Improvement over the untrained policy, ES = 1", tuple(LABELS), ES_METHODS),
    "theorem": Entry("Theorem 1", (), ()),
}


@dataclass(frozen=True)
class Budget:
    """How long runs are: a share of the paper's steps, or steps as given (some tasks may have their own)."""

    share: float = 1.0
    steps: int | None = None
    own: tuple[tuple[str, int], ...] = ()

    @staticmethod
    def parse(share: float, words: Sequence[str]) -> Budget:
        """`--budget 0.05`, or `--steps 1000000 dm-quadruped-escape=100000`."""
        if not (0 < share <= 1):
            raise UsageError(f"--budget is a share of the paper's steps, above 0 and up to 1; got {share}")
        steps, own = None, {}
        for word in words:
            name, _, number = word.rpartition("=")
            try:
                value = float(number)
            except ValueError:
                value = math.nan
            if not (value >= 1 and value == int(value)):
                raise UsageError(f"--steps takes a whole number, or TASK=number; got {word!r}")
            if name:
                own[name] = int(value)
            else:
                steps = int(value)
        if words and steps is None:
            raise UsageError("--steps needs a number for all tasks before those of single ones")
        if words and share != 1:
            raise UsageError("give --budget or --steps, not both")
        return Budget(share, steps, tuple(sorted(own.items())))

    def of(self, task: str) -> int:
        """Steps of a run on a task."""
        if task in dict(self.own):
            return dict(self.own)[task]
        return self.steps or max(1, round(self.share * paper_steps(task)))

    @property
    def name(self) -> str:
        """'0.05' for a share, '1000000' for steps."""
        return str(self.steps) if self.steps else f"{self.share:g}"


@dataclass(frozen=True)
class Job:
    """One run, and where it leaves what."""

    config: Config
    runs: Path
    """Where run folders are made."""
    summary: Path
    """The small file a finished run leaves."""
    episodes: int
    """Episodes of the final evaluation."""

    @property
    def label(self) -> str:
        return f"{self.config.task} {self.config.method} seed {self.config.seed}"

    @property
    def done(self) -> bool:
        return self.summary.exists()

    def encode(self) -> str:
        """As the argument of the run's process."""
        paths = {"runs": str(self.runs), "summary": str(self.summary)}
        return json.dumps({"config": to_dict(self.config), "episodes": self.episodes, **paths})

    @staticmethod
    def decode(text: str) -> Job:
        facts = json.loads(text)
        return Job(from_dict(facts["config"]), Path(facts["runs"]), Path(facts["summary"]), facts["episodes"])


def paper_steps(task: str) -> int:
    """The paper's budget."""
    return LQR_STEPS if task.startswith("lqr") else STEPS


def group_name(preset: Preset, budget: Budget) -> str:
    """The results folder of runs that belong together."""
    return f"{preset}-{budget.name}"


def summary_path(group: Path, config: Config) -> Path:
    task = config.task.replace(":", "-").replace("/", "-")
    return group / "summaries" / f"{task}-{config.method}-{config.seed}.json"


def choose(given: Iterable[str], known: Sequence[str], what: str) -> tuple[str, ...]:
    """The chosen names, or all; complains about a method or task that the entry does not have."""
    chosen = tuple(dict.fromkeys(given))
    for name in chosen:
        if name not in known:
            raise UsageError(f"no {what} {name!r} here{did_you_mean(name, known)}; there are: {', '.join(known)}")
    return chosen or tuple(known)


def plan(
    entry: Entry,
    *,
    tasks: Sequence[str],
    methods: Sequence[str],
    seeds: int,
    budget: Budget,
    preset: Preset,
    out: Path,
    runs: Path,
    episodes: int,
) -> list[Job]:
    """Every run of an entry, seed by seed, so that what is done early covers all tasks and methods."""
    from quell.methods import make_config, make_policy, make_task

    chosen = choose(methods, entry.methods, "method")
    for task, _ in budget.own:
        choose([task], tasks or entry.tasks, "task")
    group = group_name(preset, budget)
    jobs = []
    for seed in range(seeds):
        for task in tuple(dict.fromkeys(tasks)) or entry.tasks:
            for method in chosen:
                config = make_config(task, method, preset, {"seed": seed, "steps": budget.of(task)}).validate()
                if seed == 0:
                    make_policy(config, make_task(config))  # complain before the first run
                jobs.append(Job(config, runs / group, summary_path(out / group, config), episodes))
    return jobs
