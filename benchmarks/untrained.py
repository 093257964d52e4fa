"""What untrained policies earn, for several ways to start, beside the paper's methods that hardly learn.

    python benchmarks/untrained.py

The paper does not say how its policies start. Where a method does not learn, its published score is close to the
return of the policy it started from, so comparing the two tells which start is the likely one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro

from quell.keys import Purpose, Stream, generator
from quell.paper.published import LABELS, SCORES
from quell.rollout.cpu import Cpu
from quell.terminal.tables import markdown_lines
from quell.training.methods import make_config, make_problem, make_task
from quell.types import Episodes

RESULTS = Path(__file__).parent.parent / "results"
STARTS = {"std 1": (1.0, 1.0), "std 1, small mean": (0.01, 1.0), "std 0.37, small mean": (0.01, 0.37)}
"""name -> (policy.output_scale, policy.init_std); the last is our paper preset's."""
HARDLY_LEARN = {"QMC": "qmc", "PG": "pg", "PPO": "ppo-paper", "TRPO": "trpo-paper"}


@dataclass
class Arguments:
    """Measure and print one row per task."""

    tasks: tuple[str, ...] = tuple(LABELS)
    seeds: int = 5
    episodes: int = 4
    """Episodes of each seed's policy."""
    out: Path = RESULTS / "initial-policy/untrained.json"


def returns(task_name: str, output_scale: float, init_std: float, seeds: int, episodes: int) -> list[list[float]]:
    """[seed][episode], actions sampled."""
    by_seed = []
    for seed in range(seeds):
        settings = {"seed": seed, "policy": {"output_scale": output_scale, "init_std": init_std}}
        config = make_config(task_name, "es", "paper", settings)
        task = make_task(config)
        problem = make_problem(config, task)
        theta = problem.policy.init(generator(seed, Purpose.INIT))
        with Cpu().make(task, problem, members=episodes) as engine:
            rollouts = engine.rollout(theta, Episodes.unperturbed(0, episodes, Stream.EVALUATE))
            by_seed.append([round(float(value), 3) for value in rollouts.returns])
    return by_seed


def table(raw: dict[str, dict[str, list[list[float]]]]) -> str:
    """Mean ± standard deviation over seeds, by task and start, beside what the paper prints."""
    rows = []
    for task, starts in raw.items():
        per_seed = [np.mean(by_seed, axis=1) for by_seed in starts.values()]
        cells = [f"{mine.mean():.4g} ± {mine.std(ddof=1):.2g}" for mine in per_seed]
        rows.append(
            [LABELS.get(task, task), *cells, *(SCORES.get((task, method), "") for method in HARDLY_LEARN.values())]
        )
    return "\n".join(markdown_lines(["task", *STARTS, *(f"paper: {name}" for name in HARDLY_LEARN)], rows))


def main() -> None:
    arguments = tyro.cli(Arguments)
    raw = {}
    for task in arguments.tasks:
        raw[task] = {name: returns(task, *start, arguments.seeds, arguments.episodes) for name, start in STARTS.items()}
    print(table(raw))
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(raw, indent=1) + "\n")


if __name__ == "__main__":
    main()
