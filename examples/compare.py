"""What the control variate is worth: at one policy, then over whole runs. 90 seconds of processor time.

1. One gradient at an untrained policy, ES against the control variate: its noise, and what a step along it gains.
2. Learning: the default, TRPO (the same without the perturbation) and ES with their own tuned settings, four seeds
   each, 20 fresh episodes of every final policy, what the seeds allow to say (an exact rank test), curves and a film.

`make run` runs this; `python examples/compare.py --help` shows what can be changed.
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

import numpy as np
from rich.console import Console
from rich.table import Table

import quell
from quell.cli import guarded
from quell.commands.arguments import parse
from quell.figures import curves
from quell.runs.record import variance_ratio
from quell.stats import mean_std, verdict
from quell.video import film

METHODS = {"natural-cv": "the default", "trpo": "unperturbed", "es": "Adam"}


@dataclass
class Arguments:
    task: str = "halfcheetah"
    steps: int = 100_000
    """Of each run."""
    seeds: int = 4
    episodes: int = 20
    """Of each final evaluation."""
    estimates: int = 24
    """Gradients to step along in the first part (0: leave it out)."""
    out: Path = Path("runs")


def at_one_policy(arguments: Arguments) -> None:
    """Variance and gain of single gradients of four episodes each, both estimators on the same episodes."""
    report = quell.variance(
        arguments.task,
        methods=["natural-cv"],
        preset="tuned",
        pairs=max(40, 2 * arguments.estimates),
        warmup=20,
        settings={"pairs": 2, "normalise_obs": True, "policy.activation": "tanh", "policy.init_std": 0.37},
        gain=["natural:0.05"],
        gain_methods=["es", "natural-cv"],
        gain_estimates=arguments.estimates,
    )
    ratio = report["natural-cv"].metrics["step"].ratio
    print(f"1. {arguments.task}, untrained policy, gradients from 4 episodes")
    noise, low, high = (np.format_float_positional(x, 1, fractional=False) for x in vars(ratio).values())
    print(
        f"   gradient noise relative to ES (1 = the same), in the metric of the natural step: {noise} [{low}, {high}]"
    )
    for one in report.gains:
        gain, name = one.gain, {"es": "ES", "natural-cv": "control variate"}[one.name]
        print(
            f"   return gained by a step along it:      {gain.value:+.0f} [{gain.low:+.0f}, {gain.high:+.0f}]  {name}"
        )


def learning(arguments: Arguments) -> None:
    """Whole runs, compared by what their final policies earn with mean actions."""
    print(f"2. {arguments.task}, {arguments.steps:,} steps, {arguments.seeds} seeds each")
    runs: dict[str, list[quell.Result]] = {method: [] for method in METHODS}
    for seed in range(arguments.seeds):
        for method, done in runs.items():
            done.append(quell.train(arguments.task, method=method, steps=arguments.steps, seed=seed, out=arguments.out))
    scores = {
        method: [float(quell.evaluate(r, episodes=arguments.episodes).returns.mean()) for r in done]
        for method, done in runs.items()
    }
    table = Table()
    for heading in ("method", "return", "lowest", "highest", "variance", "seconds"):
        table.add_column(heading, justify="left" if heading == "method" else "right")
    for method, done in runs.items():
        score, own = mean_std(scores[method]), scores[method]
        seconds = mean(result.last("seconds") for result in done)
        spread = f"{score.mean:.0f} ± {score.std:.0f}" if len(own) > 1 else f"{score.mean:.0f}"
        variance = variance_ratio([row for result in done for row in result.history])
        ends = f"{min(own):.0f}", f"{max(own):.0f}", "" if variance is None else f"{variance:.2g}"
        table.add_row(f"{method}  {METHODS[method]}", spread, *ends, f"{seconds:.1f}")
    Console().print(table)
    print("returns of mean actions; variance of the gradients, plain ES on the same batches = 1")
    for other in list(METHODS)[1:] if arguments.seeds > 1 else ():
        chance, said = verdict(scores["natural-cv"], scores[other])
        assert chance is not None
        told = f"{chance.value:.2f} [{chance.low:.2f}, {chance.high:.2f}]"
        print(f"a run of natural-cv ends above one of {other} with probability {told}: {said} (rank test, 5%)")
    figure = arguments.out / f"compare-{arguments.task}.png"
    curves(runs, figure, title=f"{arguments.task}: {', '.join(METHODS)}, each with its own settings")
    print(f"figure       {figure}")
    best = runs["natural-cv"][int(np.argmax(scores["natural-cv"]))]
    try:
        film(best, figure.with_suffix(".gif"), seconds=6)
        print(f"film         {figure.with_suffix('.gif')}, of the best policy")
    except quell.QuellError as error:
        print(f"no film      {error}")
    print(f"run folders  {arguments.out / arguments.task}")


def main(arguments: Arguments) -> int:
    if min(arguments.seeds, arguments.steps, arguments.episodes) < 1:
        raise quell.UsageError("--seeds, --steps and --episodes must be at least 1")
    if arguments.estimates:
        at_one_policy(arguments)
    learning(arguments)
    return 0


if __name__ == "__main__":
    sys.exit(guarded(lambda: main(parse(Arguments, sys.argv[1:], prog="compare.py"))))
