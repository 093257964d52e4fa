"""What a notebook shows of a run: a few lines and its curve, without a library to draw it."""

import html
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

WIDTH, HEIGHT = 360, 90
Points = list[tuple[float, float]]


Curve = Mapping[str, Sequence[float | None]]


def as_html(lines: Sequence[str], curve: Curve) -> str:
    """The lines, the first in bold, and returns over steps: of the batches (grey), and of mean actions (blue)."""
    head, *rest = (html.escape(line) for line in lines)
    return f"<div><b>{head}</b><br>{'<br>'.join(rest)}{_drawn(curve)}</div>"


def _drawn(curve: Curve) -> str:
    """An SVG; nothing where there are not two points."""
    lines = [(_points(curve, name), colour) for name, colour in (("return", "#9aa0a6"), ("mean_action", "#3367d6"))]
    known = [point for points, _ in lines for point in points]
    if len(known) < 2:
        return ""
    low, high = np.min(known, axis=0), np.max(known, axis=0)
    scale = np.array([WIDTH, HEIGHT]) / np.where(high > low, high - low, 1.0)
    drawn = "".join(_line(points, low, scale, colour) for points, colour in lines)
    words = f"returns from {low[1]:.6g} to {high[1]:.6g} over {int(high[0]):,} steps"
    box = f'viewBox="-4 -4 {WIDTH + 8} {HEIGHT + 8}" width="{WIDTH}" height="{HEIGHT}" role="img"'
    return f'<br><svg xmlns="http://www.w3.org/2000/svg" {box}><title>{words}</title>{drawn}</svg>'


def _points(curve: Curve, name: str) -> Points:
    pairs = zip(curve["steps"], curve[name], strict=True)
    return [(x, y) for x, y in pairs if x is not None and y is not None and math.isfinite(y)]


def _line(points: Points, low: Any, scale: Any, colour: str) -> str:
    placed = (np.asarray(points).reshape(-1, 2) - low) * scale
    path = " ".join(f"{x:.1f},{HEIGHT - y:.1f}" for x, y in placed)
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
