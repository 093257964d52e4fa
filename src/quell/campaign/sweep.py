"""One task and method with many settings and seeds, and how they did.

Runs are named after the settings that vary: a grid that grows later finds its earlier runs done.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from quell import registry
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
        if not text:
            raise UsageError(f"a grid is given as setting=value,value, not {word!r}")
        name = _varied(short.replace("-", "_"), config)
        grid[name] = [parse_value(value, name) for value in re.split(r",(?![^\[]*\])", text)]
    return _limited(grid)


def trials(grid: Mapping[str, Sequence[Any]], random: int | None = None) -> list[dict[str, Any]]:
    """Every combination, or `random` of them, drawn without repetition and always the same ones."""
    every = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    if random is None or random >= len(every):
        return every
    return [every[i] for i in np.random.default_rng(0).permutation(len(every))[:random]]


def full_grid(grid: Mapping[str, Sequence[Any]], config: Config) -> dict[str, list[Any]]:
    """A grid in Python: the same with full names, looked at as one that is typed."""
    found: dict[str, list[Any]] = {}
    for short, values in grid.items():
        if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray) or not len(values):
            raise UsageError(f"a grid has a list of values for every setting, not {short}={values!r:.80}")
        found[_varied(short, config)] = registry.tidy(list(values))
    return _limited(found)


def _varied(name: str, config: Config) -> str:
    """The full name of a setting that may vary."""
    full = full_name(name, list(flatten(config)))
    if full is None:
        raise Unread(config, name, ())
    if full == "seed":
        raise UsageError("seeds are not part of the grid: `seeds=5` runs five of every combination, from `seed=...` up")
    return full


def _limited(grid: dict[str, list[Any]]) -> dict[str, list[Any]]:
    if math.prod(map(len, grid.values())) > MOST_RUNS:
        raise UsageError(
            f"this grid has more than {MOST_RUNS:,} combinations; `random=...` draws some of a smaller one"
        )
    return grid


@dataclass(frozen=True)
class Trial:
    """What became of one combination of settings."""

    settings: dict[str, Any]
    seeds: list[int]
    """Of the runs that ended."""
    returns: list[float]
    """Mean returns of their final policies, acting with mean actions, on fresh episodes."""

    @property
    def mean(self) -> float:
        return float(np.mean(self.returns)) if self.returns else math.nan


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
        late = (config.delay, config.frame_skip) != (self.config.delay, self.config.frame_skip)
        if late and config.train_horizon and "train_horizon" not in trial:
            cut = f"episodes of training are cut after {config.train_horizon} steps, where late rewards would be paid"
            raise UsageError(f"a sweep of `delay` or `frame_skip` while {cut}: add `train_horizon=0`")
        label = re.sub(r"[^A-Za-z0-9=.,_+-]", "", ",".join(f"{name}={value}" for name, value in trial.items()))[:150]
        name = "-".join(filter(None, (folder_name(config.task), config.method, label, str(seed))))
        record = archive.loose(self.out, name)
        return Job(config, self.out / "runs" / label, record, self.episodes, label, self.engine, self.trust)

    def rows(self) -> tuple[list[str], list[list[str]]]:
        """A table, best first: settings, mean ± std over seeds, interval of the mean, lowest and highest seed."""
        names = list(self.trials[0])
        return [*names, "return", "95% interval", "lowest", "highest", "seeds"], [
            [*(str(one.settings[name]) for name in names), *_cells(one.returns), f"{len(one.returns)}"]
            for one in self.ended()
        ]

    def ended(self) -> list[Trial]:
        """What there is of each trial, best first."""
        found = []
        for trial in self.trials:
            jobs = [job for job in (self.job(trial, seed) for seed in self._numbers) if job.done]
            values = zip(jobs, scores([read(job.record) for job in jobs]), strict=True)
            known = {job.config.seed: value for job, value in values if math.isfinite(value)}
            found.append(Trial(dict(trial), list(known), list(known.values())))
        return sorted(found, key=lambda one: -one.mean if one.returns else math.inf)


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
