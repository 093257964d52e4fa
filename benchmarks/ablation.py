"""What the parts of the default are worth: estimator and step exchanged, one at a time, on six tasks.

    python benchmarks/ablation.py

Runs what is missing (a run that was interrupted is continued) and writes results/ablation/table.md from all records.
Every row is the task's own tuned preset with one thing exchanged: the estimator (the control variate, its policy
gradient alone without perturbation, ES alone), the step (natural, or Adam at the rate that did best on other seeds,
see results/tuning; ES has its own tuned preset there), or what a batch is counted in.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from quell.campaign.benchmark import Grid, table
from quell.campaign.plan import Job
from quell.campaign.runner import Runner
from quell.config import Config
from quell.estimate.es import Es
from quell.runs import archive
from quell.runs.record import read_group
from quell.terminal.campaign import CampaignDisplay
from quell.training.methods import make_config
from quell.update.first_order import Adam

RESULTS = Path(__file__).parent.parent / "results" / "ablation"
TASKS = ("halfcheetah", "hopper", "walker2d", "swimmer", "dm-cheetah-run", "dm-cartpole-swingup")
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "natural-cv": ("natural-cv", {}),
    "actor-critic-natural": ("trpo", {"line_search": False}),
    "es-natural": ("natural-cv", {"estimator": Es()}),
    "natural-cv-adam": ("natural-cv", {"step": Adam(lr=0.003)}),
    "actor-critic-adam": ("trpo", {"line_search": False, "step": Adam(lr=0.003)}),
    "es-adam": ("es", {}),
    "natural-cv-episodes": ("natural-cv", {"batch_steps": 0}),
}
"""Name -> method, and what is different about it; the last makes a difference only where episodes end early."""
EARLIER = {
    "natural-cv": "cv-natural",
    "actor-critic-natural": "pg-natural",
    "natural-cv-adam": "cv-adam",
    "actor-critic-adam": "pg-adam",
    "natural-cv-episodes": "cv-episodes",
}
"""Name -> label in the records, which were made when methods had other names."""
ENDING_EARLY = ("hopper", "walker2d")
AS_IT_WAS: dict[str, Any] = {"pairs": 2, "batch_steps": 4000, "step.kl": 0.1, "directions.sigma": 0.02}
"""On those two: what the preset said when these runs were made, before it took more and shorter steps there."""


@dataclass
class Arguments:
    """Train every variant and tabulate what is there."""

    tasks: tuple[str, ...] = TASKS
    variants: tuple[str, ...] = tuple(VARIANTS)
    seeds: int = 5
    steps: int = 300_000
    episodes: int = 20
    """Episodes of each final evaluation."""
    jobs: int = 2
    """Runs at a time, one worker each."""
    out: Path = RESULTS
    runs: Path = Path("runs/ablation")
    """Where run folders with their checkpoints go."""


def config(task: str, variant: str, seed: int, steps: int) -> Config:
    method, different = VARIANTS[variant]
    unread = {"step.kl"} if "adam" in variant else set()
    unread |= {"directions.sigma"} if method == "trpo" else set()
    earlier = AS_IT_WAS if task in ENDING_EARLY and method != "es" else {}
    base = {"seed": seed, "steps": steps, "eval_every": 0, "train_horizon": 0}  # presets came to cut episodes later
    base |= {name: value for name, value in earlier.items() if name not in unread}
    return make_config(task, method, "tuned", {**base, **different})


def plan(wanted: Arguments) -> list[Job]:
    """Seed by seed, so that what is done early covers all."""
    return [
        Job(
            config(task, variant, seed, wanted.steps).validate(),
            runs=wanted.runs / variant,
            record=archive.loose(wanted.out, f"{task}-{EARLIER.get(variant, variant)}-{seed}"),
            episodes=wanted.episodes,
            label=EARLIER.get(variant, variant),
        )
        for seed in range(wanted.seeds)
        for task in wanted.tasks
        for variant in wanted.variants
        if variant != "natural-cv-episodes" or task in ENDING_EARLY
    ]


def render(out: Path) -> str:
    """Scores, and the default against every other variant; the default comes first."""
    found: Grid = {}
    variants = {label: variant for variant, label in EARLIER.items()}
    for record in read_group(out):
        variant = variants.get(record.label, record.label)
        found.setdefault(record.config.task, {}).setdefault(variant, []).append(record)
    scores, chances, power, _ = table(found, tuple(VARIANTS), seconds={}, published={}).split("\n\n")
    text = "".join(line for line in f"{scores}\n\n{chances}\n\n{power}\n".splitlines(True) if "mean rank" not in line)
    for variant in sorted(VARIANTS, key=len, reverse=True):
        text = text.replace(variant.upper(), variant)
    return text


def main(wanted: Arguments) -> None:
    jobs = plan(wanted)
    for job in jobs:
        job.check()
    due = [job for job in jobs if not job.done]
    outcomes = Runner(wanted.jobs, CampaignDisplay({job.title: 1.0 for job in due})).run(due)
    text = render(wanted.out)
    (wanted.out / "table.md").write_text(text)
    print(text)
    sys.exit(any(outcome.status != "done" for outcome in outcomes))


if __name__ == "__main__":
    main(tyro.cli(Arguments))
