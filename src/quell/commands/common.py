"""What several commands print."""

import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from quell import zoo
from quell.api import Checkpoint, Result, load
from quell.commands.arguments import UNSET
from quell.commands.settings import own_task
from quell.errors import shown
from quell.runs import Run
from quell.runs.find import newest
from quell.runs.record import variance_ratio
from quell.training.methods import falls_back


def find_run(path: Path | str) -> Path:
    """The run that was meant: a folder, the newest run below one (and says which), or `zoo:NAME`."""
    folder = zoo.located(path)
    run, count = newest(folder)
    if run != folder:
        print(f"the newest of {count} run{'s' * (count > 1)} in {path}: {run}", file=sys.stderr)
    return run


@dataclass(frozen=True)
class OfRun:
    """Flags of commands that act with a run's policy."""

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """A run folder, a folder with runs (then the newest), or zoo:NAME."""
    checkpoint: Checkpoint = "newest"
    """Whose policy: the newest, or that of the best evaluation so far."""
    at: Annotated[int | None, UNSET] = None
    """As of this iteration: from the newest checkpoint up to it."""
    trust_import: Annotated[str | None, UNSET] = None
    """module:function that makes the environment, if it is your own; the module is imported."""

    def load(self) -> Result:
        run = find_run(self.run)
        env = own_task(self.trust_import, Run.open(run).config.horizon)
        return load(run, at=self.at, checkpoint=self.checkpoint, env=env)


def described(result: Result) -> str:
    """Whose policy it is, in words."""
    return f"{result.config.task}  {result.config.method}  {result.checkpoint} policy, of iteration {result.iteration}"


def report(result: Result) -> int:
    """A finished run in a few lines, or how to go on with one that was asked to stop; the exit code."""
    if not result.finished:
        print(f"stopped after {result.steps:,} steps; saved. Continue with:", file=sys.stderr)
        print(f"  quell resume {shown(result.path)}", file=sys.stderr)
        return 128 + (result.signal or signal.SIGINT)
    config = result.config
    print(f"{config.task}  {config.method}  seed {config.seed}: {result.steps:,} steps, {result.iteration} iterations")
    for label, name, how in (("return", "eval/return", "actions sampled"), ("", "eval/mean_action", "mean action")):
        print(f"  {label:<6}  {_score(result.last(name), result.last(f'{name}_std'))}  ({how})")
    for best in [row for row in result.history if row.get("eval/mean_action") == result.best][-1:]:
        older = best["iteration"] < result.iteration
        whose = f"iteration {best['iteration']}; `--checkpoint best` to use it" if older else "the newest"
        print(f"    best  {_score(result.best, best['eval/mean_action_std'])}  (mean action, {whose})")
    if result.steps < config.steps:
        print(f"  stopped early: the target of {config.target:g} is reached")
    if result.history and all(row.get("trouble/flat") for row in result.history):
        value = result.history[-1]["return/mean"]
        print(f"  every episode returned {value:g}: no reward was seen, so there was nothing to learn from")
    elif falls_back(config):
        print("  plain ES: policy gradients overflow on this task, and no control variate is made of them")
    elif config.method == "cv" and (ratio := variance_ratio(result.history)) is not None:
        print(f"  gradient variance  {ratio:.3f} of plain ES")
    if result.history and (trouble := result.history[-1]["trouble/total"]):
        print(f"  trouble in {trouble:.0f} iterations (see trouble/* in metrics.jsonl)")
    for note in result.task.notes():
        print(f"  {note}")
    print(f"  run folder  {shown(result.path)}")
    return 0


def _score(value: float, spread: float) -> str:
    return f"{value:10.1f} ± {spread:.1f}" if abs(value) < 1e7 else f"{value:10.3g} ± {spread:.3g}"
