"""What a perfect referee would say: how much one step along each of two discounts gains, at policies along a run.

    python benchmarks/referee.py --json results/one-setting/referee.json

A run with the near discount keeps its checkpoints. At some of them, many steps as training takes them are tried along
natural CV with the near and with the far discount, from the same batches, and what each gains in undiscounted return is
measured on many episodes: more than any referee inside a run could afford. A difference is that of the two gains, step
by step on the same episodes, with its 95% interval.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tyro

import quell
from quell.estimate.control_variate.advantage import AdvantageControlVariate
from quell.estimate.critic.network import NetworkCritic
from quell.stats import t_interval
from quell.variances.points import find_point
from quell.variances.rows import Row

CRITIC = NetworkCritic(updates=200)
ROWS = {
    "near": AdvantageControlVariate(gamma=0.995, trace=0.97, critic=CRITIC),
    "far": AdvantageControlVariate(gamma=1.0, trace=0.995, critic=CRITIC),
}
RUN: dict[str, Any] = {
    **{"estimator": ROWS["near"], "policy.init_std": 0.6, "policy.learn_std": False},
    **{"step.kl": 0.1, "step.schedule": "constant", "eval_every": 0},
}
"""The same on both tasks."""


@dataclass
class Arguments:
    """Train with the near discount, then measure both at its checkpoints."""

    tasks: tuple[str, ...] = ("hopper", "swimmer")
    seeds: tuple[int, ...] = (100, 101)
    iterations: tuple[int, ...] = (5, 10, 20, 40, 60)
    """Where to measure."""
    estimates: int = 30
    """Steps to try along each discount."""
    episodes: int = 8
    """Played before and after each."""
    runs: Path = Path("runs/referee")
    json: Path | None = None
    """Also write the figures here."""


def measured(task: str, run: Path, iteration: int, arguments: Arguments) -> dict[str, Any]:
    """Gains of both discounts at one checkpoint, and of the near over the far one."""
    at = f"{run}@{iteration}"
    pairs = find_point(task, at, preset="tuned", seed=0, settings={}).config.pairs
    report = quell.variance(
        task,
        at=at,
        methods=[Row(name, estimator) for name, estimator in ROWS.items()],
        pairs=pairs * arguments.estimates,
        warmup=10 * pairs,
        gain=[f"natural:{RUN['step.kl']}"],
        gain_methods=list(ROWS),
        gain_estimates=arguments.estimates,
        gain_episodes=arguments.episodes,
        progress=False,
    )
    changes = {one.name: np.array(one.changes) for one in report.gains}
    over = {"near": changes["near"], "far": changes["far"], "difference": changes["near"] - changes["far"]}
    return {name: [round(x, 2) for x in vars(t_interval(values)).values()] for name, values in over.items()}


def main(arguments: Arguments) -> None:
    rows = []
    print("| task | seed | iteration | return there | near gains | far gains | near less far |")
    print("|---|---|---|---|---|---|---|")
    last = max(arguments.iterations)
    kept = {"checkpoint_every": 5, "keep_checkpoints": last}
    for task in arguments.tasks:
        for seed in arguments.seeds:
            result = quell.train(
                task,
                steps=10_000 * last,
                seed=seed,
                out=arguments.runs,
                name=f"seed{seed}",
                progress=False,
                **RUN,
                **kept,
            )
            for iteration in arguments.iterations:
                level = result.history[iteration - 1]["return/mean"]
                found = measured(task, result.path, iteration, arguments)
                rows.append({"task": task, "seed": seed, "iteration": iteration, "return": round(level, 1), **found})
                cells = ["{:.1f} [{:.1f}, {:.1f}]".format(*found[name]) for name in ("near", "far", "difference")]
                print(f"| {task} | {seed} | {iteration} | {level:.0f} | {' | '.join(cells)} |", flush=True)
    if arguments.json:
        facts = {"estimates": arguments.estimates, "episodes": arguments.episodes, "rows": rows}
        arguments.json.write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main(tyro.cli(Arguments))
