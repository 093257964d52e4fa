"""What runs came to: learning curves, and grouped bars of what they gained over the untrained policy."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from quell.figures.style import (
    GREY,
    Look,
    draw_band,
    draw_range,
    looks,
    new_figure,
    on_common_steps,
    save,
    step_axis,
    style_axes,
)
from quell.presets import title
from quell.runs.record import Record, comparable, variance_ratio
from quell.stats import MeanStd
from quell.types import Array

if TYPE_CHECKING:
    from quell.api import Result

Panel = Mapping[str, Sequence[Record]]  # method -> its runs
Panels = Mapping[str, Panel]  # by title
Seconds = Mapping[tuple[str, str], float]  # (title, method) -> how long its runs took
WILD = 1e6  # a return beyond this: a linear axis, a mean and a deviation show nothing of the others
Timed = Sequence[Sequence[float | None]]  # (seconds, steps, score) of one run; None where nobody looked
SHOWN = (-1.0, 3.0)  # range of the bars; those beyond carry their value


def curves(groups: "Mapping[str, Sequence[Result]]", path: Path | str, *, title: str = "") -> None:
    """Learning curves (mean and standard deviation over seeds) and the gradient's variance, one colour per group.

    The variance is `variance_ratio` of equal stretches of all the group's rows, in the order of their steps.
    """
    figure = new_figure(9, 3.4)
    left, right = figure.subplots(1, 2)
    for label, look in looks(groups).items():
        draw_band(left, *on_common_steps(_series(groups[label], "return/mean")), look, label=label)
        if stretches := _stretches(comparable([row for result in groups[label] for row in result.history])):
            steps = [sum(row["steps"] for row in rows) / len(rows) for rows in stretches]
            ratios = [variance_ratio(rows) for rows in stretches]
            right.plot(steps, ratios, color=look.colour, linestyle=look.line, label=label)
    left.set(xlabel="environment steps", ylabel="return while training")
    right.set(xlabel="environment steps", ylabel="gradient variance, ES = 1", yscale="log")
    left.legend(frameon=False)
    for axes in (left, right):
        step_axis(axes)
        style_axes(axes)
    if title:
        figure.suptitle(title)
    save(figure, Path(path))


def curve_panels(
    panels: Panels,
    *paths: Path,
    upper: bool = False,
    within_reach: bool = False,
    seconds: Seconds | None = None,
    columns: int = 4,
) -> None:
    """One panel per title: return while training, mean and standard deviation over seeds. Where training episodes are
    cut, evaluations are drawn.

    `within_reach`: what falls far below where it started leaves the panel, so that the rest can be seen.
    `seconds`: drawn against time then, where that is known; a task of which it is not known has no panel.
    """
    from matplotlib.lines import Line2D

    if seconds is not None:
        timed = {task: panel for task, panel in panels.items() if any((task, name) in seconds for name in panel)}
        panels = timed or panels
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    figure = new_figure(2.6 * columns + 0.4, 2.15 * rows + 0.5)
    grid = np.ravel(figure.subplots(rows, columns, squeeze=False))
    for axes in grid[len(panels) :]:
        axes.set_visible(False)
    used = looks(method for panel in panels.values() for method in panel)
    for axes, (task, panel) in zip(grid, panels.items(), strict=False):
        if seconds is None:
            paces = dict.fromkeys(panel, 1.0)
            step_axis(axes)
        else:
            budgets = {name: max(run.config.steps for run in runs) for name, runs in panel.items()}
            paces = {name: seconds[task, name] / budgets[name] for name in panel if (task, name) in seconds}
        _panel(axes, panel, used, paces, within_reach)
        axes.set_title(f"{task}: median, range" if axes.get_yscale() == "symlog" else task, fontsize=10)
        style_axes(axes)
    names = {name: title(name) if upper else name for name in used}
    handles = [Line2D([], [], color=u.colour, linestyle=u.line, label=names[name]) for name, u in used.items()]
    figure.legend(handles=handles, loc="outside upper center", ncols=6, frameon=False)
    figure.supxlabel("environment steps" if seconds is None else "seconds of training on one core", fontsize=9)
    figure.supylabel("return while training", fontsize=9)
    save(figure, *paths)


def score_against_seconds(
    panels: Mapping[str, Mapping[str, Sequence[Timed]]], targets: Mapping[str, Sequence[float]], *paths: Path
) -> None:
    """One panel per task, seconds on a logarithmic axis: the median over a method's runs and their range. A run that
    has ended, since it reached its targets or its budget, keeps its last score. A single run is a dotted line."""
    from matplotlib.lines import Line2D
    from matplotlib.ticker import LogLocator, NullFormatter

    figure = new_figure(3.1 * len(panels) + 0.4, 3.1)
    used = looks(method for panel in panels.values() for method in panel)
    single = {method for panel in panels.values() for method, runs in panel.items() if len(runs) == 1}
    used |= {method: replace(used[method], line=":") for method in single}
    grid = np.ravel(figure.subplots(1, len(panels), squeeze=False))
    for axes, (task, panel) in zip(grid, panels.items(), strict=True):
        for method, runs in panel.items():
            draw_range(axes, *on_common_seconds(runs), used[method])
        for target in targets[task]:
            axes.axhline(target, color=GREY, linewidth=0.6, linestyle="--")
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_ylim(bottom=max(axes.get_ylim()[0], -max(targets[task]) / 4))
        axes.set_title(task, fontsize=10)
        style_axes(axes)
    handles = [Line2D([], [], color=look.colour, linestyle=look.line, label=title(n)) for n, look in used.items()]
    figure.legend(handles=handles, loc="outside upper center", ncols=6, frameon=False)
    figure.supxlabel("seconds from the shell, two cores", fontsize=9)
    figure.supylabel("return, mean actions", fontsize=9)
    save(figure, *paths)


def _panel(axes: Any, panel: Panel, used: Mapping[str, Look], paces: Mapping[str, float], within_reach: bool) -> None:
    """`paces`: method -> what a step counts on the axis below; others are not drawn."""
    starts, highest = [], []
    for method, runs in panel.items():
        steps, returns = on_common_steps([run.series("evaluation" if _evaluated(run) else "return") for run in runs])
        if len(steps) and method in paces:
            draw_band(axes, steps * paces[method], returns, used[method], ranks=np.abs(returns).max() > WILD)
            starts.append(returns[:, 0].min())
            highest.append(returns.max())
    if all(run.flat for runs in panel.values() for run in runs):
        axes.text(0.5, 0.7, "no reward was seen", transform=axes.transAxes, ha="center", fontsize=8)
    cuts = {
        name: runs[0].config.train_horizon
        for name, runs in panel.items()
        if runs and runs[0].config.train_horizon and not _evaluated(runs[0])
    }
    if 0 < len(cuts) < len(panel):  # their returns are of fewer steps than the others'
        note = "episodes cut after\n" + ", ".join(f"{title(name)} {steps}" for name, steps in cuts.items())
        axes.text(0.98, 0.03, note, transform=axes.transAxes, ha="right", fontsize=6)
    bottom, top = axes.get_ylim()
    if max(abs(bottom), abs(top)) > WILD:
        _powers(axes)
    elif within_reach and starts:
        span = max(highest) - min(starts)
        axes.set_ylim(max(bottom, min(starts) - span / 3), min(top, max(highest) + span / 20))


def _evaluated(run: Record) -> bool:
    """Whether a run's evaluations are its curve: its training episodes are cut, and earn less than whole ones."""
    return bool(run.config.train_horizon) and sum(value is not None for value in run.curve.get("evaluation", ())) > 1


def _powers(axes: Any) -> None:
    """Axes of returns over many orders of magnitude, as of an LQR that blows up: powers of ten, few of them named."""
    from matplotlib.ticker import SymmetricalLogLocator

    drawn = np.concatenate([line.get_ydata() for line in axes.lines])
    axes.set_yscale("symlog", linthresh=1e3)
    axes.set_ylim(drawn.min() * 10, drawn.max() / 100 if drawn.max() < 0 else drawn.max() * 10)
    locator = SymmetricalLogLocator(base=10, linthresh=1e3)
    locator.set_params(numticks=5)
    axes.yaxis.set_major_locator(locator)


def improvement_bars(tasks: Mapping[str, Mapping[str, MeanStd] | None], methods: Sequence[str], *paths: Path) -> None:
    """(r - r_random) / (r_es - r_random) per task and method; None stands for a task on which that is no scale."""
    from matplotlib.patches import Patch

    figure = new_figure(max(5.0, 0.56 * len(tasks) + 1.2), 3.6)
    axes, used = figure.subplots(), looks(methods)
    width = 0.8 / max(1, len(methods))
    for place, values in enumerate(tasks.values()):
        if values is None:
            axes.text(place, 0.05, "no scale", ha="center", va="bottom", fontsize=7, rotation=90)
            continue
        for number, method in enumerate(methods):
            if method in values:
                _bar(axes, place + (number - (len(methods) - 1) / 2) * width, width, used[method], values[method])
    axes.axhline(1, color=GREY, linewidth=0.8, linestyle="--")
    axes.axhline(0, color=GREY, linewidth=0.8)
    axes.set_xticks(range(len(tasks)), list(tasks), rotation=35, ha="right", fontsize=8)
    axes.set(ylim=SHOWN, ylabel="(r − r_random) / (r_ES − r_random)")
    style_axes(axes)
    handles = [Patch(facecolor=u.colour, edgecolor="white", hatch=u.hatch, label=title(n)) for n, u in used.items()]
    figure.legend(handles=handles, loc="outside upper center", ncols=6, frameon=False)
    save(figure, *paths)


def _bar(axes: Any, x: float, width: float, look: Look, value: MeanStd) -> None:
    shown = float(np.clip(value.mean, *SHOWN))
    axes.bar(x, shown, width, hatch=look.hatch, color=look.colour, edgecolor="white", linewidth=0.4)
    if shown != value.mean:
        inside = {"rotation": 90, "ha": "center", "va": "top" if shown > 0 else "bottom", "fontsize": 6}
        axes.text(x, shown * 0.97, f"{value.mean:.3g}", **inside)
    elif np.isfinite(value.std):
        axes.errorbar(x, shown, value.std, color="0.2", linewidth=0.8, capsize=1.5, clip_on=True)


def on_common_seconds(runs: Sequence[Timed], points: int = 200) -> tuple[Array, Array]:
    """(seconds [points], scores [runs, points]) from when all runs are known, evenly on a logarithmic axis. A run that
    has ended keeps its last score."""
    known = [np.array([(s, score) for s, _, score in run if score is not None], float) for run in runs]
    seconds = np.geomspace(max(one[0, 0] for one in known), max(one[-1, 0] for one in known), points)
    return seconds, np.stack([np.interp(np.log(seconds), np.log(one[:, 0]), one[:, 1]) for one in known])


def _series(results: "Sequence[Result]", metric: str) -> list[tuple[list[float], list[float]]]:
    """(steps, values) of a metric in each run that has it."""
    rows = [[row for row in result.history if row.get(metric) is not None] for result in results]
    return [([row["steps"] for row in run], [row[metric] for row in run]) for run in rows]


def _stretches(rows: "Sequence[Mapping[str, Any]]", count: int = 20) -> "list[list[Mapping[str, Any]]]":
    """Rows in the order of their steps, in at most `count` stretches: the variance of a single batch is noisy."""
    ordered = sorted(rows, key=lambda row: float(row["steps"]))
    parts = np.array_split(np.arange(len(ordered)), min(count, max(1, len(ordered))))
    return [[ordered[i] for i in part] for part in parts if len(part)]
