"""Many runs for a caller in Python, or for a command: where they run, and what became of them."""

import dataclasses
import signal
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quell import registry
from quell.api import Result, engine_called, load
from quell.campaign.child import carry_out
from quell.campaign.plan import Job
from quell.campaign.runner import SIGNALS, Outcome, Runner
from quell.campaign.sweep import Sweep, Trial
from quell.config import STRATEGIES, Config, check_out, check_run_name
from quell.errors import QuellError, UsageError
from quell.rollout import Compute
from quell.runs.folder import folder_name
from quell.tasks.base import Task
from quell.terminal.campaign import CampaignDisplay, Quiet
from quell.terminal.stopping import handled
from quell.threads import cores
from quell.training.callbacks import Callback, Callbacks
from quell.training.methods import make_policy, make_task


@dataclass(frozen=True)
class Swept:
    """A sweep's trials, the one with the highest mean return first."""

    trials: list[Trial]
    folder: Path
    """Where its records are, which `quell report` shows."""
    _sweep: Sweep
    _task: Task | None

    @property
    def best(self) -> dict[str, Any]:
        """The settings of the first."""
        return self.trials[0].settings

    def results(self, settings: Mapping[str, Any]) -> list[Result]:
        """The runs of one trial, in the order of their seeds."""
        found: dict[int, Result] = {}
        for seed in next(trial.seeds for trial in self.trials if trial.settings == dict(settings)):
            job = self._sweep.job(settings, seed)
            own = None if registry.is_own("policy", job.config.policy) else job.config.policy
            found[seed] = load(job.folder, env=self._task, policy=own, trust_files=True)
        return [found[seed] for seed in sorted(found)]

    def __repr__(self) -> str:
        """The table that `quell sweep` prints."""
        head, rows = self._sweep.rows()
        widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
        lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in (head, *rows)]
        return "\n".join(line.rstrip() for line in lines)


def sweep_of(config: Config, given: Task | None, chosen: list[dict[str, Any]], seeds: int, **where: Any) -> Swept:
    """Train what is missing; an interrupt if it was stopped, an error if a run failed."""
    sweep, outcomes, _ = carried_out(config, given, chosen, seeds=seeds, **where)
    failed = [outcome for outcome in outcomes if outcome.status == "failed"]
    if any(outcome.status == "stopped" for outcome in outcomes):
        raise KeyboardInterrupt("stopped and saved; the same call continues")
    if failed:
        first = f"{failed[0].job.title}: {failed[0].message}"
        raise QuellError(
            f"{len(failed)} of {len(outcomes)} runs failed; the same call tries them again. The first: {first}"
        )
    return Swept(sweep.ended(), sweep.out, sweep, given)


def carried_out(
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
    trust: str = "",
    progress: bool = True,
) -> tuple[Sweep, list[Outcome], int]:
    """The sweep, how its missing runs ended, and a command's exit code.

    Each runs in a process of its own, on an engine like `compute` with one worker; `trust` is how that finds an
    environment of the user's own. Where it cannot find all there is, they run here, one after the other.
    """
    engine, workers = registry.name_of(compute), getattr(compute, "workers", None)
    together = getattr(compute, "together", None)
    known = registry.is_own("engine", compute)
    if known and not together and compute != engine_called(engine, workers):
        raise UsageError(f"parallel runs use engine {engine!r} with its defaults: leave out its settings")
    folder = out / check_run_name(name or f"{folder_name(config.task)}-{config.method}")
    sweep = Sweep(config, chosen, seeds, episodes, folder, trust, engine)
    todo = sweep.jobs()
    for job in todo:  # complain before the first run
        make_policy(job.config, make_task(job.config, given))
        job.check()
    due = [job for job in todo if not job.done]
    own = all(registry.is_own(kind, getattr(config, kind)) for kind in STRATEGIES)
    apart = known and own and (given is None or trust)
    check_out(folder)
    if not due:
        return sweep, [], 0
    display = (CampaignDisplay if progress else Quiet)({job.title: 1.0 for job in due})
    if together:
        with display:
            outcomes = [
                one for seeds_of in by_settings(due) for one in _side_by_side(seeds_of, given, compute, display)
            ]
        return sweep, outcomes, exit_code(outcomes)
    if apart:
        runner = Runner(jobs or workers or cores(), display)
        outcomes = runner.run(due)
        return sweep, outcomes, runner.exit_code(outcomes)
    with display:
        return sweep, [_here(job, given, compute, display) for job in due], 0


class Watching(Callback):
    """Tells the display how far a run is, and has it stop."""

    def __init__(self, job: Job, display: CampaignDisplay) -> None:
        self._job, self._display = job, display

    def on_iteration(self, row: dict[str, Any]) -> None:
        self._display.moved(self._job.title, row["steps"], self._job.config.steps)


def by_settings(jobs: Sequence[Job]) -> list[list[Job]]:
    """Jobs that differ in their seeds alone, together."""
    found: list[tuple[Config, list[Job]]] = []
    for job in jobs:
        config = dataclasses.replace(job.config, seed=0)
        own = next((group for same, group in found if same == config), None)
        if own is None:
            found.append((config, own := []))
        own.append(job)
    return [group for _, group in found]


def _side_by_side(jobs: Sequence[Job], given: Task | None, compute: Any, display: CampaignDisplay) -> list[Outcome]:
    """Runs in threads of this process, which share one engine; a signal has all of them stop and save."""
    shared, watching = compute.together(len(jobs)), [Watching(job, display) for job in jobs]

    def stop(number: int, frame: Any) -> None:
        for one in watching:
            one.stop_requested = True

    def one(job: Job, watch: Watching) -> Outcome:
        try:
            return _here(job, given, shared, display, [watch])
        finally:
            shared.leave(job.config.seed)

    with handled(stop, lambda _: None, lambda _: None, SIGNALS), ThreadPoolExecutor(len(jobs)) as pool:
        return list(pool.map(one, jobs, watching))


def exit_code(outcomes: Sequence[Outcome]) -> int:
    found = {outcome.status for outcome in outcomes}
    return 128 + signal.SIGINT if "stopped" in found else int("failed" in found)


def _here(
    job: Any, given: Task | None, compute: Compute, display: CampaignDisplay, callbacks: Callbacks = ()
) -> Outcome:
    """A run in this process."""
    display.started(job.title)
    try:
        state = carry_out(job, task=given, compute=compute, callbacks=callbacks)
    except QuellError as error:
        display.ended(job.title, "failed", str(error))
        return Outcome(job, "failed", str(error))
    status: Any = "done" if state.finished(job.config) else "stopped"
    display.ended(job.title, status)
    return Outcome(job, status)
