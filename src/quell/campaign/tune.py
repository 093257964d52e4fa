"""Settings by a documented protocol, on seeds that no result is reported on.

1. `trials` settings, the first being the present ones, are each trained once on every task, with seed 100: drawn at
   random from the method's space, or by a sampler that learns (`quell.campaign.tpe`).
2. With successive halving all are trained for a ninth of the budget first, the best third of those anew for a third of
   it, and the best third of these for all of it; each is a whole run, whose schedules fall over its own budget.
3. The best (two of those left by halving, or a quarter of all) are trained with three more seeds, 101 to 103.
4. The best of those, over all four seeds, is what the search says, and what its TOML file has for `train --config`.

Several tasks are a family that shares its settings: a trial's score is then its mean rank over the tasks. Every run is
a job of a campaign, so a search can be stopped and continued, and all its records are kept.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from quell.campaign.plan import Job
from quell.config import flatten, full_name, replace
from quell.errors import UsageError
from quell.presets import space
from quell.runs import archive
from quell.runs.files import LARGE, read_json, write_atomically
from quell.runs.folder import folder_name
from quell.runs.record import read
from quell.training import settings_file
from quell.training.methods import make_config

FIRST_SEED = 100
MORE_SEEDS = 3
SEARCHES = "searches.json"
"""Beside the records: what every search of a method came to."""
KEPT = 4  # one in so many goes on to more seeds, where none was given up before
THIRD = 3  # one in so many goes on to a budget that is so many times larger

Run = Callable[[Sequence[Job]], Any]
"""Does jobs."""


@dataclass(frozen=True)
class Search:
    """What is searched, and where its records go."""

    label: ClassVar[str] = "trial"
    tasks: tuple[str, ...]
    method: str
    trials: int
    steps: int
    out: Path
    runs: Path
    episodes: int = 10
    halving: bool = False

    def settings(self) -> list[dict[str, Any]]:
        """Of every trial, in order; the first has none, which means those in use."""
        values_of = self.space
        if self.trials > (most := 1 + math.prod(map(len, values_of.values()))):
            raise UsageError(f"`trials={self.trials}`: method {self.method!r} has only {most} settings to try")
        rng, distinct = np.random.default_rng(0), dict[tuple[Any, ...], None]()
        while len(distinct) < self.trials - 1:
            distinct[tuple((name, values[rng.integers(len(values))]) for name, values in values_of.items())] = None
        return [{}, *map(dict, distinct)]

    @property
    def space(self) -> Mapping[str, Any]:
        """What is varied, and the values that are tried."""
        if not (found := space(self.method)):
            raise UsageError(f"method {self.method!r} has nothing to tune")
        return found

    @property
    def folder(self) -> Path:
        return self.out / self.method

    @property
    def rungs(self) -> tuple[int, ...]:
        """Budgets, the whole one last."""
        return tuple(max(1, self.steps // share) for share in (THIRD**2, THIRD, 1)) if self.halving else (self.steps,)

    def job(self, trial: int, task: str, seed: int, steps: int | None = None) -> Job:
        budget = steps or self.steps
        config = make_config(task, self.method, "tuned", {"seed": seed, "steps": budget, "eval_every": 0})
        config = replace(config, self.settings()[trial], lenient=True).validate()  # what a task's preset reads of them
        name = f"{self.label}{trial:02d}" + ("" if budget == self.steps else f"-of-{budget}-steps")
        record = archive.loose(self.folder, f"{folder_name(task)}-{name}-{seed}")
        return Job(config, self.runs / name, record, self.episodes, name)

    def stage(self, trials: Sequence[int], seeds: Sequence[int], steps: int) -> list[Job]:
        return [self.job(trial, task, seed, steps) for trial in trials for seed in seeds for task in self.tasks]

    def score(self, trial: int, task: str, seeds: Sequence[int], steps: int | None = None) -> float:
        """Mean return of the final policy's mean actions over the seeds that ended; the worst there is if none did."""
        jobs = [self.job(trial, task, seed, steps) for seed in seeds]
        scores = [read(job.record).return_mean_action for job in jobs if job.done]
        return float(np.mean(scores)) if scores else -math.inf

    def ranked(self, trials: Sequence[int], seeds: Sequence[int], steps: int | None = None) -> list[int]:
        """Trials, best first, by their mean rank over the tasks."""
        ranks = np.zeros(len(trials))
        for task in self.tasks:
            scores = np.array([self.score(trial, task, seeds, steps) for trial in trials])
            ranks += np.argsort(np.argsort(-np.nan_to_num(scores, nan=-np.inf), kind="stable"), kind="stable")
        return [trials[i] for i in np.argsort(ranks, kind="stable")]

    def first(self, run: Run) -> list[int]:
        """Step 2: every trial with the first seed. Those that had the whole budget, best first."""
        left: Sequence[int] = range(self.trials)
        for steps in self.rungs:
            self.do(run, self.stage(left, [FIRST_SEED], steps))
            left = self.ranked(left, [FIRST_SEED], steps)
            left = left if steps == self.steps else left[: max(2, len(left) // THIRD)]
        return list(left)

    def do(self, run: Run, jobs: Sequence[Job]) -> None:
        """What of the jobs is not done yet."""
        if due := [job for job in jobs if not job.done]:
            run(due)

    @property
    def finalists(self) -> int:
        """How many are trained with more seeds."""
        return 2 if self.halving else max(2, self.trials // KEPT)

    def conclude(self, finalists: Sequence[int]) -> dict[str, Any]:
        """The table of all trials, written beside the records; the first row is the best."""
        seeds = list(range(FIRST_SEED, FIRST_SEED + 1 + MORE_SEEDS))
        order = self.ranked(finalists, seeds)
        listed = [(trial, self.steps) for trial in order]
        others = [trial for trial in range(len(self.settings())) if trial not in order]
        for steps in reversed(self.rungs):
            there = [one for one in others if all(job.done for job in self.stage([one], [FIRST_SEED], steps))]
            listed += [(trial, steps) for trial in self.ranked(there, [FIRST_SEED], steps)]
            others = [one for one in others if one not in there]
        table = {
            "method": self.method,
            "tasks": list(self.tasks),
            "steps": self.steps,
            "best": self.settings()[order[0]],
            "trials": [self._row(one, seeds if one in order else [FIRST_SEED], steps) for one, steps in listed],
        }
        path = self.folder / SEARCHES
        earlier = read_json(path, LARGE) if path.exists() else {}
        write_atomically(path, (json.dumps({**earlier, self.name: table}, indent=1) + "\n").encode())
        self._write_preset(order[0])
        return table

    @property
    def name(self) -> str:
        return "+".join(map(folder_name, self.tasks))

    @property
    def preset(self) -> Path:
        """What `train --config` reads."""
        return self.folder / f"{self.name}.toml"

    def _write_preset(self, best: int) -> None:
        known = flatten(self.job(best, self.tasks[0], FIRST_SEED).config)
        chosen = {name: value for name, value in self.settings()[best].items() if full_name(name, known)}
        about: dict[str, Any] = {"task": self.tasks[0]} if len(self.tasks) == 1 else {}
        comment = f"Found by quell tune on {', '.join(self.tasks)}: {self.trials} trials of {self.steps:,} steps."
        settings_file.write(self.preset, {**about, "method": self.method, **chosen}, comment)

    def _row(self, trial: int, seeds: Sequence[int], steps: int) -> dict[str, Any]:
        known = flatten(self.job(trial, self.tasks[0], FIRST_SEED).config)
        done = [sum(self.job(trial, task, seed, steps).done for seed in seeds) for task in self.tasks]
        return {
            "trial": trial,
            "settings": {name: known[name] for name in self.space if name in known},
            "seeds": min(done),
            "scores": {task: round(self.score(trial, task, seeds, steps), 3) for task in self.tasks},
            **({} if steps == self.steps else {"steps": steps}),
        }


def search(wanted: Search, run: Run) -> Mapping[str, Any]:
    """All of it, with `run` doing the jobs that are not done yet."""
    finalists = wanted.first(run)[: wanted.finalists]
    seeds = range(FIRST_SEED + 1, FIRST_SEED + 1 + MORE_SEEDS)
    wanted.do(run, wanted.stage(finalists, seeds, wanted.steps))
    return wanted.conclude(finalists)
