"""Theorem 1 as a picture."""

from pathlib import Path
from typing import Any

import numpy as np

from quell import theory
from quell.figures.style import LOOKS, new_figure, save, style_axes
from quell.types import Array

DIM = 100
SAMPLES = {5: "#DB9FC0", 25: "#CC79A7", 50: "#9B4A78", 100: "#5C2245"}
"""Number of directions -> ORTHO's colour, lighter or darker: readable without hue."""
DARK = SAMPLES[100]


def variance_against_rho(path: Path | str) -> None:
    """Variance relative to ES against rho: CV, ORTHO and both together for several n/d, with rho_0 marked."""
    rhos = np.geomspace(0.03, 30, 400)
    figure = new_figure(9, 3.9)
    left, right = figure.subplots(1, 2, sharey=True)
    _draw_theorem(left, rhos)
    _draw_combined(right, rhos)
    save(figure, Path(path))


def _draw_theorem(axes: Any, rhos: Array) -> None:
    """V[CV]/V[ES] and V[ORTHO]/V[ES]; a dot where they cross."""
    _draw_cv(axes, rhos)
    for n, colour in SAMPLES.items():
        _draw_ortho(axes, rhos, [theory.variance_ortho(DIM, n, rho) / theory.variance_es(DIM, rho) for rho in rhos], n)
        rho_0 = theory.threshold(DIM, n)
        height = theory.variance_cv(DIM) / theory.variance_es(DIM, rho_0)
        axes.vlines(rho_0, 0, height, color=colour, linewidth=1.2, linestyle=(0, (1, 2)))
        axes.plot(rho_0, height, "o", color=colour, markeredgecolor="white", markersize=9, zorder=5)
    axes.annotate("ORTHO", (4.2, 0.88), color=DARK, weight="bold")
    axes.annotate("ρ₀: right of a dot,\nCV is lower", (1.2, 0.46), color=DARK)
    _style(axes, f"CV or orthogonal directions (d = {DIM})")
    axes.set_ylabel("variance relative to ES")


def _draw_combined(axes: Any, rhos: Array) -> None:
    """V[ORTHO+CV]/V[ES] at the best shared eta."""
    _draw_cv(axes, rhos)
    for n in SAMPLES:
        both = [theory.variance_ortho_cv(DIM, n, rho) / theory.variance_es(DIM, rho) for rho in rhos]
        _draw_ortho(axes, rhos, both, n)
    axes.annotate("ORTHO + CV", (0.035, 0.3), color=DARK, weight="bold")
    _style(axes, "CV on orthogonal directions: below either")


def _draw_cv(axes: Any, rhos: Array) -> None:
    look = LOOKS["cv"]
    ratios = [theory.variance_cv(DIM) / theory.variance_es(DIM, rho) for rho in rhos]
    axes.plot(rhos, ratios, color=look.colour, linewidth=2.5, zorder=4, label="CV")
    axes.annotate("CV, any N", (2.4, 0.2), color=look.colour, weight="bold")


def _draw_ortho(axes: Any, rhos: Array, ratios: list[float], n: int) -> None:
    axes.plot(rhos, ratios, color=SAMPLES[n], linewidth=2, linestyle=LOOKS["ortho"].line)
    below = ratios[0] > 0.5
    beside = {"xytext": (4, -4 if below else 4), "textcoords": "offset points", "va": "top" if below else "bottom"}
    label = "N = d" if n == DIM else f"N = d/{DIM / n:g}"
    axes.annotate(label, (rhos[0], ratios[0]), color=SAMPLES[n], **beside)


def _style(axes: Any, title: str) -> None:
    axes.set(xscale="log", xlim=(0.03, 30), ylim=(0, 1.05), xlabel="ρ = action noise / parameter noise")
    axes.set_xticks([0.1, 1, 10], labels=["0.1", "1", "10"])
    style_axes(axes, title)
