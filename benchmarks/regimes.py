"""Where ES wins, where the policy gradient does, and whether one estimator is near the better of the two everywhere.

    python benchmarks/regimes.py [--tasks halfcheetah] [--policies linear] [--delays 1 1000] [--seeds 5]
    python benchmarks/regimes.py --tables

Trains every method in every cell (task, policy, delay of rewards); what is done is not done again, and a run that was
interrupted is continued. Then it writes results/regimes/table.md and map.png from all records. Methods have one setting
for all cells, found on seeds from 100 to 199; the map has seeds from 200 up.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from quell.campaign.plan import Job
from quell.campaign.runner import Runner
from quell.config import Config, parse_value
from quell.figures.style import LOOKS as STYLES
from quell.figures.style import new_figure, save, style_axes
from quell.runs import archive
from quell.runs.record import Record, read_group
from quell.stats import t_interval
from quell.terminal.campaign import CampaignDisplay
from quell.training.methods import make_config

RESULTS = Path(__file__).parent.parent / "results" / "regimes"
TASKS = ("halfcheetah", "swimmer", "hopper")
POLICIES: dict[str, tuple[int, ...]] = {"linear": (), "2x32": (32, 32)}
DELAYS = (1, 50, 1000)
COMMON: dict[str, Any] = {
    **{"pairs": 2, "batch_steps": 4000, "step": "natural", "step.kl": 0.1, "step.schedule": "linear"},
    **{"policy.activation": "tanh", "policy.output_scale": 0.1, "policy.learn_std": True, "policy.init_std": 0.37},
    **{"normalise_obs": False, "shared_reset": True, "eval_every": 0},
}
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "es": ("natural-cv", {"estimator": "es", "directions": "fisher", "directions.nats": 1.0}),
    "pg": ("trpo", {"critic.updates": 100}),
    "cv": (
        "natural-cv",
        {
            **{"estimator.coefficients": "mse", "critic.updates": 100, "policy.init_std": 0.15},
            **{"directions": "fisher", "directions.nats": 1.0, "directions.least": 0.05},
        },
    ),
}
"""Name -> method of quell that it is made of, and its settings. All take the same natural steps."""
NEAR = {"gamma": 0.995, "trace": 0.97}
FAR = {"gamma": 1.0, "trace": 1.0}
DISCOUNTS: dict[int, dict[str, Any]] = {1: NEAR, 50: {"gamma": 0.995, "trace": 1.0}}
"""Delay -> discount of the policy gradient, alone and in CV alike; where it is not said, none."""


@dataclass
class Arguments:
    """Train what is missing and tabulate what is there."""

    tasks: tuple[str, ...] = TASKS
    policies: tuple[str, ...] = tuple(POLICIES)
    delays: tuple[int, ...] = DELAYS
    methods: tuple[str, ...] = tuple(METHODS)
    seeds: int = 5
    first: int = 200
    """The first seed."""
    steps: int = 400_000
    episodes: int = 20
    """Episodes of each final evaluation."""
    jobs: int = 2
    """Runs at a time, one worker each."""
    settings: tuple[str, ...] = ()
    """Other settings, as NAME=VALUE: to search with, under a label of their own."""
    label: str = ""
    out: Path = RESULTS
    runs: Path = Path("runs/regimes")
    """Where run folders with their checkpoints go."""
    tables: bool = False
    """Train nothing; make table and figure of the records that there are."""


def config(
    task: str, policy: str, delay: int, method: str, seed: int, steps: int, other: Mapping[str, Any] | None = None
) -> Config:
    base, own = METHODS[method]
    asked = {**COMMON, **own, "policy.hidden": POLICIES[policy], "delay": delay, "seed": seed, "steps": steps}
    if method != "es":
        asked |= DISCOUNTS.get(delay, FAR)
    return make_config(task, base, "tuned", {**asked, **(other or {})}).validate()


def plan(wanted: Arguments) -> list[Job]:
    """Seed by seed, so that what is done early covers all cells. What ES sees does not depend on a delay."""
    other = {name: parse_value(value) for name, _, value in (word.partition("=") for word in wanted.settings)}
    jobs = []
    for seed in range(wanted.first, wanted.first + wanted.seeds):
        for policy in wanted.policies:
            for task in wanted.tasks:
                for method in wanted.methods:
                    for delay in wanted.delays[-1:] if method == "es" else wanted.delays:
                        label = "-".join(filter(None, (policy, f"delay{delay}", method, wanted.label)))
                        made = config(task, policy, delay, method, seed, wanted.steps, other)
                        record = archive.loose(wanted.out, f"{task}-{label}-{seed}")
                        jobs.append(Job(made, wanted.runs / label, record, wanted.episodes, label))
    return jobs


Cell = tuple[str, str, int]


def cells(records: list[Record]) -> dict[Cell, dict[str, list[float]]]:
    """(task, policy, delay) -> method -> scores; what ES earned stands in every delay's cell."""
    found: dict[Cell, dict[str, list[float]]] = {}
    for record in records:
        policy, paid, method = record.label.split("-", 2)
        cell = record.config.task, policy, int(paid.removeprefix("delay"))
        found.setdefault(cell, {}).setdefault(method, []).append(record.return_mean_action)
    for (task, policy, _), of in list(found.items()):
        for (other, same, delay), there in found.items():
            if (task, policy) == (other, same) and "es" in of and delay != 0:
                there.setdefault("es", of["es"])
    return dict(sorted(found.items()))


def table(records: list[Record]) -> str:
    """Mean and 95% interval of every method in every cell, and CV as a share of the better of the other two."""
    order = list(METHODS)
    found = cells(records)
    names = sorted({name for of in found.values() for name in of}, key=lambda one: [*order, one].index(one))
    lines = ["| task | policy | delay | " + " | ".join(names) + " | CV over the better |"]
    lines += ["|---" * (len(names) + 4) + "|"]
    for (task, policy, delay), of in found.items():
        shown = [_scores(of[name]) if name in of else "" for name in names]
        others = [float(np.mean(of[name])) for name in ("es", "pg") if name in of]
        share = f"{np.mean(of['cv']) / max(others):.2f}" if "cv" in of and len(others) == 2 and max(others) > 0 else ""
        lines.append("| " + " | ".join([task, policy, str(delay), *shown, share]) + " |")
    return "\n".join(lines) + "\n"


def _scores(values: list[float]) -> str:
    if len(values) < 2:
        return f"{values[0]:.0f} (1)"
    interval = t_interval(values)
    return f"{interval.value:.0f} [{interval.low:.0f}, {interval.high:.0f}] ({len(values)})"


def draw(found: Mapping[Cell, Mapping[str, list[float]]], path: Path) -> None:
    """A panel per task and policy: score against delay, with 95% intervals."""
    panels = list(dict.fromkeys((task, policy) for task, policy, _ in found))
    figure = new_figure(3.6 * len(panels), 3.2)
    for axes, (task, policy) in zip(np.atleast_1d(figure.subplots(1, len(panels))), panels, strict=True):
        delays = sorted(delay for one, other, delay in found if (one, other) == (task, policy))
        for method, look in LOOKS.items():
            there = [(at, found[task, policy, at][method]) for at in delays if method in found[task, policy, at]]
            ends = [t_interval(values) if len(values) > 1 else None for _, values in there]
            x = [delays.index(at) + 0.06 * list(LOOKS).index(method) for at, _ in there]
            means = [float(np.mean(values)) for _, values in there]
            axes.plot(x, means, look.line, color=look.colour, marker="o", markersize=4, label=method.upper())
            for place, interval in zip(x, ends, strict=True):
                if interval is not None:
                    axes.plot([place, place], [interval.low, interval.high], color=look.colour, linewidth=1)
        axes.set_xticks(range(len(delays)), labels=list(map(str, delays)))
        axes.set_xlabel("rewards are paid every ... steps")
        style_axes(axes, f"{task}, {policy}")
    axes.legend(frameon=False, fontsize=8)
    save(figure, path)


LOOKS = {"es": STYLES["es"], "pg": STYLES["pg"], "cv": STYLES["natural-cv"]}


def main(wanted: Arguments) -> None:
    code = False
    if not wanted.tables:
        jobs = plan(wanted)
        for job in jobs:
            job.check()
        due = [job for job in jobs if not job.done]
        outcomes = Runner(wanted.jobs, CampaignDisplay({job.title: 1.0 for job in due})).run(due)
        code = any(outcome.status != "done" for outcome in outcomes)
    records = read_group(wanted.out)
    text = table(records)
    (wanted.out / "table.md").write_text(text)
    if all(len(record.label.split("-")) == 3 for record in records):
        draw(cells(records), wanted.out / "map.png")
    print(text)
    sys.exit(code)


if __name__ == "__main__":
    main(tyro.cli(Arguments))
