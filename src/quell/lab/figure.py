"""A measurement as a figure, and a sweep as curves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from quell.lab.report import Report
from quell.lab.summary import Interval

PALETTE = ("#555555", "#0072B2", "#D55E00", "#009E73", "#E69F00", "#56B4E9", "#CC79A7", "#000000")


def figure(reports: Sequence[Report], path: Path) -> None:
    """One report: ratios, where the variance sits, and gains. Several (a sweep): ratios against the swept value."""
    from matplotlib.figure import Figure

    path.parent.mkdir(parents=True, exist_ok=True)
    if len(reports) > 1:
        fig = Figure(figsize=(6.4, 4), layout="constrained")
        _sweep(fig.subplots(), reports)
    else:
        panels = 3 if reports[0].gains else 2
        fig = Figure(figsize=(4.4 * panels, 3.8), layout="constrained")
        axes = fig.subplots(1, panels)
        _ratios(axes[0], reports[0])
        _shares(axes[1], reports[0])
        if reports[0].gains:
            _gains(axes[2], reports[0])
    m = reports[0].measurement
    title = f"{m.point.config.task}, {m.point.where}" + (f": return {m.mean_return:.4g}" if len(reports) == 1 else "")
    fig.suptitle(title, fontsize=11)
    fig.savefig(path, dpi=110)


def _ratios(axes: Any, report: Report) -> None:
    """Total variance and the variance in the policy's metric, ES = 1."""
    names = [s.name for s in report.summaries]
    for offset, field, colour, label in (
        (-0.13, "ratio", "#D55E00", "all of theta"),
        (0.13, "fisher_ratio", "#0072B2", "policy's (Fisher) metric"),
    ):
        for y, s in enumerate(report.summaries):
            x: Interval = getattr(s, field)
            if math.isfinite(x.value) and x.value > 0:
                axes.plot([max(x.low, 1e-9), x.high], [y + offset] * 2, color=colour, linewidth=2.5, alpha=0.5)
                axes.plot(x.value, y + offset, "o", color=colour, markersize=6, label=label if y == 0 else None)
    axes.axvline(1, color="#888888", linewidth=1, linestyle=(0, (4, 3)))
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xscale("log")
    _style(axes, "variance relative to ES")
    axes.legend(frameon=False, fontsize=8, loc="best")


def _shares(axes: Any, report: Report) -> None:
    """Where the variance that is left sits."""
    layers = list(report.summaries[0].share)
    for y, s in enumerate(report.summaries):
        left = 0.0
        for layer, colour in zip(layers, _ramp(len(layers)), strict=True):
            width = s.share[layer] if math.isfinite(s.share[layer]) else 0.0
            axes.barh(y, width, left=left, color=colour, height=0.7, label=layer if y == 0 else None)
            left += width
    axes.set_yticks(range(len(report.summaries)), [s.name for s in report.summaries])
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    _style(axes, "share of the variance per layer")
    axes.legend(frameon=False, fontsize=8, ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.12))


def _gains(axes: Any, report: Report) -> None:
    """Change of return after one step, per kind of step and estimator."""
    groups = list(dict.fromkeys((g.kind, g.size) for g in report.gains))
    names = list(dict.fromkeys(g.name for g in report.gains))
    for g in report.gains:
        k = names.index(g.name)
        y = groups.index((g.kind, g.size)) + (k - (len(names) - 1) / 2) * 0.2
        colour = PALETTE[k % len(PALETTE)]
        axes.plot([g.gain.low, g.gain.high], [y, y], color=colour, linewidth=2.5, alpha=0.5)
        first = groups.index((g.kind, g.size)) == 0
        axes.plot(g.gain.value, y, "o", color=colour, markersize=6, label=g.name if first else None)
    axes.axvline(0, color="#888888", linewidth=1, linestyle=(0, (4, 3)))
    axes.set_yticks(range(len(groups)), [f"{kind} {size:g}" for kind, size in groups])
    axes.invert_yaxis()
    _style(axes, "change of return after one step")
    axes.legend(frameon=False, fontsize=8)


def _sweep(axes: Any, reports: Sequence[Report]) -> None:
    values = [float(r.label.partition("=")[2]) for r in reports]
    names = [s.name for s in reports[0].summaries]
    for name, colour in zip(names, PALETTE * 3, strict=False):
        found = [next(s for s in r.summaries if s.name == name).ratio for r in reports]
        axes.plot(values, [x.value for x in found], "o-", color=colour, label=name, linewidth=2)
        axes.fill_between(values, [x.low for x in found], [x.high for x in found], color=colour, alpha=0.2, linewidth=0)
    axes.set_yscale("log")
    if min(values) > 0 and max(values) / min(values) > 5:
        axes.set_xscale("log")
    name = reports[0].label.partition("=")[0]
    axes.set_xlabel({"std": "action std", "pairs": "pairs per iteration (N)"}.get(name, name))
    axes.set_ylabel("variance relative to ES")
    _style(axes, "")
    axes.legend(frameon=False, fontsize=8)


def _ramp(count: int) -> list[str]:
    """Colours from dark to light, readable without hue."""
    tones = ["#00304F", "#00629B", "#3A8FC7", "#6DB1DC", "#A6D0EA", "#F0B27A", "#D55E00", "#7A3500"]
    return [tones[i % len(tones)] for i in range(count)]


def _style(axes: Any, title: str) -> None:
    axes.set_title(title, loc="left", fontsize=10)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
