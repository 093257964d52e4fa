"""Theorem 1 as a table: exact, simulated, and as printed."""

import itertools
from pathlib import Path

import numpy as np

from quell import theory
from quell.errors import require
from quell.figures.theory import variance_against_rho
from quell.runs.files import write
from quell.terminal.tables import markdown_lines

GRID = tuple(itertools.product((10, 100), (5, 10), (0.1, 0.5, 1.0, 2.0, 10.0)))
REPEATS = 4000
HEAD = ("d", "n", "rho", "V[ES]", "simulated", "ORTHO / ES", "CV / ES", "simulated", "bound as printed", "rho_0")
CELLS = (
    *("{d:g}", "{n:g}", "{rho:g}", "{es:.5g}", "{es_simulated:.4g} ± {es_error:.2g}", "{ortho_ratio:.4f}"),
    *("{cv_ratio:.4f}", "{ratio_simulated:.4f} ± {ratio_error:.4f}", "{printed_cv_ratio:.4f}", "{threshold:.3f}"),
)
"""Under each head, a row of `theory.table`."""

PAGE = """# Theorem 1

Made by `quell paper theorem --page results/paper`: variances in units of |alpha|²/n,
{repeats:,} simulated gradients each.
CV / ES is exact; the paper prints only the upper bound. From rho_0 on CV beats ORTHO.

{table}

![variance relative to ES against rho](theorem.png)
"""


def render(out: Path) -> list[Path]:
    """theorem.md and theorem.png in a folder."""
    require("plot", "`quell paper theorem --page`")
    rows = theory.table(GRID, repeats=REPEATS, rng=np.random.default_rng(0))
    for row in rows:
        row |= {f"ratio_{name}": row[f"cv_{name}"] / row["es"] for name in ("simulated", "error")}
    lines = markdown_lines(HEAD, [[cell.format_map(row) for cell in CELLS] for row in rows])
    write(out / "theorem.md", PAGE.format(repeats=REPEATS, table="\n".join(lines)))
    variance_against_rho(out / "theorem.png")
    return [out / "theorem.md", out / "theorem.png"]
