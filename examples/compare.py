"""Train plain ES and the control variate on one task, three seeds each, and compare them. About two minutes on 2 cores.

`make run` runs this; `python examples/compare.py --help` shows what can be changed.
"""

from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev

import tyro
from rich.console import Console
from rich.table import Table

import quell
from quell.figures import curves


@dataclass
class Arguments:
    task: str = "hopper"
    steps: int = 200_000
    seeds: int = 3
    out: Path = Path("runs")


def variance_ratio(result: quell.Result) -> float:
    """The method's gradient variance over the whole run, in units of plain ES on the same batches."""
    return sum(row["variance/method"] for row in result.history) / sum(row["variance/es"] for row in result.history)


def main(arguments: Arguments) -> None:
    runs: dict[str, list[quell.Result]] = {"es": [], "cv": []}
    for seed in range(arguments.seeds):
        for method, done in runs.items():
            done.append(quell.train(arguments.task, method=method, steps=arguments.steps, seed=seed, out=arguments.out))

    table = Table(title=f"{arguments.task}, {arguments.steps:,} steps, {arguments.seeds} seeds")
    for heading in ("method", "return", "mean action", "variance (ES = 1)", "seconds per run"):
        table.add_column(heading, justify="left" if heading == "method" else "right")
    for method, done in runs.items():
        finals = [result.last("eval/return") for result in done]
        table.add_row(
            method,
            f"{mean(finals):.0f} ± {stdev(finals):.0f}" if len(finals) > 1 else f"{finals[0]:.0f}",
            f"{mean(result.last('eval/mean_action') for result in done):.0f}",
            f"{mean(map(variance_ratio, done)):.3f}",
            f"{mean(result.last('seconds') for result in done):.1f}",
        )
    Console().print(table)

    figure = arguments.out / f"compare-{arguments.task}.png"
    curves(runs, figure, title=f"{arguments.task}: ES with and without the control variate")
    print(f"figure       {figure}\nrun folders  {arguments.out / arguments.task}")


if __name__ == "__main__":
    main(tyro.cli(Arguments))
