"""Learning curves of chosen tasks, methods and presets over seeds, several runs at a time.

    python benchmarks/learning.py --tasks halfcheetah swimmer --methods es natural-cv --presets paper tuned --seeds 3

Every finished run leaves its record in the folder --out; a run whose record is there is not repeated and one that was
interrupted is continued, so the command can be stopped and started again. At the end the table is printed and the
figure written beside the runs (--runs), both made from all records.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import tyro

from quell.campaign.plan import Job
from quell.campaign.runner import Runner
from quell.config import Preset, parse_value
from quell.figures.runs import curve_panels
from quell.presets import CUSTOM
from quell.runs import archive
from quell.runs.folder import folder_name
from quell.runs.record import Record, read_group
from quell.stats import mean_std
from quell.terminal import numbers
from quell.terminal.campaign import CampaignDisplay
from quell.training.methods import make_config

RESULTS = Path(__file__).parent.parent / "results"
Groups = dict[tuple[str, str, str, int], list[Record]]
"""(task, preset, method, steps) -> its runs."""


@dataclass
class Arguments:
    """Train every combination and summarise what is in the folder."""

    tasks: tuple[str, ...] = ("halfcheetah", "swimmer")
    methods: tuple[str, ...] = ("es", "natural-cv")
    presets: tuple[Preset, ...] = ("paper", "tuned")
    seeds: int = 3
    steps: int = 1_000_000
    episodes: int = 50
    """Episodes of each final evaluation."""
    out: Path = RESULTS / "learning"
    runs: Path = Path("runs/learning")
    """Where run folders with their checkpoints go."""
    jobs: int = 2
    """Runs at a time, one worker each."""
    label: str = ""
    """Name for the settings below, added to the method's in files, table and figure."""
    settings: dict[str, str] = field(default_factory=dict)
    """Other settings, e.g. --label moments --settings coefficients moments lr 0.01"""


def plan(wanted: Arguments) -> list[Job]:
    """Every combination, seed by seed."""
    settings = {name: parse_value(text) for name, text in wanted.settings.items()}
    jobs = []
    for seed, task, preset, method in itertools.product(
        range(wanted.seeds), wanted.tasks, wanted.presets, wanted.methods
    ):
        config = make_config(task, method, preset, {"seed": seed, "steps": wanted.steps, **settings}).validate()
        name = "-".join(filter(None, (preset, method, wanted.label, str(wanted.steps))))
        record = archive.loose(wanted.out, f"{folder_name(task)}-{name}-{seed}")
        jobs.append(Job(config, runs=wanted.runs / name, record=record, episodes=wanted.episodes, label=wanted.label))
    return jobs


def grouped(records: Iterable[Record]) -> Groups:
    """Records by what they have in common."""
    groups: Groups = {}
    for run in records:
        custom = run.config.method == CUSTOM
        name = f"{run.config.combination} {run.label}".strip() if custom else run.name
        groups.setdefault((run.config.task, run.config.preset, name, run.config.steps), []).append(run)
    return groups


def table(groups: Groups) -> str:
    """One line per task, preset, method and budget."""
    lines = [
        "| task | preset | method | steps | seeds | return, actions sampled | return, mean action | variance, ES = 1 |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for (task, preset, method, steps), runs in groups.items():
        returns = [_mean_std([float(np.mean(run.final[kind])) for run in runs]) for kind in ("sampled", "mean_action")]
        ratios = [run.variance for run in runs if run.variance is not None]
        ratio = _plain(float(np.mean(ratios)), 3) if len(ratios) == len(runs) else ""
        lines.append(f"| {task} | {preset} | {method} | {steps:.0e} | {len(runs)} | {' | '.join(returns)} | {ratio} |")
    return "\n".join(lines) + "\n"


def figure(groups: Groups, path: Path) -> None:
    """One panel per task, preset and budget; what falls far below where it started leaves the panel."""
    panels: dict[str, dict[str, list[Record]]] = {}
    for (task, preset, method, steps), runs in sorted(groups.items(), key=lambda item: (*item[0][:2], item[0][3])):
        panels.setdefault(f"{task}, {preset}, {numbers.steps(steps)}", {})[method] = runs
    curve_panels(panels, path, within_reach=True)


def _mean_std(values: list[float]) -> str:
    score = mean_std(values)
    return f"{_plain(score.mean, 1)} ± {_plain(score.std if len(values) > 1 else 0.0, 1)}"


def _plain(value: float, decimals: int) -> str:
    """With so many decimals; very large and very small numbers with an exponent."""
    return f"{value:.{decimals}f}" if value == 0 or 5e-4 <= abs(value) < 1e6 else f"{value:.1e}"


def main(arguments: Arguments) -> None:
    arguments.out.mkdir(parents=True, exist_ok=True)
    jobs = plan(arguments)
    for job in jobs:
        job.check()
    due = [job for job in jobs if not job.done]
    display = CampaignDisplay({job.title: float(job.config.steps) for job in due})
    outcomes = Runner(arguments.jobs, display).run(due) if due else []
    groups = grouped(read_group(arguments.out))
    if groups:
        figure(groups, arguments.runs / "curves.png")
        print(table(groups))
    for outcome in outcomes:
        if outcome.status == "failed":
            print(f"FAILED  {outcome.job.title}: {outcome.message}", file=sys.stderr)
    sys.exit(any(outcome.status != "done" for outcome in outcomes))


if __name__ == "__main__":
    main(tyro.cli(Arguments))
