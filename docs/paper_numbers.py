"""Numbers of the paper's page, made of the records in results/paper: parts of make_numbers.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple
from functools import cache
from pathlib import Path
from statistics import median

from quell.campaign.benchmark import Grid
from quell.commands.arguments import parse
from quell.commands.paper import Arguments, planned
from quell.paper import selection
from quell.paper.cost import core_hours, expected
from quell.paper.published import SCORES
from quell.paper.scores import aggregate, astray, of_mean, paired, paired_sum
from quell.paper.scores import grid as paper_grid
from quell.paper.scores import scores as sampled
from quell.runs.record import read_group
from quell.stats import mean_std
from quell.terminal.numbers import difference, score
from quell.terminal.tables import markdown_lines

RESULTS = Path(__file__).resolve().parents[1] / "results" / "paper"
CAMPAIGNS = {
    **{"full": "paper-large-start-1", "large": "paper-large-start-1000000", "small": "paper-1000000"},
    "selection": "paper-selection-200000",
}
"""Name -> folder below results/paper."""


@cache
def campaign(name: str) -> Grid:
    return paper_grid(read_group(RESULTS / CAMPAIGNS[name]))


def ours(name: str, task: str, method: str, actions: str = "sampled") -> str:
    """Mean ± standard deviation in one of the paper's tables, or the median where a run diverged."""
    row = campaign(name)[task]
    values = (of_mean if actions == "mean" else sampled)(row[method])
    found = mean_std(values)
    if astray(row)[method] or len(values) == 1:
        return score(median(values))
    return f"{score(found.mean)} ± {score(found.std)}"


def gap(name: str, task: str, method: str) -> str:
    """A method less ES, seed by seed."""
    pair = paired(campaign(name)[task], method)
    assert pair is not None
    assert pair.difference is not None
    return difference(*astuple(pair.difference))


def seedwise(name: str, method: str, what: str) -> str:
    """The same over all tasks: chance, gain, or tasks above, not resolved and below."""
    found = paired_sum(campaign(name), method)
    assert found is not None
    if what == "verdicts":
        return "{} above, {} not resolved, {} below".format(*found.verdicts)
    interval = found.chance if what == "chance" else found.gain
    return "–" if interval is None else f"{interval:.2f}"


def against(name: str, method: str, what: str) -> str:
    """A method and ES over all tasks, seed against any seed: chance or iqm."""
    found = aggregate(campaign(name), method)
    assert found is not None
    return f"{found.improvement if what == 'chance' else found.iqm:.2f}"


def ratio(name: str, task: str) -> str:
    """CV's variance, that of ES = 1: medians over a run, from the lowest to the highest seed."""
    runs = campaign(name)[task]["cv"]
    middle = [median([value for value in run.curve["ratio"] if value is not None]) for run in runs]
    low, high = (f"{x:.0e}".replace("e+", "e") if x > 1e3 else f"{x:.2g}" for x in (min(middle), max(middle)))
    return f"{low} to {high}"


def cost(name: str) -> str:
    """Runs and core-hours of a campaign."""
    runs = sum(len(runs) for row in campaign(name).values() for runs in row.values())
    return f"{runs} runs, {core_hours(RESULTS / CAMPAIGNS[name]):.1f} core-hours"


def chosen(task: str, what: str) -> str:
    """A number of the experiment on selection."""
    (line,) = [one for one in selection.lines(read_group(RESULTS / CAMPAIGNS["selection"])) if one.task == task]
    found = {"es": line.es.mean, "es-best": line.es.best, "es-expected": line.es.expected}
    found |= {"cv": line.cv.mean, "cv-best": line.cv.best, "cv-expected": line.cv.expected}
    found |= {"printed": line.cv.best - line.es.mean, "alike": line.cv.best - line.es.best}
    if what in ("printed", "alike"):
        return f"{found[what]:+.3g}"
    return score(found[what]) if what in found else difference(*astuple(line.difference))


def luck(task: str) -> str:
    """What choosing among nine equal methods explains of the paper's gain, by its own spread."""
    (cv, std), (es, _) = (map(float, SCORES[task, method].split("±")) for method in ("cv", "es"))
    return f"{selection.luck(std, 5):.0f} of {cv - es:.0f}"


MISSING = (
    "table-es --steps 1e6 dm-quadruped-escape=1e5",
    "table-pg --steps 1e6 dm-quadruped-escape=1e5",
    "table-ppo --steps 1e6 --seeds 3",
    "table-es --methods es cv --tasks swimmer halfcheetah walker2d roboschool-pong dm-cheetah-run dm-pendulum-swingup "
    "dm-cartpole-two-poles dm-cartpole-swingup dm-cartpole-balance dm-hopper-hop lqr-302",
    "selection --steps 2e5 --tasks dm-cartpole-swingup",
    "selection --steps 1e6",
    "table-cv --steps 1e6",
    "table-runaway --steps 1e6",
)


def missing() -> str:
    """The runs of the paper's tables that are still to be made, and what they would take."""
    rows = []
    for words in MISSING:
        jobs = planned(parse(Arguments, [*words.split(), "--out", str(RESULTS)], prog="quell paper"))
        due = [job for job in jobs if not job.done]
        hours, _ = expected(RESULTS, due)
        rows.append([f"`quell paper {words}`", str(len(jobs)), str(len(jobs) - len(due)), f"{hours:.2g}"])
    return "\n".join(markdown_lines(["command", "runs", "of them done", "core-hours to go, about"], rows))


PARTS: dict[str, Callable[..., str]] = {
    part.__name__: part for part in (ours, gap, seedwise, against, ratio, cost, chosen, luck, missing)
}
