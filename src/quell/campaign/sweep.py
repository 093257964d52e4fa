"""One task and method with many settings and seeds, and how they did.

Runs are told apart by what varies: a grid that grows later finds its earlier runs done.
"""

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from quell.campaign.benchmark import scores
from quell.campaign.plan import MOST_RUNS, Job, check_number
from quell.config import Config, Unread, flatten, full_name, parse_value, replace
from quell.errors import UsageError
from quell.runs import archive
from quell.runs.folder import folder_name
from quell.runs.record import read
from quell.stats import mean_std, t_interval
from quell.terminal.numbers import score


def parse_grid(words: Sequence[str], config: Config) -> dict[str, list[Any]]:
    """`lr=0.01,0.03 policy.hidden=[8],[32,32]` as full names and values."""
    grid: dict[str, list[Any]] = {}
    for word in words:
        short, _, text = word.partition("=")
        known = list(flatten(config))
        name = full_name(short.replace("-", "_"), known)
        if not text:
            raise UsageError(f"a grid is given as setting=value,value, not {word!r}")
        if name is None:
            raise Unread(config, short.replace("-", "_"), ())
        if name == "seed":
            raise UsageError("seeds are not part of the grid: --seeds 5 runs five of every combination, from --seed up")
        grid[name] = [parse_value(value, name) for value in re.split(r",(?![^\[]*\])", text)]
    if math.prod(map(len, grid.values())) > MOST_RUNS:
        raise UsageError(f"this grid has more than {MOST_RUNS:,} combinations; --random draws some of a smaller one")
    return grid


def trials(grid: Mapping[str, Sequence[Any]], random: int | None = None) -> list[dict[str, Any]]:
    """Every combination, or `random` of them, drawn without repetition and always the same ones."""
    every = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    if random is None or random >= len(every):
        return every
    return [every[i] for i in np.random.default_rng(0).permutation(len(every))[:random]]


@dataclass(frozen=True)
class Sweep:
    """What is run, and where it goes."""

    config: Config
    trials: Sequence[Mapping[str, Any]]
    seeds: int
    """How many, from the config's own up."""
    episodes: int
    out: Path
    trust: str = ""
    """module:function that makes the environment, if it is the user's own."""
    engine: str = "cpu"
    """By name: where the runs' episodes run."""

    def jobs(self) -> list[Job]:
        """Seed by seed, so that what is done early covers all settings."""
        check_number(self.seeds * len(self.trials), "seeds", self.seeds)
        return [self.job(trial, seed) for seed in self._numbers for trial in self.trials]

    @property
    def _numbers(self) -> range:
        return range(self.config.seed, self.config.seed + self.seeds)

    def job(self, trial: Mapping[str, Any], seed: int) -> Job:
        config = replace(self.config, {**trial, "seed": seed}).validate()
        label = re.sub(r"[^A-Za-z0-9=.,_+-]", "", ",".join(f"{name}={value}" for name, value in trial.items()))[:150]
        name = "-".join(filter(None, (folder_name(config.task), config.method, label, str(seed))))
        record = archive.loose(self.out, name)
        return Job(config, self.out / "runs" / label, record, self.episodes, label, self.engine, self.trust)

    def rows(self) -> tuple[list[str], list[list[str]]]:
        """A table, best first: settings, mean ± std over seeds, interval of the mean, lowest and highest seed."""
        names = list(self.trials[0])
        found = []
        for trial in self.trials:
            jobs = [self.job(trial, seed) for seed in self._numbers]
            ended = scores([read(job.record) for job in jobs if job.done])
            found.append((trial, [value for value in ended if math.isfinite(value)]))
        found.sort(key=lambda item: -float(np.mean(item[1])) if item[1] else math.inf)
        return [*names, "return", "95% interval", "lowest", "highest", "seeds"], [
            [*(str(trial[name]) for name in names), *_cells(values), f"{len(values)}"] for trial, values in found
        ]


def _cells(values: Sequence[float]) -> list[str]:
    if not values:
        return ["none ended", "", "", ""]
    ends = [score(min(values)), score(max(values))]
    if len(values) == 1:
        return [score(values[0]), "one seed", *ends]
    found, interval = mean_std(values), t_interval(values)
    return [
        f"{score(found.mean)} ± {score(found.std)}",
        f"{score(interval.low)} to {score(interval.high)}",
        *ends,
    ]
