"""The law against measurement: the noise of ES beside that of the policy gradient, predicted and measured.

    python benchmarks/law.py [--tasks halfcheetah swimmer hopper] [--steps 40000] [--figure-only]

For every task and policy: trains briefly as benchmarks/regimes.py does (cv-natural, rewards at every step), and
measures there (`quell.measure.advice`), with rewards at every step and at the end; two policy gradients at each point,
with and without a discount. Writes results/regimes/law.json, point by point (what is there is not measured again), and
law.png.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import tempfile
from pathlib import Path
from typing import Any

from regimes import POLICIES, RESULTS, config

from quell.api import compute_for, start
from quell.figures.style import SHADES, new_figure, save, style_axes
from quell.measure.advice import advise

TASKS = ("halfcheetah", "swimmer", "hopper")
DELAYS = (1, 1000)
SEED = 150
MARKS = {"linear": "o", "2x32": "s"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="*", default=list(TASKS))
    parser.add_argument("--policies", nargs="*", default=list(POLICIES))
    parser.add_argument("--steps", type=int, default=40_000)
    parser.add_argument("--pairs", type=int, default=120)
    parser.add_argument("--nats", type=float, default=1.0, help="other than 1: to law-NATS.json, without a figure")
    parser.add_argument("--delays", nargs="*", type=int, default=list(DELAYS))
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--figure-only", action="store_true")
    arguments = parser.parse_args()
    file = arguments.out / ("law.json" if arguments.nats == 1 else f"law-{arguments.nats:g}.json")
    found: list[dict[str, Any]] = json.loads(file.read_text()) if file.exists() else []
    for task in () if arguments.figure_only else arguments.tasks:
        for policy in arguments.policies:
            known = {point["delay"] for point in found if (point["task"], point["policy"]) == (task, policy)}
            asked = {"pairs": arguments.pairs, "nats": arguments.nats}
            found += measured(task, policy, arguments.steps, set(arguments.delays) - known, asked)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("[\n" + ",\n".join(map(json.dumps, found)) + "\n]\n")
    if arguments.nats == 1:
        draw(found, arguments.out / "law.png")
    print(table(found))


def measured(task: str, policy: str, steps: int, delays: set[int], asked: dict[str, Any]) -> list[dict[str, Any]]:
    """Advice at one trained policy, for some delays."""
    if not delays:
        return []
    with tempfile.TemporaryDirectory() as folder:
        trained = start(
            config(task, policy, 1, "cv-natural", SEED, steps),
            compute=compute_for("cpu", 1),
            out=Path(folder),
            progress=False,
        )
        rows = []
        for delay in sorted(delays):
            found = advise(
                task,
                at=str(trained.path),
                warmup=60,
                **asked,
                settings={"delay": delay},
                seed=SEED,
                workers=1,
                progress=False,
            )
            rows.append({**dataclasses.asdict(found), "policy": policy, "trained": trained.steps})
            rows[-1].pop("seconds")
    return rows


def table(points: list[dict[str, Any]]) -> str:
    """A line per point and discount."""
    head = "| task | policy | delay | d | kappa | gamma, lambda | c | d / (2 k c) | with damping | measured |"
    lines = [head, "|---" * head.count(" |") + "|"]
    for point in points:
        for one in point["beside"]:
            value, low, high = _interval(one["measured"])
            cells = [point["task"], point["policy"], point["delay"], point["parameters"], f"{point['kappa']:.3g}"]
            cells += [f"{one['gamma']:g}, {one['trace']:g}", *(f"{one[n]:.2g}" for n in ("c", "law", "predicted"))]
            lines.append("| " + " | ".join(map(str, [*cells, f"{value:.2g} [{low:.2g}, {high:.2g}]"])) + " |")
    return "\n".join(lines)


def _interval(measured: Any) -> tuple[float, float, float]:
    return measured["value"], measured["low"], measured["high"]


def draw(points: list[dict[str, Any]], path: Path) -> None:
    """Predicted against measured, one mark per point and discount."""
    figure = new_figure(6, 5.4)
    axes = figure.subplots()
    colours = dict(zip(TASKS, (SHADES[0], SHADES[3], SHADES[6]), strict=False))
    for point in points:
        for one in point["beside"]:
            value, low, high = _interval(one["measured"])
            x, colour = one["predicted"], colours.get(point["task"], SHADES[7])
            axes.plot([x, x], [low, high], color=colour, linewidth=0.8)
            full = one["gamma"] == 1
            face = colour if full else "white"
            axes.plot(x, value, MARKS[point["policy"]], color=colour, markerfacecolor=face, markersize=6)
    ends = [5e-3, 3e3]
    axes.plot(ends, ends, color="0.6", linewidth=1, zorder=0)
    axes.axhline(1, color="0.85", zorder=0)
    axes.axvline(1, color="0.85", zorder=0)
    axes.set(xscale="log", yscale="log", xlabel="the law: noise of ES / noise of the policy gradient")
    axes.set_ylabel("measured")
    for task, colour in colours.items():
        axes.plot([], [], "o", color=colour, label=task)
    axes.plot([], [], "s", color="0.4", label="two layers of 32")
    axes.plot([], [], "o", color="0.4", markerfacecolor="white", label="with a discount")
    axes.legend(frameon=False, fontsize=8)
    style_axes(axes)
    save(figure, path)


if __name__ == "__main__":
    main()
