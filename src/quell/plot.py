"""Figures of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quell.api import Result
from quell.errors import require

Array = NDArray[Any]
METHOD_COLOURS = {
    "es": "#D55E00",
    "cv": "#0072B2",
    "ortho": "#CC79A7",
    "gcmc": "#009E73",
    "qmc": "#E69F00",
    "pg": "#56B4E9",
    "det": "#000000",
}
"""The palette of Okabe and Ito, safe for colour-blind readers; ES orange and CV blue as in the paper."""


def curves(groups: Mapping[str, Sequence[Result]], path: Path | str, *, title: str = "") -> None:
    """Learning curves (mean and standard deviation over seeds) and the gradient's variance, one colour per group."""
    require("plot", "a figure")
    from matplotlib.figure import Figure  # not pyplot: nothing global, no window
    from matplotlib.ticker import EngFormatter

    figure = Figure(figsize=(9, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for number, (label, results) in enumerate(groups.items()):
        colour = colour_of(label, number)
        steps, returns = _on_common_steps(results, "return/mean")
        mean, std = returns.mean(axis=0), returns.std(axis=0)
        left.plot(steps, mean, color=colour, label=label)
        left.fill_between(steps, mean - std, mean + std, color=colour, alpha=0.2, linewidth=0)
        steps, own = _on_common_steps(results, "variance/method")
        _, plain = _on_common_steps(results, "variance/es")
        if len(steps):
            right.plot(steps, _smooth(own.mean(axis=0)) / _smooth(plain.mean(axis=0)), color=colour, label=label)
    left.set(xlabel="environment steps", ylabel="return while training")
    right.set(xlabel="environment steps", ylabel="gradient variance, ES = 1", yscale="log")
    left.legend(frameon=False)
    for axes in (left, right):
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
    if title:
        figure.suptitle(title)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def colour_of(method: str, number: int = 0) -> str:
    """A method's own colour; for other labels, one by `number`, counting from behind ES and CV."""
    return METHOD_COLOURS.get(method, list(METHOD_COLOURS.values())[(number + 2) % len(METHOD_COLOURS)])


def _on_common_steps(results: Sequence[Result], metric: str) -> tuple[Array, Array]:
    """A metric of several runs, interpolated to 200 common points: (steps [k], values [runs, k])."""
    series = []
    for result in results:
        rows = [row for row in result.history if row.get(metric) is not None]
        if rows:
            series.append((np.array([row["steps"] for row in rows]), np.array([row[metric] for row in rows])))
    if not series:
        return np.empty(0), np.empty((0, 0))
    common = np.linspace(max(s[0] for s, _ in series), min(s[-1] for s, _ in series), 200)
    return common, np.stack([np.interp(common, s, values) for s, values in series])


def _smooth(values: Array, width: int = 15) -> Array:
    """Running mean, shorter at the ends: single-batch variances from a handful of pairs are noisy."""
    kernel = np.ones(min(width, len(values)))
    return np.convolve(values, kernel, "same") / np.convolve(np.ones(len(values)), kernel, "same")
