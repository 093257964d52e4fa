"""quell sweep TASK --grid SETTING=VALUE,VALUE: many settings and seeds of one task and method; also `train --seeds`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from quell.campaign.here import carried_out
from quell.campaign.sweep import parse_grid, trials
from quell.commands.train import read_settings
from quell.config import Config
from quell.errors import UsageError
from quell.registry import SIZE
from quell.rollout import Compute
from quell.runs import archive
from quell.tasks import Task
from quell.terminal.streams import say, tell
from quell.terminal.tables import show

DESCRIPTION = """Train TASK with every combination of a grid's values, or with some drawn at random, on several seeds,
and print a table of returns with mean actions, on new episodes. Other settings are those of `quell train`.

  quell sweep hopper --method es --grid lr=0.01,0.03 sigma=0.02,0.05 --random 3 --seeds 3 --steps 1e5

Finished runs are not repeated: the same command, or a larger grid, continues where it stopped. Records go to
OUT/NAME/records.jsonl.gz, which `quell report OUT/NAME` shows."""


@dataclass(frozen=True)
class SweepFlags:
    """What is varied, and where runs go."""

    grid: tuple[str, ...] = ()
    """What to vary, as SETTING=VALUE,VALUE,...; several make a grid."""
    random: Annotated[int | None, SIZE] = None
    """Train this many combinations of the grid, drawn at random, instead of all."""
    seeds: Annotated[int, SIZE] = 3
    """Seeds of each combination, from --seed up."""
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
        raise UsageError("what should vary? --grid SETTING=VALUE,VALUE")
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
    """Train what is missing and print the table of what there is."""
    where: dict[str, Any] = {"seeds": seeds, "out": out, "name": name, "episodes": episodes, "jobs": jobs}
    trust = given.name if given else ""
    sweep, outcomes, code = carried_out(config, given, chosen, compute=compute, trust=trust, **where)
    for outcome in outcomes:
        if outcome.status == "failed":
            say(f"FAILED  {outcome.job.title}: {outcome.message}; the same command tries again")
    show(*sweep.rows())
    tell(f"mean actions, {episodes} fresh episodes of each final policy; records in {sweep.out / archive.PACKED}")
    if any(outcome.status == "stopped" for outcome in outcomes):
        say("stopped; the same command continues")
    return code
