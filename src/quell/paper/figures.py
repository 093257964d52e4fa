"""Figures as PNG and SVG; the same data gives the same files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quell.paper.plan import Entry
from quell.paper.scores import Grid, improvement
from quell.paper.summary import Summary
from quell.paper.tables import label
from quell.plot import colour_of

Array = NDArray[Any]
FORMATS = ("png", "svg")
HATCHES = {"es": "", "ortho": "//", "gcmc": "..", "qmc": "xx", "cv": ""}
LINES = {"es": "-", "ortho": "--", "gcmc": "-.", "qmc": ":", "cv": "-"}
"""Methods differ in more than colour."""
SHOWN = (-1.0, 3.0)
"""Range of the bars; those beyond carry their value."""


def curves(entry: Entry, found: Grid, path: Path) -> None:
    """One panel per task: return while training, mean and standard deviation over seeds."""
    from matplotlib.ticker import EngFormatter

    columns = min(4, len(found))
    rows = -(-len(found) // columns)
    figure = _figure(2.6 * columns + 0.4, 2.15 * rows + 0.5)
    panels = np.ravel(figure.subplots(rows, columns, squeeze=False))
    for axes in panels[len(found) :]:
        axes.set_visible(False)
    for axes, (task, row) in zip(panels, found.items(), strict=False):
        for method in (name for name in entry.methods if name in row):
            steps, returns = on_common_steps(row[method])
            mean, std = returns.mean(axis=0), returns.std(axis=0, ddof=min(1, len(returns) - 1))
            look = {"linestyle": LINES.get(method, "-"), "marker": "o" if len(set(steps)) == 1 else None}
            axes.plot(steps, mean, color=colour_of(method), linewidth=1.5, markersize=3, **look)
            axes.fill_between(steps, mean - std, mean + std, color=colour_of(method), alpha=0.18, linewidth=0)
        if _is_wide(axes.get_ylim()):
            axes.set_yscale("symlog", linthresh=1e3)
            means = np.concatenate([line.get_ydata() for line in axes.lines])
            axes.set_ylim(means.min() * 10, means.max() + abs(means.max()) / 2)
        axes.set_title(label(task), fontsize=10)
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
        _style(axes)
    used = [method for method in entry.methods if any(method in row for row in found.values())]
    figure.legend(handles=[_handle(method) for method in used], loc="outside upper center", ncols=6, frameon=False)
    figure.supxlabel("environment steps", fontsize=9)
    figure.supylabel("return while training", fontsize=9)
    _save(figure, path)


def bars(entry: Entry, found: Grid, path: Path) -> None:
    """(r - r_random) / (r_es - r_random) per task and method; a task on which ES did not learn says so."""
    methods = [method for method in entry.methods if any(method in row for row in found.values())]
    tasks = [task for task, row in found.items() if "es" in row]
    figure = _figure(max(5.0, 0.56 * len(tasks) + 1.2), 3.6)
    axes = figure.subplots()
    width = 0.8 / max(1, len(methods))
    for place, task in enumerate(tasks):
        if improvement(found[task], "es") is None:
            axes.text(place, 0.05, "ES did not\nimprove", ha="center", va="bottom", fontsize=7, rotation=90)
            continue
        for number, method in enumerate(methods):
            if method in found[task]:
                x = place + (number - (len(methods) - 1) / 2) * width
                _bar(axes, x, width, method, improvement(found[task], method))
    axes.axhline(1, color="0.4", linewidth=0.8, linestyle="--")
    axes.axhline(0, color="0.4", linewidth=0.8)
    axes.set_xticks(range(len(tasks)), [label(task) for task in tasks], rotation=35, ha="right", fontsize=8)
    axes.set(ylim=SHOWN, ylabel="(r − r_random) / (r_ES − r_random)")
    _style(axes)
    handles = [_handle(method, bar=True) for method in methods]
    figure.legend(handles=handles, loc="outside upper center", ncols=6, frameon=False)
    _save(figure, path)


def _bar(axes: Any, x: float, width: float, method: str, value: Any) -> None:
    low, high = SHOWN
    shown = float(np.clip(value.mean, low, high))
    colours = {"color": colour_of(method), "edgecolor": "white", "linewidth": 0.4}
    axes.bar(x, shown, width, hatch=HATCHES.get(method, ""), **colours)
    if shown != value.mean:
        axes.text(
            x,
            shown * 0.97,
            f"{value.mean:.3g}",
            rotation=90,
            ha="center",
            va="top" if shown > 0 else "bottom",
            fontsize=6,
        )
    elif np.isfinite(value.std):
        axes.errorbar(x, shown, value.std, color="0.2", linewidth=0.8, capsize=1.5, clip_on=True)


def on_common_steps(runs: list[Summary], points: int = 100) -> tuple[Array, Array]:
    """Curves of several runs at common steps: (steps [k], returns [runs, k])."""
    series = []
    for run in runs:
        kept = [(x, y) for x, y in zip(run.curve["steps"], run.curve["return"], strict=True) if y is not None]
        series.append(np.array(kept, float).reshape(-1, 2).T)
    series = [s for s in series if s.size]
    if not series:
        return np.empty(0), np.empty((0, 0))
    common = np.linspace(max(s[0, 0] for s in series), min(s[0, -1] for s in series), points)
    return common, np.stack([np.interp(common, *s) for s in series])


def _figure(width: float, height: float) -> Any:
    from matplotlib.figure import Figure  # not pyplot: nothing global, no window

    return Figure(figsize=(width, height), layout="constrained")


def _is_wide(limits: tuple[float, float]) -> bool:
    """Whether returns span so many powers of ten (an LQR that blows up) that a linear axis shows nothing."""
    return max(abs(limits[0]), abs(limits[1])) > 1e6


def _handle(method: str, *, bar: bool = False) -> Any:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    if bar:
        hatch = HATCHES.get(method, "")
        return Patch(facecolor=colour_of(method), edgecolor="white", hatch=hatch, label=method.upper())
    return Line2D([], [], color=colour_of(method), linestyle=LINES.get(method, "-"), label=method.upper())


def _style(axes: Any) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    axes.tick_params(labelsize=8)


def _save(figure: Any, path: Path) -> None:
    """Without anything that differs from one time to the next: no date, no version, fixed ids."""
    import matplotlib

    with matplotlib.rc_context({"svg.hashsalt": "quell", "svg.fonttype": "none"}):
        figure.savefig(path.with_suffix(".svg"), metadata={"Date": None, "Creator": None})
        figure.savefig(path.with_suffix(".png"), dpi=130, metadata={"Software": None})
