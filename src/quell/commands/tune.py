"""quell tune TASK ...: search for a method's settings by a documented protocol."""

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from quell.campaign.plan import Job
from quell.campaign.runner import CHILD, Runner
from quell.campaign.tpe import Pruner, TpeSearch
from quell.campaign.tune import FIRST_SEED, Search, search
from quell.commands.arguments import UNSET, parse
from quell.config import check_out
from quell.errors import UsageError
from quell.presets import DEFAULT, method_name
from quell.registry import SIZE
from quell.rollout import check_processes
from quell.terminal.campaign import CampaignDisplay
from quell.terminal.streams import say, tell
from quell.threads import cores

DESCRIPTION = """Search for a method's main settings, on seeds from 100 up, which no result is reported on: every trial
once, the best of them with three more seeds. Trials are drawn at random, or learn from each other (--sampler tpe);
most are stopped after a ninth or a third of the budget (--pruner halving). Several tasks get the same settings,
judged by mean rank. Finished runs are not repeated: the same command continues where it stopped. Records and
a table go to OUT/METHOD, with the best settings as a file for `quell train --config`."""


@dataclass(frozen=True)
class Arguments:
    tasks: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="TASK [TASK ...]")]
    """The task, or several that are to share their settings."""
    method: str = DEFAULT
    """`quell list methods` lists the names."""
    trials: Annotated[int, SIZE] = 16
    """How many settings to try; the first are those in use."""
    steps: Annotated[int, SIZE] = 1_000_000
    """Environment steps of a whole run: the budget that results are reported for."""
    sampler: Literal["random", "tpe"] = "random"
    """How settings are drawn: at random from a grid, or by Optuna's tree-structured Parzen estimator (extra tune)."""
    pruner: Pruner = "halving"
    """Which trials get the whole budget: the best third after a ninth and again after a third of it (halving), those no
    worse than the median so far (median, with tpe), or all (none)."""
    episodes: Annotated[int, SIZE] = 10
    """Episodes of each final evaluation."""
    jobs: Annotated[int | None, SIZE, UNSET] = None
    """Runs at a time; by default one per core."""
    out: Path = Path("results/tuning")
    """Where records and tables go."""
    runs: Path = Path("runs/tuning")
    """Where run folders go."""


def main(arguments: list[str]) -> int:
    parsed = parse(Arguments, arguments, prog="quell tune", description=DESCRIPTION)
    if not parsed.tasks:
        raise UsageError("which task? `quell tune TASK [TASK ...]`; `quell list tasks` lists them")
    count = parsed.jobs or cores()
    wanted = _search(parsed, method_name(parsed.method), count)
    check_processes("jobs", count, CHILD)
    check_out(parsed.out)
    check_out(parsed.runs, "runs")
    table = search(wanted, lambda jobs: _train(jobs, count))
    for row in table["trials"]:
        scores = "  ".join(f"{task} {score:.4g}" for task, score in row["scores"].items())
        settings = " ".join(f"{name}={value}" for name, value in row["settings"].items())
        cut = f"  after {row['steps']:,} steps" if "steps" in row else ""
        tell(f"trial {row['trial']:>2}  seeds {row['seeds']}  {scores}{cut}  {settings}")
    tell("best: " + (" ".join(f"--{name} {value}" for name, value in table["best"].items()) or "what is in use"))
    task = parsed.tasks[0] if len(parsed.tasks) == 1 else "TASK"
    tell(f"train with it: quell train {task} --config {shlex.quote(str(wanted.preset))}")
    return 0


def _search(parsed: Arguments, method: str, count: int) -> Search:
    """What is asked for; complains before the first run."""
    place: dict[str, Any] = {"out": parsed.out, "runs": parsed.runs / method, "episodes": parsed.episodes}
    halving = parsed.pruner != "none"
    if parsed.sampler == "tpe":
        place |= {"pruner": parsed.pruner, "together": count, "halving": halving}
        learning = TpeSearch(parsed.tasks, method, parsed.trials, parsed.steps, **place)
        learning.distributions()
        return learning
    if parsed.pruner == "median":
        raise UsageError(
            "--pruner median compares with earlier trials, but these run all at once: give --sampler tpe too"
        )
    wanted = Search(parsed.tasks, method, parsed.trials, parsed.steps, halving=halving, **place)
    wanted.stage(range(wanted.trials), [FIRST_SEED], wanted.steps)
    return wanted


def _train(jobs: Sequence[Job], count: int) -> None:
    """Do the jobs of one stage; a signal ends the search here."""
    runner = Runner(count, CampaignDisplay({job.title: 1.0 for job in jobs}))
    if (code := runner.exit_code(runner.run(jobs))) > 128:
        say("stopped; the same command continues")
        sys.exit(code)
