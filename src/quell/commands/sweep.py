"""quell sweep TASK --grid SETTING=VALUE,VALUE: many settings and seeds of one task and method; also `train --seeds`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from quell.api import engine_called
from quell.campaign.runner import Runner
from quell.campaign.sweep import Sweep, parse_grid, trials
from quell.commands.train import read_settings
from quell.config import Config, check_out, check_run_name
from quell.errors import UsageError
from quell.registry import SIZE, name_of
from quell.rollout import Compute
from quell.runs import archive
from quell.runs.folder import folder_name
from quell.tasks import Task
from quell.terminal.campaign import CampaignDisplay
from quell.terminal.streams import say, tell
from quell.terminal.tables import show
from quell.threads import cores
from quell.training.methods import make_policy, make_task

DESCRIPTION = """Train TASK with every combination of a grid's values, or with some drawn at random, on several seeds,
and print a table: mean actions of the final policies on fresh episodes. Other settings are those of `quell train`.

  quell sweep hopper --method es --grid lr=0.01,0.03 sigma=0.02,0.05 --random 3 --seeds 3 --steps 1e5

Finished runs are not repeated: the same command, or a larger grid, goes on where it stopped. Records go to
OUT/NAME/records.jsonl.gz, which `quell report OUT/NAME` shows."""


@dataclass(frozen=True)
class SweepFlags:
    """What is varied, and where runs go."""

    grid: tuple[str, ...] = ()
    """What to vary, as SETTING=VALUE,VALUE,...; several make a grid."""
    random: Annotated[int | None, SIZE] = None
    """As many combinations of the grid, drawn at random, instead of all."""
    seeds: Annotated[int, SIZE] = 3
    """So many seeds of each, from --seed up."""
    episodes: Annotated[int, SIZE] = 20
    """Episodes of each final evaluation."""
    jobs: Annotated[int | None, SIZE] = None
    """Runs at a time, one process each; by default one per core."""
    out: Path = Path("runs/sweeps")
    """Where sweeps go."""
    name: str | None = None
    """The sweep's folder there, instead of <task>-<method>."""


def main(arguments: list[str]) -> int:
    config, compute, own, given = read_settings(arguments, SweepFlags, command="sweep", description=DESCRIPTION)
    grid, random = own.pop("grid"), own.pop("random")
    if not grid:
        raise UsageError("what shall vary? --grid SETTING=VALUE,VALUE")
    return run(config, given, trials(parse_grid(grid, config), random), compute=compute, **own)


def run(
    config: Config,
    given: Task | None,
    chosen: list[dict[str, Any]],
    *,
    compute: Compute,
    seeds: int,
    out: Path,
    name: str | None,
    episodes: int = 20,
    jobs: int | None = None,
) -> int:
    """Train what is missing, each run on an engine like `compute` with one worker, and print the table of what there
    is."""
    engine, workers = name_of(compute), getattr(compute, "workers", None)
    if compute != engine_called(engine, workers):
        raise UsageError(f"runs side by side take engine {engine!r} as it comes: leave out its settings")
    folder = out / check_run_name(name or f"{folder_name(config.task)}-{config.method}")
    sweep = Sweep(config, chosen, seeds, episodes, folder, given.name if given else "", engine)
    todo = sweep.jobs()
    for job in todo:  # complain before the first run
        make_policy(job.config, make_task(job.config, given))
        job.check()
    due = [job for job in todo if not job.done]
    runner = Runner(jobs or workers or cores(), CampaignDisplay({job.title: 1.0 for job in due}))
    check_out(folder)
    outcomes = runner.run(due)
    for outcome in outcomes:
        if outcome.status == "failed":
            say(f"FAILED  {outcome.job.title}: {outcome.message}; the same command tries again")
    show(*sweep.rows())
    tell(f"mean actions, {episodes} fresh episodes of each final policy; records in {folder / archive.PACKED}")
    if any(outcome.status == "stopped" for outcome in outcomes):
        say("stopped; the same command goes on")
    return runner.exit_code(outcomes)
