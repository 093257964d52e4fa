"""quell eval RUN: play many episodes with a run's policy."""

import json
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from quell.api import evaluate
from quell.commands.arguments import UNSET, parse
from quell.commands.common import OfRun, acted, described
from quell.commands.settings import own_strategy
from quell.stats import spread
from quell.terminal.streams import tell


@dataclass(frozen=True)
class Arguments(OfRun):
    """Play episodes with RUN's policy, unperturbed, with new random numbers, and report the undiscounted returns."""

    env: Annotated[str | None, UNSET] = None
    """Where to play, if not where it was trained: a task's name."""
    episodes: int = 100
    """Number of episodes."""
    sample: bool = False
    """Sample actions instead of taking the mean (most likely) one."""
    seed: int = 0
    """Random seed of the episodes."""
    workers: Annotated[int | None, UNSET] = None
    """Worker processes, by default one per core. Results do not depend on it."""
    engine: str = "cpu"
    """Where the episodes run: cpu, device, ray, or my_module:MyEngine."""
    json: bool = False
    """Print JSON, with every return."""


def main(arguments: list[str]) -> int:
    parsed = parse(Arguments, arguments, prog="quell eval")
    result = parsed.load()
    asked = {name: getattr(parsed, name) for name in ("env", "episodes", "seed", "workers")}
    asked["engine"] = own_strategy(parsed.engine, "engine")
    rollouts = evaluate(result, mean_action=not parsed.sample, **asked)
    returns, actions = rollouts.returns, acted(sample=parsed.sample)
    if parsed.json:
        lists = {"returns": returns.tolist(), "steps": rollouts.steps.tolist()}
        facts = {"checkpoint": result.checkpoint, "iteration": result.iteration, "actions": actions}
        tell(json.dumps({**facts, **lists}))
        return 0
    within, error = "", ""
    if len(returns) > 1:
        within = f" ± {spread(returns):.2f}"
        error = f"; standard error of the mean {spread(returns, ddof=1) / np.sqrt(len(returns)):.2f}"
    where = f" on {parsed.env}" if parsed.env else ""
    tell(f"{described(result)}, {len(returns)} episode{'s' * (len(returns) > 1)}{where}")
    tell(f"  return  {returns.mean():.2f}{within}  ({actions}{error})")
    tell(f"  lowest {returns.min():.2f}, highest {returns.max():.2f}; mean length {rollouts.steps.mean():.1f} steps")
    for note in () if parsed.env else result.task.notes():
        tell(f"  {note}")
    return 0
