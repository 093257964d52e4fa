"""Grouped bars: improvement over the untrained policy, ES = 1."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from quell.figures.style import GREY, Look, looks, new_figure, save, style_axes
from quell.stats import MeanStd

SHOWN = (-1.0, 3.0)
"""Range of the bars; those beyond carry their value."""


def improvement_bars(tasks: Mapping[str, Mapping[str, MeanStd] | None], methods: Sequence[str], *paths: Path) -> None:
    """(r - r_random) / (r_es - r_random) per task and method; None stands for a task on which ES did not learn."""
    from matplotlib.patches import Patch

    figure = new_figure(max(5.0, 0.56 * len(tasks) + 1.2), 3.6)
    axes, used = figure.subplots(), looks(methods)
    width = 0.8 / max(1, len(methods))
    for place, values in enumerate(tasks.values()):
        if values is None:
            axes.text(place, 0.05, "ES did not\nimprove", ha="center", va="bottom", fontsize=7, rotation=90)
            continue
        for number, method in enumerate(methods):
            if method in values:
                _bar(axes, place + (number - (len(methods) - 1) / 2) * width, width, used[method], values[method])
    axes.axhline(1, color=GREY, linewidth=0.8, linestyle="--")
    axes.axhline(0, color=GREY, linewidth=0.8)
    axes.set_xticks(range(len(tasks)), list(tasks), rotation=35, ha="right", fontsize=8)
    axes.set(ylim=SHOWN, ylabel="(r − r_random) / (r_ES − r_random)")
    style_axes(axes)
    handles = [
        Patch(facecolor=look.colour, edgecolor="white", hatch=look.hatch, label=name.upper())
        for name, look in used.items()
    ]
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
