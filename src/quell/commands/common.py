"""What several commands print."""

import math
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from quell import zoo
from quell.api import Checkpoint, Result, load
from quell.commands.arguments import UNSET
from quell.commands.settings import own_task
from quell.errors import resuming, shown
from quell.runs import Run
from quell.runs.find import newest
from quell.runs.record import comparable, known, variance_ratio
from quell.terminal.streams import say, tell


def find_run(path: Path | str) -> Path:
    """The run that was meant: a folder, the newest run below one (and says which), or `zoo:NAME`."""
    folder = zoo.located(path)
    run, count = newest(folder)
    if run != folder:
        say(f"the newest of {count} run{'s' * (count > 1)} in {path}: {run}")
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
    trust_files: bool = False
    """Open the files that settings of the run's task name: you know where the folder is from."""

    def load(self) -> Result:
        run = find_run(self.run)
        env = own_task(self.trust_import, Run.open(run).config.horizon)
        result = load(run, at=self.at, checkpoint=self.checkpoint, env=env, trust_files=self.trust_files)
        if self.at is not None and self.checkpoint == "newest" and result.iteration < self.at:
            say(f"iteration {self.at} has no checkpoint: this is the newest before it, of iteration {result.iteration}")
        return result


def described(result: Result) -> str:
    """Whose policy it is, in words."""
    config = result.config
    return f"{config.task}  {config.combination}  {result.checkpoint} policy, of iteration {result.iteration}"


def acted(*, sample: bool) -> str:
    """How actions were taken, beside every return."""
    return "actions sampled" if sample else "mean action"


def report(result: Result) -> int:
    """A finished run in a few lines, or how to go on with one that was asked to stop; the exit code."""
    if not result.finished:
        say(f"stopped after {result.steps:,} steps; saved. Continue with:")
        say(f"  {resuming(result.path, result.config.task)}")
        return 128 + (result.signal or signal.SIGINT)
    config = result.config
    who = f"{config.task}  {config.combination}  seed {config.seed}"
    tell(f"{who}: {result.steps:,} steps, {_iterations(result.iteration)}")
    for label, name, sample in (("return", "eval/mean_action", False), ("", "eval/return", True)):
        tell(f"  {label:<6}  {_score(result.last(name), result.last(f'{name}_std'))}  ({acted(sample=sample)})")
    for best in [row for row in result.history if row.get("eval/mean_action") == result.best][-1:]:
        older = best["iteration"] < result.iteration
        whose = f"iteration {best['iteration']}; `--checkpoint best` to use it" if older else "the newest"
        tell(f"    best  {_score(result.best, best.get('eval/mean_action_std'))}  (mean action, {whose})")
    if result.iteration == 1 and result.steps >= config.steps:
        tell(f"  a single iteration: --steps {config.steps:,} is no more than one batch takes")
    if result.steps < config.steps:
        tell(f"  stopped early: the target of {config.target:g} is reached")
    for line in (*_variance(result), *_flat(result.history), *_trouble(result.history), *result.task.notes()):
        tell(f"  {line}")
    tell(f"  run folder  {shown(result.path)}")
    return 0


def _variance(result: Result) -> Iterator[str]:
    """How noisy its gradients were beside plain ES's, unless they are those."""
    ratio = variance_ratio(result.history)
    if ratio is not None and result.config.method != "es":
        natural = comparable(result.history)[0].get("variance/in_step_metric")
        yield f"gradient variance  {ratio:.2g} of plain ES's" + (
            ", in the metric of the natural step" if natural else ""
        )


def _flat(history: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Iterations whose episodes all returned the same: at the end because a task is solved, or before any is found."""
    flat = known([row for row in history if row.get("trouble/flat")], "return/max")
    highest = max(known(history, "return/max"), default=math.inf)
    solved = flat.count(highest)
    if flat and len(flat) == len(history):
        yield f"every episode returned {flat[-1]:g}: no reward was seen, so there was nothing to learn from"
        return
    if solved:
        yield f"in {_iterations(solved)} every episode returned {highest:g}, the most of the run"
    if len(flat) > solved:
        unlearned = _iterations(len(flat) - solved)
        yield f"in {unlearned} every episode returned the same: nothing to learn from (trouble/flat)"


def _trouble(history: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if full := sum(count > 0 for count in known(history, "trouble/overflow")):
        yield f"in {_iterations(full)} contacts did not fit, and were left out of the physics: raise --contacts"
    if history and (count := history[-1].get("trouble/total")):
        yield f"trouble in {_iterations(count)} (see trouble/* in metrics.jsonl)"


def _iterations(count: float) -> str:
    return f"{count:,.0f} iteration{'s' * (count != 1)}"


def _score(value: float, spread: float | None) -> str:
    spread = math.nan if spread is None else spread
    return f"{value:10.1f} ± {spread:.1f}" if abs(value) < 1e7 else f"{value:10.3g} ± {spread:.3g}"
