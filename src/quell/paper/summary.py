"""What a finished run leaves behind: one small file, the same to the last byte however often the run was interrupted.

It holds the config, the versions, returns of fresh episodes of the final and of the untrained policy, and a thinned
curve. Times, machine and commit are in timings.jsonl beside the summaries.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quell.api import Result, TrainedPolicy, evaluate, load
from quell.checkpoint import write_atomically
from quell.config import Config, from_dict, to_dict
from quell.errors import QuellError, UsageError
from quell.keys import Purpose, generator
from quell.methods import make_policy, make_task
from quell.runs import versions

Array = NDArray[Any]
POINTS = 100
"""Points of a thinned curve."""


@dataclass(frozen=True)
class Summary:
    """A finished run."""

    config: Config
    versions: dict[str, Any]
    final: dict[str, list[float]]
    """Returns of the final policy: "sampled" actions, and "mean_action"."""
    untrained: list[float]
    """Returns of the policy the run started from, actions sampled."""
    curve: dict[str, list[float | None]]
    """iteration, steps, return (mean of the members), ratio (gradient variance, ES = 1), evaluation."""

    @property
    def score(self) -> float:
        """The run's final score: mean return of the final policy, as it acted in training."""
        return float(np.mean(self.final["sampled"]))

    @property
    def start(self) -> float:
        return float(np.mean(self.untrained))


def summarise(path: Path, episodes: int) -> Summary:
    """Play the final episodes of a finished run."""
    result = load(path)
    config = result.config
    final = {
        name: _returns(evaluate(result, episodes=episodes, mean_action=mean_action, workers=1).returns)
        for name, mean_action in (("sampled", False), ("mean_action", True))
    }
    start = _returns(evaluate(untrained(config, result), episodes=episodes, workers=1).returns)
    found = versions()
    stable = {"python": found["python"], "packages": found["packages"]}
    return Summary(config, stable, final, start, thin(result.history))


def untrained(config: Config, result: Result) -> Result:
    """The run's policy as it was before the first iteration."""
    policy = make_policy(config, make_task(config))
    theta = policy.init(generator(config.seed, Purpose.INIT))
    return Result(result.path, config, 0, 0, TrainedPolicy(policy, theta, None), [])


def thin(history: Sequence[Mapping[str, Any]], points: int = POINTS) -> dict[str, list[float | None]]:
    """A curve of at most `points` points: the mean over equal stretches of iterations; evaluations by their last."""
    stretches = [
        part for part in np.array_split(np.arange(len(history)), min(points, max(1, len(history)))) if len(part)
    ]
    curve: dict[str, list[float | None]] = {
        name: [] for name in ("iteration", "steps", "return", "ratio", "evaluation")
    }
    for part in stretches:
        rows = [history[i] for i in part]
        evaluations = [row["eval/return"] for row in rows if row.get("eval/return") is not None]
        curve["iteration"].append(rows[-1]["iteration"])
        curve["steps"].append(rows[-1]["steps"])
        curve["return"].append(_short(_mean(rows, "return/mean")))
        plain = _mean(rows, "variance/es")
        curve["ratio"].append(_short(_mean(rows, "variance/method") / plain if plain > 0 else math.nan))
        curve["evaluation"].append(_short(evaluations[-1] if evaluations else math.nan))
    return curve


def write(summary: Summary, path: Path) -> None:
    """As JSON with sorted keys."""
    facts = {
        "config": to_dict(summary.config),
        "versions": summary.versions,
        "final": summary.final,
        "untrained": summary.untrained,
        "curve": summary.curve,
    }
    parts = [f'"{name}": {json.dumps(value, sort_keys=True)}' for name, value in facts.items()]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, ("{\n" + ",\n".join(parts) + "\n}\n").encode())


def read(path: Path) -> Summary:
    """A summary; a UsageError if the file is none."""
    try:
        facts = json.loads(path.read_bytes())
        config = from_dict(facts["config"])
        return Summary(config, facts["versions"], facts["final"], facts["untrained"], facts["curve"])
    except (OSError, ValueError, KeyError, TypeError, QuellError) as error:
        raise UsageError(f"{str(path)!r} is not the summary of a run: {error}") from None


def read_group(group: Path) -> list[Summary]:
    """All summaries of a results folder, in the order of their names."""
    return [read(path) for path in sorted((group / "summaries").glob("*.json"))]


def _returns(values: Array) -> list[float]:
    return [float(f"{value:.6g}") for value in values]


def _mean(rows: Sequence[Mapping[str, Any]], name: str) -> float:
    values = [row[name] for row in rows if row.get(name) is not None]
    return float(np.mean(values)) if values else math.nan


def _short(value: float) -> float | None:
    return float(f"{value:.6g}") if math.isfinite(value) else None
