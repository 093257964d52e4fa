"""quell paper ENTRY: a table or figure of the paper, from its runs to the page."""

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from quell.campaign.plan import Budget, Job, check_number, record_path
from quell.campaign.runner import Outcome, Runner
from quell.commands import merge, theorem
from quell.commands.arguments import UNSET, parse
from quell.config import Config, Preset, check_out, check_run_name, parse_value
from quell.errors import UsageError, did_you_mean, installed, require
from quell.paper.columns import SELECTION, label_of, settings_of
from quell.paper.cost import expected
from quell.paper.published import ENTRIES, group_name, paper_steps
from quell.paper.render import render_all, render_group
from quell.registry import SIZE
from quell.runs import archive
from quell.terminal.campaign import CampaignDisplay
from quell.terminal.streams import say, tell
from quell.terminal.tables import show
from quell.threads import cores
from quell.training.methods import find_task, make_config, make_policy

DESCRIPTION = """Reproduce a table or figure of the paper. ENTRY is one of

  table-es         16 tasks: ES, ORTHO, GCMC, QMC, CV, PG
  table-pg         16 tasks: PPO and TRPO (ppo-paper, trpo-paper), Det, CV, PG
  table-ppo        six tasks: PPO with and without its extras S, A and M
  table-cv         not in the paper: CV with closed-form coefficients, and with directions shaped by the Fisher matrix
  table-runaway    not in the paper: PG on HalfCheetah with one thing changed
  selection        not in the paper: CV's nine settings and nine sets of seeds of ES, the best of each against the mean
  fig-curves       learning curves of the five ES methods
  fig-improvement  (r - r_random) / (r_es - r_random), grouped bars
  theorem          Theorem 1, exact, simulated and as printed; has options of its own (quell paper theorem --help)
  render           all tables and figures again, from the records in --out
  merge FOLDER     take over the records of another machine's results folder (quell paper merge --help)

Runs that are finished are not repeated, interrupted ones are continued: the same command picks up where it stopped.
Entries share runs. Records, tables and figures go to OUT/<preset>-<budget>/."""


@dataclass(frozen=True)
class Arguments:
    entry: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENTRY")]
    """The table or figure."""
    tasks: tuple[str, ...] = ()
    """These tasks instead of the paper's."""
    methods: tuple[str, ...] = ()
    """These methods of the entry only."""
    seeds: Annotated[int, SIZE] = 5
    """Seeds 0 to SEEDS-1; for `selection`, of each of its nine sets."""
    budget: float = 1.0
    """Share of the paper's steps (2e7; LQR 4e6)."""
    steps: tuple[str, ...] = ()
    """Steps instead of a share: --steps 1e6, or --steps 1e6 dm-quadruped-escape=1e5."""
    preset: Preset = "paper"
    """paper: the paper's settings, and the initial policy that its tables imply. tuned: ours."""
    settings: dict[str, str] = field(default_factory=dict)
    """Other settings, e.g. --label large-start --settings policy.output_scale 1 policy.init_std 1"""
    label: str = ""
    """Name for these settings: the records' folder is OUT/<preset>-<label>-<budget>."""
    episodes: Annotated[int, SIZE] = 20
    """Episodes of the final evaluation (each with sampled and mean actions, and untrained)."""
    jobs: Annotated[int | None, SIZE, UNSET] = None
    """Runs at a time, one process each; by default one per core."""
    out: Path = Path("results/paper")
    """Where records, tables and figures go."""
    runs: Path = Path("runs/paper")
    """Where run folders with their checkpoints go."""
    plan: bool = False
    """Only show the runs and how long they would take."""
    skip_missing: bool = False
    """Leave out tasks whose optional dependency group is not installed."""


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["theorem"]:
        return theorem.main(arguments[1:])
    if arguments[:1] == ["merge"]:
        return merge.main(arguments[1:])
    parsed = parse(Arguments, arguments, prog="quell paper", description=DESCRIPTION)
    choose([parsed.entry], (*ENTRIES, "theorem", "render", "merge"), "entry")
    if parsed.entry == "render":
        return _told(render_all(parsed.out))
    jobs = planned(parsed)
    missing = not_installed(job.config for job in jobs)
    if parsed.skip_missing:
        jobs = [job for job in jobs if job.config.task not in missing]
    due = [job for job in jobs if not job.done]
    count = min(parsed.jobs or cores(), max(1, len(due)))
    _show(jobs, due, count, parsed.out)
    if missing:
        say(_without(missing, left_out=parsed.skip_missing))
    if parsed.plan:
        return 0
    if due and missing and not parsed.skip_missing:
        raise UsageError(f"{_without(missing)}; or leave them out: --skip-missing")
    if not due:
        return _conclude(jobs, [], 0)
    require("plot", "figures")  # complain before the first run, not after the last
    runner = Runner(count, CampaignDisplay({job.title: float(job.config.steps) for job in due}))
    check_out(parsed.out)
    check_out(parsed.runs, "runs")
    outcomes = runner.run(due)
    return _conclude(jobs, outcomes, runner.exit_code(outcomes))


def planned(parsed: Arguments) -> list[Job]:
    """Every run, seed by seed, so that what is done early covers all tasks and methods."""
    entry, budget = ENTRIES[parsed.entry], Budget.parse(parsed.budget, parsed.steps)
    tasks = tuple(dict.fromkeys(parsed.tasks)) or entry.tasks
    choose(filter(None, budget.steps), tasks, "task")
    methods = choose(parsed.methods, entry.methods, "method")
    if bool(parsed.settings) != bool(parsed.label):
        raise UsageError("--settings and --label go together: runs with other settings need a folder of their own")
    own = "-".join(filter(None, (parsed.label, parsed.entry if parsed.entry == "selection" else "")))
    group = check_run_name(group_name(parsed.preset, own, budget.name))
    other = {name: parse_value(text, name) for name, text in parsed.settings.items()}
    jobs: list[Job] = []
    for seed, task, column in _runs(parsed, tasks, methods):
        method, settings = settings_of(column)
        settings |= {"seed": seed, "steps": budget.of(task, paper_steps(task)), **other}
        config = make_config(task, method, parsed.preset, settings).validate()
        if seed == 0:
            make_policy(config, find_task(config))  # complain before the first run
        label = label_of(column, config)
        record = record_path(parsed.out / group, config, column if label else "")
        jobs.append(Job(config, parsed.runs / group / label, record, parsed.episodes, label))
        jobs[-1].check()
    return jobs


def _runs(parsed: Arguments, tasks: Sequence[str], columns: Sequence[str]) -> list[tuple[int, str, str]]:
    """(seed, task, column) of every run: all columns on the same seeds, or those of `selection` on disjoint ones.

    Set k has seeds k, k + 9, k + 18, ..., so that sets stay disjoint, and done, as they grow.
    """
    if parsed.entry != "selection":
        check_number(parsed.seeds * len(tasks) * len(columns), "seeds", parsed.seeds)
        return list(itertools.product(range(parsed.seeds), tasks, columns))
    sets = [(number, column) for number, column in enumerate(SELECTION) if column in columns]
    check_number(parsed.seeds * len(tasks) * (len(sets) + len(SELECTION)), "seeds", parsed.seeds)
    found = []
    for seed, task, number in itertools.product(range(parsed.seeds), tasks, range(len(SELECTION))):
        own = [column for place, column in sets if place == number] + (["es"] if "es" in columns else [])
        found += [(number + len(SELECTION) * seed, task, column) for column in own]
    return found


def not_installed(configs: Iterable[Config]) -> dict[str, str]:
    """task -> the optional dependency group that it needs and that is not here."""
    extras = {config.task: find_task(config).extra for config in configs}
    return {task: extra for task, extra in extras.items() if extra is not None and not installed(extra)}


def _without(missing: dict[str, str], *, left_out: bool = False) -> str:
    said = "left out" if left_out else "cannot run here"
    return f"{said}: {', '.join(missing)}, which need pip install 'quell[{','.join(sorted(set(missing.values())))}]'"


def choose(wanted: Iterable[str], known: Sequence[str], what: str) -> tuple[str, ...]:
    """The wanted names, or all; complains about a method or task that the entry does not have."""
    chosen = tuple(dict.fromkeys(wanted))
    for name in chosen:
        if name not in known:
            raise UsageError(f"no {what} {name!r} here{did_you_mean(name, known)}; there are: {', '.join(known)}")
    return chosen or tuple(known)


def _show(jobs: list[Job], due: list[Job], count: int, out: Path) -> None:
    runs = Counter((job.config.task, job.config.steps) for job in due)
    show(("<task", "steps", "runs"), [(task, f"{steps:,}", str(each)) for (task, steps), each in runs.items()])
    total = sum(job.config.steps for job in due)
    tell(f"{len(jobs)} runs, {len(jobs) - len(due)} of them done; {total:,} steps to go, {count} runs at a time")
    hours, unknown = expected(out, due)
    if hours:
        rest = f", and {', '.join(unknown)}, of which none was timed" if unknown else ""
        tell(f"about {hours:.2g} core-hours, at the pace of such runs in {str(out)!r}{rest}")


def _conclude(jobs: list[Job], outcomes: list[Outcome], code: int) -> int:
    """Tables and figures from all there is, and what failed."""
    if any(job.done for job in jobs):
        _told(render_group(archive.place_of(jobs[0].record)[0]))
    failed = [outcome for outcome in outcomes if outcome.status == "failed"]
    stopped = sum(outcome.status == "stopped" for outcome in outcomes)
    for outcome in failed:
        say(f"FAILED  {outcome.job.title}: {outcome.message}")
    if failed:
        say(f"{len(failed)} of {len(jobs)} runs failed; the same command tries them again")
    if stopped:
        say(f"stopped and saved with {stopped} runs to go; the same command continues")
    return code


def _told(paths: list[Path]) -> int:
    for path in paths:
        tell(path)
    return 0
