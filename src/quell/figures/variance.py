"""What `quell variance` measured: one point as ratios, shares and gains, or a sweep as curves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quell.figures.style import GREY, SHADES, looks, new_figure, save, style_axes

if TYPE_CHECKING:
    from quell.lab.report import Report

DASHED = {"color": GREY, "linewidth": 1, "linestyle": (0, (4, 3))}


def variance_figure(reports: Sequence[Report], path: Path) -> None:
    """One report: ratios, where the variance sits, and gains. Several (a sweep): ratios against the swept value."""
    measurement = reports[0].measurement
    title = f"{measurement.point.config.task}, {measurement.point.where}"
    if len(reports) > 1:
        figure = new_figure(6.4, 4)
        _sweep(figure.subplots(), reports)
    else:
        title += f": return {measurement.mean_return:.4g}"
        draws = [_ratios, _shares, _gains] if reports[0].gains else [_ratios, _shares]
        figure = new_figure(4.4 * len(draws), 3.8)
        for axes, draw in zip(figure.subplots(1, len(draws)), draws, strict=True):
            draw(axes, reports[0])
    figure.suptitle(title, fontsize=11)
    save(figure, path)


def _ratios(axes: Any, report: Report) -> None:
    """Total variance and the variance in the policy's metric, ES = 1."""
    from matplotlib.lines import Line2D

    used = looks(s.name for s in report.summaries)
    kinds = (
        ("ratio", "all of theta", -0.13, "o", None),
        ("fisher_ratio", "policy's (Fisher) metric", 0.13, "D", "white"),
    )
    for field, _, offset, marker, face in kinds:
        for y, s in enumerate(report.summaries):
            ratio, colour = getattr(s, field), used[s.name].colour
            if math.isfinite(ratio.value) and ratio.value > 0:
                reach = [max(ratio.low, 1e-9), ratio.high]
                axes.plot(reach, [y + offset] * 2, color=colour, linewidth=2.5, alpha=0.5)
                axes.plot(ratio.value, y + offset, marker, color=colour, markersize=6, markerfacecolor=face or colour)
    axes.axvline(1, **DASHED)
    axes.set_yticks(range(len(used)), list(used))
    axes.invert_yaxis()
    axes.set_xscale("log")
    style_axes(axes, "variance relative to ES")
    handles = [
        Line2D([], [], linestyle="", marker=marker, color=GREY, markerfacecolor=face or GREY, label=label)
        for _, label, _, marker, face in kinds
    ]
    axes.legend(handles=handles, frameon=False, fontsize=8, loc="best")


def _shares(axes: Any, report: Report) -> None:
    """Where the variance that is left sits."""
    for y, s in enumerate(report.summaries):
        left = 0.0
        for number, (layer, share) in enumerate(s.share.items()):
            width = share if math.isfinite(share) else 0.0
            shade = SHADES[number % len(SHADES)]
            axes.barh(y, width, left=left, color=shade, height=0.7, label=layer if y == 0 else None)
            left += width
    axes.set_yticks(range(len(report.summaries)), [s.name for s in report.summaries])
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    style_axes(axes, "share of the variance per layer")
    axes.legend(frameon=False, fontsize=8, ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.12))


def _gains(axes: Any, report: Report) -> None:
    """Change of return after one step, per kind of step and estimator."""
    groups = list(dict.fromkeys((g.kind, g.size) for g in report.gains))
    used = looks(g.name for g in report.gains)
    for g in report.gains:
        place, colour = groups.index((g.kind, g.size)), used[g.name].colour
        y = place + (list(used).index(g.name) - (len(used) - 1) / 2) * 0.2
        axes.plot([g.gain.low, g.gain.high], [y, y], color=colour, linewidth=2.5, alpha=0.5)
        axes.plot(g.gain.value, y, "o", color=colour, markersize=6, label=g.name if place == 0 else None)
    axes.axvline(0, **DASHED)
    axes.set_yticks(range(len(groups)), [f"{kind} {size:g}" for kind, size in groups])
    axes.invert_yaxis()
    style_axes(axes, "change of return after one step")
    axes.legend(frameon=False, fontsize=8)


def _sweep(axes: Any, reports: Sequence[Report]) -> None:
    """Ratios against the value that was swept."""
    swept = reports[0].label.partition("=")[0]
    values = [float(report.label.partition("=")[2]) for report in reports]
    ratios = [{s.name: s.ratio for s in report.summaries} for report in reports]
    for name, look in looks(ratios[0]).items():
        own = [one[name] for one in ratios]
        axes.plot(values, [x.value for x in own], "o", linestyle=look.line, color=look.colour, label=name, linewidth=2)
        axes.fill_between(
            values, [x.low for x in own], [x.high for x in own], color=look.colour, alpha=0.2, linewidth=0
        )
    axes.set_yscale("log")
    if min(values) > 0 and max(values) / min(values) > 5:
        axes.set_xscale("log")
    axes.set_xlabel({"std": "action std", "pairs": "pairs per iteration (N)"}.get(swept, swept))
    axes.set_ylabel("variance relative to ES")
    style_axes(axes)
    axes.legend(frameon=False, fontsize=8)
