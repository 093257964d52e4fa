"""Settings by a stated protocol: random search on seeds that no result is reported on.

1. `trials` settings are drawn from the method's space, the first being the present ones; each is trained once on every
   task, with seed 100.
2. The best quarter is trained with three more seeds, 101 to 103.
3. The best of those, over all four seeds, is what the search says.

Several tasks are a family that shares its settings: a trial's score is then its mean rank over the tasks. Every run is
a job of a campaign, so a search can be stopped and continued, and all its records are kept.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from quell.campaign.plan import Job
from quell.config import flatten, replace
from quell.errors import UsageError
from quell.presets import space
from quell.runs import archive
from quell.runs.files import LARGE, read_json, write_atomically
from quell.runs.folder import folder_name
from quell.runs.record import read
from quell.training.methods import make_config

FIRST_SEED = 100
MORE_SEEDS = 3
SEARCHES = "searches.json"
"""Beside the records: what every search of a method came to."""
KEPT = 4  # one in so many goes on to the second stage


@dataclass(frozen=True)
class Search:
    """What is searched, and where its records go."""

    tasks: tuple[str, ...]
    method: str
    trials: int
    steps: int
    out: Path
    runs: Path
    episodes: int = 10

    def settings(self) -> list[dict[str, Any]]:
        """Of every trial, in order; the first has none, which means those in use."""
        values_of = space(self.method)
        if not values_of:
            raise UsageError(f"method {self.method!r} has nothing to tune")
        if self.trials > (most := 1 + math.prod(map(len, values_of.values()))):
            raise UsageError(f"`trials={self.trials}`: method {self.method!r} has {most} settings to try, no more")
        rng, distinct = np.random.default_rng(0), dict[tuple[Any, ...], None]()
        while len(distinct) < self.trials - 1:
            distinct[tuple((name, values[rng.integers(len(values))]) for name, values in values_of.items())] = None
        return [{}, *map(dict, distinct)]

    @property
    def folder(self) -> Path:
        return self.out / self.method

    def job(self, trial: int, task: str, seed: int) -> Job:
        config = make_config(task, self.method, "tuned", {"seed": seed, "steps": self.steps, "eval_every": 0})
        config = replace(config, self.settings()[trial], lenient=True).validate()  # what a task's preset reads of them
        record = archive.loose(self.folder, f"{folder_name(task)}-trial{trial:02d}-{seed}")
        return Job(config, self.runs / f"trial{trial:02d}", record, self.episodes, f"trial{trial:02d}")

    def first_stage(self) -> list[Job]:
        return [self.job(trial, task, FIRST_SEED) for trial in range(self.trials) for task in self.tasks]

    def second_stage(self) -> list[Job]:
        """More seeds for the best quarter of the first."""
        best = self.ranked(range(self.trials), [FIRST_SEED])[: max(2, self.trials // KEPT)]
        seeds = range(FIRST_SEED + 1, FIRST_SEED + 1 + MORE_SEEDS)
        return [self.job(trial, task, seed) for trial in best for seed in seeds for task in self.tasks]

    def score(self, trial: int, task: str, seeds: Sequence[int]) -> float:
        """Mean return of the final policy's mean actions over the seeds that ended; the worst there is if none did."""
        jobs = [self.job(trial, task, seed) for seed in seeds]
        scores = [read(job.record).return_mean_action for job in jobs if job.done]
        return float(np.mean(scores)) if scores else -math.inf

    def ranked(self, trials: Sequence[int], seeds: Sequence[int]) -> list[int]:
        """Trials, best first, by their mean rank over the tasks."""
        ranks = np.zeros(len(trials))
        for task in self.tasks:
            scores = np.array([self.score(trial, task, seeds) for trial in trials])
            ranks += np.argsort(np.argsort(-np.nan_to_num(scores, nan=-np.inf), kind="stable"), kind="stable")
        return [trials[i] for i in np.argsort(ranks, kind="stable")]

    def conclude(self) -> dict[str, Any]:
        """The table of all trials, written beside the records; the first row is the best."""
        first = self.ranked(range(self.trials), [FIRST_SEED])
        finalists = first[: max(2, self.trials // KEPT)]
        seeds = list(range(FIRST_SEED, FIRST_SEED + 1 + MORE_SEEDS))
        order = self.ranked(finalists, seeds)
        listed = [*order, *(trial for trial in first if trial not in order)]
        table = {
            "method": self.method,
            "tasks": list(self.tasks),
            "steps": self.steps,
            "best": self.settings()[order[0]],
            "trials": [self._row(trial, seeds if trial in finalists else [FIRST_SEED]) for trial in listed],
        }
        path, name = self.folder / SEARCHES, "+".join(map(folder_name, self.tasks))
        earlier = read_json(path, LARGE) if path.exists() else {}
        write_atomically(path, (json.dumps({**earlier, name: table}, indent=1) + "\n").encode())
        return table

    def _row(self, trial: int, seeds: Sequence[int]) -> dict[str, Any]:
        known = flatten(read(self.job(trial, self.tasks[0], FIRST_SEED).record).config)
        return {
            "trial": trial,
            "settings": {name: known[name] for name in space(self.method) if name in known},
            "seeds": min(sum(self.job(trial, task, seed).done for seed in seeds) for task in self.tasks),
            "scores": {task: round(self.score(trial, task, seeds), 3) for task in self.tasks},
        }


def search(wanted: Search, run: Callable[[Sequence[Job]], Any]) -> Mapping[str, Any]:
    """Both stages, with `run` doing the jobs that are not done yet."""
    for stage in (wanted.first_stage, wanted.second_stage):
        due = [job for job in stage() if not job.done]
        if due:
            run(due)
    return wanted.conclude()
