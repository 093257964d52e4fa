"""Trained policies that come with quell: `quell play zoo:hopper`, `quell.load("zoo:hopper")`.

Each is a run folder with one checkpoint, of which only the policy is kept (theta, and what observations are normalised
by), and score.json: returns of fresh episodes. It is read as every run folder is: nothing is unpickled, hashes are
checked. `quell export RUN --zoo NAME` makes one.
"""

import json
import shutil
from pathlib import Path
from typing import Any

from quell.errors import UsageError, did_you_mean, shown
from quell.runs.files import MALFORMED, is_number, read_json
from quell.runs.folder import folder_name

HOME = Path(__file__).parent
PREFIX = "zoo:"
SCORE = "score.json"


def names() -> list[str]:
    """The names of all policies there are."""
    return sorted(path.parent.name for path in HOME.glob(f"*/{SCORE}"))


def located(path: Path | str) -> Path:
    """A run's folder: that of a policy (`zoo:NAME`), or the path itself."""
    text = str(path)
    if not text.startswith(PREFIX):
        return Path(path)
    name = folder_name(text.removeprefix(PREFIX))
    if name not in names():
        known = ", ".join(names()) or "none yet"
        raise UsageError(f"the zoo has no {name!r}{did_you_mean(name, names())}; there are: {known}")
    return HOME / name


def score(name: str) -> dict[str, Any]:
    """What score.json holds: mean and std of the returns with mean actions, and all of them."""
    path = HOME / name / SCORE
    try:
        facts: dict[str, Any] = read_json(path)
        numbers = [facts["mean"], facts["std"], facts["steps"], *facts["returns"]]
    except MALFORMED as error:
        raise UsageError(f"{shown(path)!r} cannot be read: {error}") from None
    if not all(map(is_number, numbers)):
        raise UsageError(f"{shown(path)!r} has values that are not numbers")
    return facts


def add(name: str, result: Any, returns: list[float]) -> Path:
    """Keep the policy of a result, with the returns of fresh episodes of its mean actions; replaces an older one."""
    from quell import stats
    from quell.config import check_run_name, to_dict
    from quell.runs import Run, checkpoint
    from quell.runs.files import write_atomically
    from quell.types import ObsStats

    folder = HOME / check_run_name(name)
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    seen = result.policy.obs_stats or ObsStats.empty(result.policy.policy.obs_size)
    arrays = {"theta": result.theta, "obs.total": seen.total, "obs.squares": seen.squares}
    facts = {"iteration": result.iteration, "steps": result.steps, "obs_count": seen.count}
    Run(folder).update_config(result.config)
    checkpoint.save(folder / "checkpoints", result.iteration, arrays, {**facts, "config": to_dict(result.config)}, 1)
    scores = {"mean": round(stats.mean(returns), 3), "std": round(stats.spread(returns), 3)}
    numbers = {**scores, "returns": [round(value, 3) for value in returns]}
    write_atomically(folder / SCORE, json.dumps({**numbers, "steps": result.steps}).encode() + b"\n")
    return folder
