"""quell tune TASK ...: search for a method's settings by a stated protocol."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from quell.campaign.plan import Job
from quell.campaign.runner import CHILD, Runner
from quell.campaign.tune import Search, search
from quell.commands.arguments import UNSET, parse
from quell.config import check_out
from quell.errors import UsageError
from quell.presets import DEFAULT, method_name
from quell.registry import SIZE
from quell.rollout import check_processes
from quell.terminal.campaign import CampaignDisplay
from quell.terminal.streams import say, tell
from quell.threads import cores

DESCRIPTION = """Random search over a method's main settings, on seeds from 100 up, which no result is reported on:
every trial once, then the best quarter with three more seeds. Several tasks are a family that shares its settings,
judged by mean rank. Finished runs are not repeated: the same command goes on where it stopped. Records and a table go
to OUT/METHOD."""


@dataclass(frozen=True)
class Arguments:
    tasks: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="TASK [TASK ...]")]
    """The task, or several that shall share their settings."""
    method: str = DEFAULT
    """`quell list methods` lists the names."""
    trials: Annotated[int, SIZE] = 16
    """Settings to try; the first is what is in use."""
    steps: Annotated[int, SIZE] = 300_000
    """Environment steps of each run."""
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
    method = method_name(parsed.method)
    place = {"out": parsed.out, "runs": parsed.runs / method}
    wanted = Search(parsed.tasks, method, parsed.trials, parsed.steps, episodes=parsed.episodes, **place)
    wanted.first_stage()  # complain before the first run
    check_processes("jobs", count := parsed.jobs or cores(), CHILD)
    check_out(parsed.out)
    check_out(parsed.runs, "runs")
    table = search(wanted, lambda jobs: _train(jobs, count))
    for row in table["trials"]:
        scores = "  ".join(f"{task} {score:.4g}" for task, score in row["scores"].items())
        settings = " ".join(f"{name}={value}" for name, value in row["settings"].items())
        tell(f"trial {row['trial']:>2}  seeds {row['seeds']}  {scores}  {settings}")
    tell("best: " + (" ".join(f"--{name} {value}" for name, value in table["best"].items()) or "what is in use"))
    return 0


def _train(jobs: Sequence[Job], count: int) -> None:
    """Do the jobs of one stage; a signal ends the search here."""
    runner = Runner(count, CampaignDisplay({job.title: 1.0 for job in jobs}))
    if (code := runner.exit_code(runner.run(jobs))) > 128:
        say("stopped; the same command goes on")
        sys.exit(code)
