"""What several commands print."""

from __future__ import annotations

import sys

from quell.api import Result
from quell.methods import make_task


def report(result: Result) -> int:
    """A finished run in a few lines."""
    config = result.config
    print(f"{config.task}  {config.method}  seed {config.seed}: {result.steps:,} steps, {result.iteration} iterations")
    print(f"  return  {_eval(result, 'eval/return')}  (actions sampled)")
    print(f"          {_eval(result, 'eval/mean_action')}  (mean action)")
    es = [row["variance/es"] for row in result.history if row.get("variance/es") is not None]
    own = [row["variance/method"] for row in result.history if row.get("variance/es") is not None]
    if es and config.method == "cv":
        print(f"  gradient variance  {sum(own) / sum(es):.3f} of plain ES")
    if result.history and (trouble := result.history[-1]["trouble/total"]):
        print(f"  trouble in {trouble:.0f} iterations (see trouble/* in metrics.jsonl)")
    for note in make_task(config).notes():
        print(f"  {note}")
    print(f"  run folder  {result.path}")
    return 0


def stopped(result: Result) -> int:
    """A run that was asked to stop: how to go on."""
    print(f"stopped after {result.steps:,} steps; saved. Continue with:\n  quell resume {result.path}", file=sys.stderr)
    return 130


def _eval(result: Result, name: str) -> str:
    return f"{result.last(name):10.1f} ± {result.last(f'{name}_std'):.1f}"
