"""Theorem 1 as a table: exact, simulated, and as printed."""

import itertools
from pathlib import Path

import numpy as np

from quell import theory
from quell.errors import require
from quell.figures.theory import variance_against_rho

GRID = tuple(itertools.product((10, 100), (5, 10), (0.1, 0.5, 1.0, 2.0, 10.0)))
REPEATS = 4000


def render(out: Path) -> list[Path]:
    """theorem.md and theorem.png in a folder."""
    require("plot", "`quell paper theorem`")
    out.mkdir(parents=True, exist_ok=True)
    rows = theory.table(GRID, repeats=REPEATS, rng=np.random.default_rng(0))
    (out / "theorem.md").write_text(_markdown(rows))
    variance_against_rho(out / "theorem.png")
    return [out / "theorem.md", out / "theorem.png"]


def _markdown(rows: list[dict[str, float]]) -> str:
    head = ["d", "n", "rho", "V[ES]", "simulated", "ORTHO / ES", "CV / ES", "simulated", "bound as printed", "rho_0"]
    lines = [
        "# Theorem 1",
        "",
        f"Made by `quell paper theorem`: variances in units of |alpha|²/n, {REPEATS:,} simulated gradients each.",
        "CV / ES is exact; the paper prints only the upper bound. From rho_0 on CV beats ORTHO.",
        "",
        "| " + " | ".join(head) + " |",
        "|" + "---|" * len(head),
    ]
    for row in rows:
        cells = [
            *(f"{row[name]:g}" for name in ("d", "n", "rho")),
            f"{row['es']:.5g}",
            f"{row['es_simulated']:.4g} ± {row['es_error']:.2g}",
            *(f"{row[name]:.4f}" for name in ("ortho_ratio", "cv_ratio")),
            f"{row['cv_simulated'] / row['es']:.4f} ± {row['cv_error'] / row['es']:.4f}",
            f"{row['printed_cv_ratio']:.4f}",
            f"{row['threshold']:.3f}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", "![variance relative to ES against rho](theorem.png)"]) + "\n"
