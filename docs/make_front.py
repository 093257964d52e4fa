"""What README says in numbers, made of the records in results/benchmark, and the figure above it.

python docs/make_front.py           # README.md, between its marks, and docs/figures/score-seconds.png
"""

import itertools
import math
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from marks import fill

from quell.campaign.benchmark import APART, Grid, grid, leaders, median_seconds, scores
from quell.figures.runs import score_against_seconds
from quell.runs.record import read_group
from quell.stats import mean_std, probability_of_improvement, verdict
from quell.terminal.numbers import score
from quell.terminal.tables import markdown_lines

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "benchmarks"))
from peers import OUT as PEERS  # noqa: E402
from peers import curves  # noqa: E402
from peers import read as read_peers  # noqa: E402
from regimes import DELAYS, cells, enough, mapped, share  # noqa: E402
from regimes import RESULTS as REGIMES  # noqa: E402
from seconds import OUT as SECONDS  # noqa: E402
from seconds import TARGETS, groups, reached  # noqa: E402
from seconds import read as read_seconds  # noqa: E402

BENCHMARK = ROOT / "results" / "benchmark"
METHODS = {"natural-cv": "natural-cv", "trpo": "TRPO", "ppo": "PPO", "es": "ES", "ars": "ARS"}
TASKS = ("halfcheetah", "hopper", "walker2d", "swimmer", "dm-cheetah-run", "gym:LunarLander-v3")
RACED = ("halfcheetah", "hopper", "walker2d")
TIMED = ("natural-cv", "trpo", "ppo", "es")
PEER = "sb3-ppo"


def table(found: Grid) -> str:
    """Mean ± standard deviation over seeds; bold as in the whole table."""
    rows = []
    for task in TASKS:
        known = {name: scores(found[task][name]) for name in METHODS}
        best, cells = leaders(known), []
        for name, values in known.items():
            told = mean_std(values)
            text = f"{score(told.mean)} ± {score(told.std)}"
            cells.append(f"**{text}**" if name in best else text)
        rows.append([f"`{task.removeprefix('gym:')}`", *cells])
    return "\n".join(markdown_lines(["task", *METHODS.values()], rows))


def seeds(found: Grid) -> str:
    """How the table's runs were made, in a sentence."""
    runs = [run for task in TASKS for name in METHODS for run in found[task][name]]
    (budget,), episodes = {run.config.steps for run in runs}, {len(run.final["mean_action"]) for run in runs}
    told = sorted({run.config.seed for run in runs})
    assert told == list(range(len(told)))
    assert len(episodes) == 1
    return (
        f"{budget:,} steps, seeds {told[0]} to {told[-1]}, {episodes.pop()} fresh episodes of each final policy: "
        "mean ± standard deviation. These seeds influenced the tuning, so scores are too good. Bold: the best, "
        "and all that cannot be distinguished from it."
    )


def ties(found: Grid) -> str:
    """How often the default ends above each other method, over all tasks but those on which it is ES itself."""
    both = {task: row for task, row in found.items() if task not in APART}
    told = {}
    for name in ("trpo", "ppo", "es", "ars"):
        own, theirs = ({task: scores(row[one]) for task, row in both.items()} for one in ("natural-cv", name))
        chance = probability_of_improvement(own, theirs)
        told[name] = f"{chance.value:.2f} [{chance.low:.2f}, {chance.high:.2f}]"
    apart = [
        t for t, row in both.items() if verdict(scores(row["natural-cv"]), scores(row["trpo"]))[1] in ("above", "below")
    ]
    assert not apart, "a task on which the two can be distinguished: say so"
    return (
        "* **It ties with TRPO**, which is the default without the perturbation: "
        f"over {len(both)} tasks it ends above TRPO with probability {told['trpo']}, and on no task can the two be "
        f"distinguished. It ends above PPO with {told['ppo']}, ES {told['es']}, ARS {told['ars']}."
    )


def late() -> str:
    """What mixed-cv reaches beside ES and the policy gradient, where rewards come at the end."""
    found = {cell: of for cell, of in enough(mapped(cells(read_group(REGIMES)))).items() if cell[2] == max(DELAYS)}
    own, theirs = ({str(cell): of[name] for cell, of in found.items()} for name in ("cv", "pg"))
    return (
        "* **Perturbation pays where rewards come at the end of an episode.** `--method mixed-cv` weighs ES and the "
        f"policy gradient by what they are worth. On {len(found)} tasks and policies it earns {share(found):.2f} of "
        "the better of the two, and ends above the policy gradient with "
        f"{probability_of_improvement(own, theirs):.2f}. Where rewards come sooner, it ties with linear policies and "
        "loses with networks ([the map](docs/es-or-policy-gradient.md#the-map))."
    )


def speed() -> str:
    """Seconds from the shell to a score: of each method the median, and of the default the range."""
    ours = {(task, target, method): runs for task, target, method, runs in groups(read_seconds(SECONDS))}
    if not ours:  # until the benchmark of seconds has records
        million = median_seconds(BENCHMARK)["halfcheetah", "natural-cv"]
        return f"A million steps of `halfcheetah` take the default {million:.0f} seconds on one core."
    theirs = {task: runs for (task, method), runs in curves(read_peers(PEERS)).items() if method == PEER}
    rows = []
    for task, target in dict.fromkeys((task, target) for task, target, _ in ours if task in RACED):
        runs = [[run["curve"] for run in ours.get((task, target, method), [])] for method in TIMED]
        other = theirs.get(task, [])  # its runs were stopped early
        beyond = f"over {max(run[-1][0] for run in other):.0f}" if other else ""
        cells = [*(took(one, target) for one in runs), took(other, target).replace("-", beyond)]
        rows.append([f"`{task}` {target:g}", *cells])
    heads = ["seconds from the shell to", *(METHODS[method] for method in TIMED), "SB3's PPO"]
    raced = [(method, len(runs)) for (task, _, method), runs in ours.items() if task in RACED]
    counts = [[count for method, count in raced if method == name] for name in TIMED]
    own, others = min(counts[0]), sorted(itertools.chain.from_iterable(counts[1:])) or [0]
    told = (
        f"Two idle cores, medians of fresh seeds: {own} of the default, {others[0]} to {others[-1]} of the others. "
        "SB3 has RL Zoo's settings. -: not within a million steps ([how measured](results/seconds/README.md))."
    )
    return "\n".join([*markdown_lines(heads, rows), "", told])


def took(runs: list[Any], target: float) -> str:
    """Median seconds; in brackets how many of the runs got there, if not all did."""
    if not runs:
        return ""
    found = [reached(run, target) for run in runs]
    there, middle = sum(one is not None for one in found), statistics.median(one or math.inf for one in found)
    share = "" if there in (0, len(runs)) else f" ({there} of {len(runs)})"
    return (f"{middle:.1f}" if middle < 100 else f"{middle:.0f}" if middle < math.inf else "-") + share


def parts() -> dict[str, Callable[[], str]]:
    found = grid(read_group(BENCHMARK))
    return {
        "table": lambda: f"{table(found)}\n\n{seeds(found)}",
        "ties": lambda: ties(found),
        "late": late,
        "speed": speed,
    }


def page(text: str) -> str:
    """README with every part between marks made anew."""
    made = parts()
    return fill(text, lambda name: made[name](), "make_front.py")


def figure(path: Path) -> None:
    """Score against seconds from the shell: medians and ranges over seeds, a single run of another library dotted."""
    panels: dict[str, dict[str, list[Any]]] = {task: {} for task in RACED}
    for task, _, method, runs in groups(read_seconds(SECONDS)):
        if task in panels and method in METHODS:
            panels[task][method] = [run["curve"] for run in runs]
    for (task, method), found in curves(read_peers(PEERS)).items():
        panels[task][method] = found
    score_against_seconds(panels, {task: TARGETS[task] for task in RACED}, path)


if __name__ == "__main__":
    readme = ROOT / "README.md"
    readme.write_text(page(readme.read_text()))
    figure(ROOT / "docs" / "figures" / "score-seconds.png")
