"""quell theory: Theorem 1, exact and simulated."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from pathlib import Path

import tyro

from quell.errors import UsageError, require

DESCRIPTION = """Theorem 1 of the paper: the variance of ES, ORTHO, RE and CV in a one-step problem, in units of
|alpha|^2 / n. One row per combination of d (parameters), n (samples) and rho (action noise / parameter noise)."""


@dataclass(frozen=True)
class Arguments:
    d: tuple[int, ...] = (10, 100, 1000)
    """Numbers of parameters."""
    n: tuple[int, ...] = (5, 50)
    """Numbers of samples (directions)."""
    rho: tuple[float, ...] = (0.1, 0.5, 1.0, 2.0, 10.0)
    """Ratios of action noise to parameter noise."""
    simulate: int = 0
    """Also measure every variance with this many independent gradients each."""
    seed: int = 0
    figure: Path | None = None
    """Draw the variance ratio against rho for several n/d into this file (needs the extra plot)."""
    json: Path | None = None
    """Write all columns of the table to this file."""


def main(arguments: list[str]) -> int:
    parsed = tyro.cli(Arguments, args=arguments, prog="quell theory", description=DESCRIPTION)
    grid = list(itertools.product(parsed.d, parsed.n, parsed.rho))
    if not grid:
        raise UsageError("--d, --n and --rho need at least one value each")
    if parsed.simulate < 0 or parsed.simulate == 1:
        raise UsageError(f"--simulate needs at least 2 repeats (0: none), got {parsed.simulate}")
    if parsed.seed < 0:
        raise UsageError(f"--seed must be at least 0, got {parsed.seed}")
    if parsed.figure is not None:
        require("plot", "`quell theory --figure`")

    import numpy as np

    from quell import theory

    for point in grid:
        theory.exact(*point)  # complain before the first simulation
    rows = theory.table(grid, repeats=parsed.simulate, rng=np.random.default_rng(parsed.seed))
    print("\n".join(_lines(rows, simulated=bool(parsed.simulate))))
    if parsed.json is not None:
        parsed.json.write_text(json.dumps(rows, indent=1) + "\n")
    if parsed.figure is not None:
        theory.figure(parsed.figure)
        print(f"figure: {parsed.figure}")
    return 0


def _lines(rows: list[dict[str, float]], *, simulated: bool) -> list[str]:
    """The table as text: variances relative to ES, then how far the simulation is off."""
    head = f"{'d':>6}{'n':>6}{'rho':>7}{'V[ES]':>11}{'V[RE]':>11}  {'ORTHO/ES':>9}{'CV/ES':>8}{'both/ES':>9}"
    head += f"{'printed':>9}{'eta*':>8}{'rho_0':>7}" + ("   worst z" if simulated else "")
    lines = [head]
    for row in rows:
        line = f"{row['d']:>6.0f}{row['n']:>6.0f}{row['rho']:>7g}{row['es']:>11.5g}{row['re']:>11.5g}  "
        line += f"{row['ortho_ratio']:>9.4f}{row['cv_ratio']:>8.4f}{row['ortho_cv_ratio']:>9.4f}"
        line += f"{row['printed_cv_ratio']:>9.4f}{row['eta']:>8.4f}{row['threshold']:>7.3f}"
        lines.append(line + (f"{worst_z(row):>10.2f}" if simulated else ""))
    lines.append("ratios: variance relative to ES; both: CV on ORTHO; printed: the paper's bound on CV/ES;")
    lines.append("rho_0: from this rho on, CV beats ORTHO")
    if simulated:
        far = sum(abs(worst_z(row)) > 3 for row in rows)
        lines.append(f"worst z: simulated less exact, in standard errors; beyond 3 in {far} of {len(rows)} rows")
    return lines


def worst_z(row: dict[str, float]) -> float:
    """The simulated quantity farthest from its exact value, in standard errors."""
    names = [name.removesuffix("_simulated") for name in row if name.endswith("_simulated")]
    return max(((row[f"{n}_simulated"] - row[n]) / row[f"{n}_error"] for n in names), key=abs)
