"""Theorem 1 as a picture."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from quell import theory
from quell.figures.style import LOOKS, new_figure, save, style_axes

DIM = 100
SAMPLES = {5: "#DB9FC0", 25: "#CC79A7", 50: "#9B4A78", 100: "#5C2245"}
"""Number of directions -> ORTHO's colour, lighter or darker: readable without hue."""
DARK = SAMPLES[100]


def variance_against_rho(path: Path | str) -> None:
    """Variance relative to ES against rho: CV, ORTHO and both together for several n/d, with rho_0 marked."""
    figure = new_figure(9, 3.9)
    left, right = figure.subplots(1, 2, sharey=True)
    _draw(left, theory.variance_ortho, f"CV or orthogonal directions (d = {DIM})", crossing=True)
    left.annotate("ORTHO", (4.2, 0.88), color=DARK, weight="bold")
    left.annotate("ρ₀: right of a dot,\nCV is lower", (1.2, 0.46), color=DARK)
    left.set_ylabel("variance relative to ES")
    _draw(right, theory.variance_ortho_cv, "CV on orthogonal directions: below either")
    right.annotate("ORTHO + CV", (0.035, 0.3), color=DARK, weight="bold")
    save(figure, Path(path))


def _draw(axes: Any, variance: Callable[[int, int, float], float], title: str, *, crossing: bool = False) -> None:
    """V[CV]/V[ES], and the same of a variance on orthogonal directions for every n; a dot where they cross."""
    rhos, cv = np.geomspace(0.03, 30, 400), LOOKS["cv"].colour
    es = [theory.variance_es(DIM, rho) for rho in rhos]
    axes.plot(rhos, theory.variance_cv(DIM) / np.array(es), color=cv, linewidth=2.5, zorder=4, label="CV")
    axes.annotate("CV, any N", (2.4, 0.2), color=cv, weight="bold")
    for n, colour in SAMPLES.items():
        ratios = [variance(DIM, n, rho) / plain for rho, plain in zip(rhos, es, strict=True)]
        axes.plot(rhos, ratios, color=colour, linewidth=2, linestyle=LOOKS["ortho"].line)
        below = ratios[0] > 0.5
        beside = {"xytext": (4, -4 if below else 4), "textcoords": "offset points", "va": "top" if below else "bottom"}
        label = "N = d" if n == DIM else f"N = d/{DIM / n:g}"
        axes.annotate(label, (rhos[0], ratios[0]), color=colour, **beside)
        if crossing:
            rho_0 = theory.threshold(DIM, n)
            height = theory.variance_cv(DIM) / theory.variance_es(DIM, rho_0)
            axes.vlines(rho_0, 0, height, color=colour, linewidth=1.2, linestyle=(0, (1, 2)))
            axes.plot(rho_0, height, "o", color=colour, markeredgecolor="white", markersize=9, zorder=5)
    axes.set(xscale="log", xlim=(0.03, 30), ylim=(0, 1.05), xlabel="ρ = action noise / parameter noise")
    axes.set_xticks([0.1, 1, 10], labels=["0.1", "1", "10"])
    style_axes(axes, title)
