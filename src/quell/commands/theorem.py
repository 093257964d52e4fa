"""quell paper theorem: Theorem 1, exact and simulated."""

import itertools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np

from quell import theory
from quell.commands.arguments import UNSET, parse
from quell.config import check_file, check_out
from quell.errors import UsageError
from quell.figures.style import check_picture
from quell.figures.theory import variance_against_rho
from quell.paper import theorem
from quell.registry import COUNT
from quell.runs.files import write
from quell.terminal.streams import tell
from quell.terminal.tables import show

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
    seed: Annotated[int, COUNT] = 0
    """Random seed of the simulation."""
    figure: Annotated[Path | None, UNSET] = None
    """Draw the variance ratio against rho for several n/d into this file (needs the extra plot)."""
    json: Annotated[Path | None, UNSET] = None
    """Write all columns of the table to this file."""
    page: Annotated[Path | None, UNSET] = None
    """Instead, write theorem.md and theorem.png of results/paper, which have fixed settings, to this folder."""


def main(arguments: list[str]) -> int:
    parsed = parse(Arguments, arguments, prog="quell paper theorem", description=DESCRIPTION)
    if parsed.page is not None:
        for path in theorem.render(check_out(parsed.page, "page")):
            tell(path)
        return 0
    grid = list(itertools.product(parsed.d, parsed.n, parsed.rho))
    if not grid:
        raise UsageError("--d, --n and --rho need at least one value each")
    if parsed.simulate < 0 or parsed.simulate == 1:
        raise UsageError(f"--simulate {parsed.simulate} must be at least 2 (0: none)")
    if parsed.figure is not None:
        check_picture(parsed.figure)
    if parsed.json is not None:
        check_file(parsed.json, "json")
    rows = theory.table(grid, repeats=parsed.simulate, rng=np.random.default_rng(parsed.seed))
    _show(rows, simulated=bool(parsed.simulate))
    if parsed.json is not None:
        write(parsed.json, json.dumps(rows, indent=1) + "\n")
    if parsed.figure is not None:
        variance_against_rho(parsed.figure)
        tell(f"figure: {parsed.figure}")
    return 0


def _show(rows: list[dict[str, float]], *, simulated: bool) -> None:
    """The table: variances relative to ES, then how far the simulation is off."""
    columns = {
        **{"d": "d:.0f", "n": "n:.0f", "rho": "rho:g", "V[ES]": "es:.5g", "V[RE]": "re:.5g"},
        **{"ORTHO/ES": "ortho_ratio:.4f", "CV/ES": "cv_ratio:.4f", "both/ES": "ortho_cv_ratio:.4f"},
        **{"printed": "printed_cv_ratio:.4f", "eta*": "eta:.4f", "rho_0": "threshold:.3f"},
    }
    if simulated:
        columns["worst z"] = "worst_z:.2f"
        rows = [row | {"worst_z": worst_z(row)} for row in rows]
    show(list(columns), [[f"{{{column}}}".format_map(row) for column in columns.values()] for row in rows])
    tell("ratios: variance relative to ES; both: CV on ORTHO; printed: the paper's bound on CV/ES;")
    tell("rho_0: from this rho on, CV beats ORTHO")
    if simulated:
        far = sum(abs(row["worst_z"]) > 3 for row in rows)
        tell(f"worst z: simulated minus exact, in standard errors; beyond 3 in {far} of {len(rows)} rows")


def worst_z(row: dict[str, float]) -> float:
    """The simulated quantity farthest from its exact value, in standard errors."""
    names = [name.removesuffix("_simulated") for name in row if name.endswith("_simulated")]
    return max(((row[f"{n}_simulated"] - row[n]) / row[f"{n}_error"] for n in names), key=abs)
