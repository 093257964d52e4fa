"""The one style: colours, axes, saving."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from quell.config import check_file
from quell.errors import naming, require
from quell.types import Array

DPI = 130
PICTURES = (".png", ".svg", ".pdf")
GREY = "0.4"
BLACK = "#000000"


@dataclass(frozen=True)
class Look:
    """How a method is drawn; methods differ in more than colour."""

    colour: str
    line: str = "-"
    hatch: str = ""


LOOKS = {
    **{"es": Look("#D55E00"), "natural-cv": Look("#0072B2"), "cv": Look("#5B7FD1", "--")},
    **{"mixed-cv": Look("#0072B2", "-.")},
    **{"ortho": Look("#CC79A7", "--", "//")},
    **{"gcmc": Look("#009E73", "-.", ".."), "qmc": Look("#E69F00", ":", "xx"), "pg": Look("#56B4E9", "--", "\\\\")},
    **{"det": Look(BLACK, "-.", "++"), "ppo": Look("#8C6BB1"), "trpo": Look("#B5893B", "--")},
    **{"ppo-paper": Look("#8C6BB1", ":"), "trpo-paper": Look("#B5893B", ":")},
    **{"ars": Look("#7A8B99", "-."), "re": Look("#56B4E9", "--"), "cv-several": Look("#C2477F", "--")},
    **{"auto": Look("#44AA99"), "auto-policy": Look("#C2477F")},  # of measurements under results
    **{"cv-moments": Look("#6A9A3B"), "cv-layer": Look("#7A8B99", "-.")},
    **{"actor-critic": Look("#56B4E9", "-."), "crn": Look("#D55E00", ":")},
}
"""ES to PG in the palette of Okabe and Ito, safe for colour-blind readers; ES orange, control variates blue."""
MORE = ("#8C6BB1", "#B5893B", "#44AA99", "#C2477F", "#7A8B99", "#A65628", "#6A9A3B", "#5B7FD1")
LINES = ("-", "--", "-.", ":")
SHADES = ("#1B2A34", "#37505F", "#55788C", "#7FA0B3", "#AFC6D3", "#E3D4B8", "#C4A772", "#8C6D3F")
"""For what is no method: dark to light, then warm; readable without hue."""


def looks(names: Iterable[str]) -> dict[str, Look]:
    """A look for each name: the method's own; others take what is left, in the order they come."""
    others = (Look(MORE[i % len(MORE)], LINES[(i + 1) % len(LINES)]) for i in count())
    return {name: _known(name) or next(others) for name in dict.fromkeys(names)}


def variants(names: Iterable[str]) -> dict[str, Look]:
    """Looks for names of which several may be of one method ("cv lr 0.01", "cv lr 0.03"): one colour, other lines."""
    found = looks(names)
    taken: set[tuple[str, str]] = set()
    others = (Look(colour, line) for line in LINES for colour in MORE)
    for name, look in found.items():
        own = [look, *(replace(look, line=line) for line in LINES)]
        look = next((one for one in chain(own, others) if (one.colour, one.line) not in taken), look)
        found[name] = look
        taken.add((look.colour, look.line))
    return found


def _known(name: str) -> Look | None:
    """Also of a method on other directions, CV's colour with ORTHO's line for cv-ortho, and of "cv gamma=0.9"."""
    name = name.partition(" ")[0]
    base, _, suffix = name.rpartition("-")
    if name in LOOKS or base not in LOOKS or suffix not in ("ortho", "gcmc", "qmc", "crn"):
        return LOOKS.get(name)
    return replace(LOOKS[base], line=LOOKS[suffix].line)


def check_picture(path: Path, name: str = "figure") -> Path:
    """A picture to be drawn later; a UsageError if it cannot be drawn or written."""
    require("plot", "a figure")
    return check_file(path, name, PICTURES)


def new_figure(width: float, height: float) -> Any:
    """An empty figure; nothing global, no window."""
    require("plot", "a figure")
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def style_axes(axes: Any, title: str = "") -> None:
    if title:
        axes.set_title(title, loc="left", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    axes.tick_params(which="both", labelsize=8)


def step_axis(axes: Any) -> None:
    """Environment steps: 200k, 1M."""
    from matplotlib.ticker import EngFormatter

    axes.xaxis.set_major_formatter(EngFormatter(sep=""))


def draw_band(axes: Any, steps: Array, values: Array, look: Look, *, ranks: bool = False, **more: Any) -> None:
    """Mean and standard deviation over runs of values [runs, k], or median and range; one point alone is a dot."""
    middle, std = values.mean(axis=0), values.std(axis=0, ddof=min(1, len(values) - 1))
    low, high = middle - std, middle + std
    if ranks:
        middle, low, high = np.median(values, axis=0), values.min(axis=0), values.max(axis=0)
    marker = "o" if len(set(steps)) == 1 else None
    axes.plot(steps, middle, color=look.colour, linestyle=look.line, linewidth=1.5, marker=marker, markersize=3, **more)
    axes.fill_between(steps, low, high, color=look.colour, alpha=0.18, linewidth=0)


def draw_range(axes: Any, x: Array, values: Array, look: Look) -> None:
    """Median and range over runs of values [runs, k]."""
    axes.plot(x, np.median(values, axis=0), color=look.colour, linestyle=look.line, linewidth=1.5)
    axes.fill_between(x, values.min(axis=0), values.max(axis=0), color=look.colour, alpha=0.18, linewidth=0)


def on_common_steps(series: Sequence[tuple[ArrayLike, ArrayLike]], points: int = 100) -> tuple[Array, Array]:
    """(steps, values) of several runs at the steps they share: (steps [points], values [runs, points])."""
    kept = [(np.asarray(x, float), np.asarray(y, float)) for x, y in series if len(np.asarray(x))]
    if not kept:
        return np.empty(0), np.empty((0, 0))
    common = np.linspace(max(x[0] for x, _ in kept), min(x[-1] for x, _ in kept), points)
    return common, np.stack([np.interp(common, x, y) for x, y in kept])


def save(figure: Any, *paths: Path) -> None:
    """Without anything that differs from one time to the next: no date, no version, fixed ids."""
    import matplotlib

    metadata = {".svg": {"Date": None, "Creator": None}, ".png": {"Software": None}}
    with matplotlib.rc_context({"svg.hashsalt": "quell", "svg.fonttype": "none"}):
        for path in paths:
            check_picture(path)
            with naming(path):
                figure.savefig(path, dpi=DPI if path.suffix == ".png" else "figure", metadata=metadata.get(path.suffix))
