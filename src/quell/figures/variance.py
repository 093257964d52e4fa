"""What `quell variance` measured: one point as ratios, shares and gains, or a sweep as curves.

Drawn from a measurement's plain values, as its JSON file has them, so that a figure can be made again from the file.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from quell.figures.style import GREY, SHADES, looks, new_figure, save, style_axes

Values = Mapping[str, Any]
DASHED = {"color": GREY, "linewidth": 1, "linestyle": (0, (4, 3))}
KINDS = {"ratio": ("all of theta", -0.13, "o", None), "fisher_ratio": ("policy's (Fisher) metric", 0.13, "D", "white")}
"""Field of a row -> label, place beside the row, marker and its face."""


def variance_figure(measurements: Sequence[Values], path: Path) -> None:
    """One measurement: ratios, where the variance sits, and gains. Several: ratios against the swept value."""
    first = measurements[0]
    title = f"{first['task']}, {first['at']}"
    if len(measurements) > 1:
        figure = new_figure(6.4, 4)
        _sweep(figure.subplots(), measurements)
    else:
        title += f": return {first['mean_return']:.4g}"
        draws = [_ratios, _shares, _gains] if first["gains"] else [_ratios, _shares]
        figure = new_figure(4.4 * len(draws), 3.8)
        for axes, draw in zip(figure.subplots(1, len(draws)), draws, strict=True):
            draw(axes, first)
    figure.suptitle(title, fontsize=11)
    save(figure, path)


def _ratios(axes: Any, measurement: Values) -> None:
    """Total variance and the variance in the policy's metric, ES = 1."""
    from matplotlib.lines import Line2D

    used, handles = looks(row["name"] for row in measurement["rows"]), []
    for field, (label, offset, marker, face) in KINDS.items():
        for y, row in enumerate(measurement["rows"]):
            ratio, colour = row[field], used[row["name"]].colour
            if ratio["value"] is not None and ratio["value"] > 0:
                reach = [max(ratio["low"], 1e-9), ratio["high"]]
                axes.plot(reach, [y + offset] * 2, color=colour, linewidth=2.5, alpha=0.5)
                dot = {"marker": marker, "markersize": 6, "markerfacecolor": face or colour}
                axes.plot(ratio["value"], y + offset, color=colour, **dot)
        handles.append(Line2D([], [], ls="", marker=marker, color=GREY, markerfacecolor=face or GREY, label=label))
    axes.axvline(1, **DASHED)
    axes.set_xscale("log")
    _rows(axes, list(used))
    style_axes(axes, "variance relative to ES")
    axes.legend(handles=handles, frameon=False, fontsize=8, loc="best")


def _shares(axes: Any, measurement: Values) -> None:
    """Where the variance that is left sits."""
    for y, row in enumerate(measurement["rows"]):
        left = 0.0
        for number, (layer, share) in enumerate(row["share"].items()):
            shade = SHADES[number % len(SHADES)]
            axes.barh(y, share or 0.0, left=left, color=shade, height=0.7, label=layer if y == 0 else None)
            left += share or 0.0
    axes.set_xlim(0, 1)
    _rows(axes, [row["name"] for row in measurement["rows"]])
    style_axes(axes, "share of the variance per layer")
    axes.legend(frameon=False, fontsize=8, ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.12))


def _gains(axes: Any, measurement: Values) -> None:
    """Change of return after one step, per kind of step and estimator."""
    steps = list(dict.fromkeys(f"{one['kind']} {one['size']:g}" for one in measurement["gains"]))
    used = looks(one["name"] for one in measurement["gains"])
    for one in measurement["gains"]:
        place, colour, gain = steps.index(f"{one['kind']} {one['size']:g}"), used[one["name"]].colour, one["gain"]
        y = place + (list(used).index(one["name"]) - (len(used) - 1) / 2) * 0.2
        axes.plot([gain["low"], gain["high"]], [y, y], color=colour, linewidth=2.5, alpha=0.5)
        axes.plot(gain["value"], y, "o", color=colour, markersize=6, label=None if place else one["name"])
    axes.axvline(0, **DASHED)
    _rows(axes, steps)
    style_axes(axes, "change of return after one step")
    axes.legend(frameon=False, fontsize=8)


def _sweep(axes: Any, measurements: Sequence[Values]) -> None:
    """Ratios against the value that was swept."""
    swept = measurements[0]["label"].partition("=")[0]
    values = [float(one["label"].partition("=")[2]) for one in measurements]
    ratios = [{row["name"]: row["ratio"] for row in one["rows"]} for one in measurements]
    for name, look in looks(ratios[0]).items():
        value, low, high = ([one[name][part] for one in ratios] for part in ("value", "low", "high"))
        axes.plot(values, value, marker="o", linestyle=look.line, color=look.colour, label=name, linewidth=2)
        axes.fill_between(values, low, high, color=look.colour, alpha=0.2, linewidth=0)
    axes.set_yscale("log")
    if min(values) > 0 and max(values) / min(values) > 5:
        axes.set_xscale("log")
    axes.set_xlabel({"std": "action std", "pairs": "pairs per iteration (N)"}.get(swept, swept))
    axes.set_ylabel("variance relative to ES")
    style_axes(axes)
    axes.legend(frameon=False, fontsize=8)


def _rows(axes: Any, names: Sequence[str]) -> None:
    """Names from top to bottom."""
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
