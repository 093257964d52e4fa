"""Render the JSON files beside this script as TABLE.md: python results/variance/table.py"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROWS = ("ortho", "gcmc", "qmc", "cv", "cv-moments", "auto")
TASKS = (
    *("lqr", "swimmer", "halfcheetah", "walker2d", "roboschool-pong", "roboschool-halfcheetah", "bipedalwalker"),
    *("dm-cheetah-run", "dm-pendulum-swingup", "dm-cartpole-two-poles", "dm-cartpole-swingup", "dm-cartpole-balance"),
    *("dm-hopper-hop", "dm-hopper-stand", "dm-quadruped-walk", "dm-quadruped-escape"),
)


def number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.2g}" if value < 0.1 else f"{value:.2f}" if value < 100 else f"{value:.0e}"


def cell(row: dict[str, Any], field: str = "ratio") -> str:
    x = row[field]
    return f"{number(x['value'])} [{number(x['low'])}, {number(x['high'])}]"


def table(phase: str, target: float) -> list[str]:
    """One line per task that has been measured, and how many reach the target."""
    head = ["task", "return", "std", "pairs", *ROWS, "auto, Fisher", "auto, cost"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    reached, measured, worst = 0, 0, 0.0
    for task in TASKS:
        path = HERE / f"{task}-{phase}.json"
        if not path.exists():
            lines.append(f"| {task} | not measured |" + " |" * (len(head) - 2))
            continue
        found = json.loads(path.read_text())
        rows = {row["name"]: row for row in found["rows"]}
        pairs = found["iterations"] * found["pairs_per_iteration"]
        values = [f"{found['mean_return']:.4g}", f"{found['action_std']:.2g}", str(pairs)]
        values += [cell(rows[name]) for name in ROWS]
        values += [cell(rows["auto"], "fisher_ratio"), number(rows["auto"]["cost"])]
        lines.append(f"| {task} | " + " | ".join(values) + " |")
        ratio = rows["auto"]["ratio"]["value"]
        measured, reached = measured + 1, reached + (ratio is not None and ratio <= target)
        worst = max(worst, ratio or 0.0)
    lines += [
        "",
        f"`auto` at most {target:g} of ES: {reached} of {measured} measured tasks; largest ratio {worst:.3g}.",
    ]
    return lines


def gains() -> list[str]:
    """Change of return after one step, where it was measured."""
    lines = ["| task | step | estimator | change of return | less that of ES |", "|---|---|---|---|---|"]
    for path in sorted(HERE.glob("*.json")):
        found = json.loads(path.read_text())
        for g in found["gains"] if isinstance(found, dict) else []:
            both = [f"{g[k]['value']:+.3g} [{g[k]['low']:+.3g}, {g[k]['high']:+.3g}]" for k in ("gain", "over_es")]
            step = f"{g['kind']} {g['size']:g}"
            lines.append(f"| {path.stem} | {step} | {g['name']} | {both[0]} | {'' if g['name'] == 'es' else both[1]} |")
    return lines


def bias() -> list[str]:
    """z-scores against ES where at least 400 pairs were measured."""
    lines = [
        "| task | pairs | estimator | z along the gradient | along a layer | of any coordinate | its p |",
        "|---|---|---|---|---|---|---|",
    ]
    for path in sorted([*HERE.glob("*-400.json"), *HERE.glob("*-6000.json")]):
        found = json.loads(path.read_text())
        for row in found["rows"][1:]:
            b = row["bias"]
            layer, pairs = max(b["layers"].values(), key=abs), found["iterations"] * found["pairs_per_iteration"]
            values = f"{b['along']:.2f} | {layer:.2f} | {b['coordinate']:.2f} of {found['parameters']:,} | {b['p']:.2g}"
            lines.append(f"| {found['task']} | {pairs} | {row['name']} | {values} |")
    return lines


def main() -> None:
    parts = [
        "# Variance relative to ES",
        "Made by `table.py` from the JSON files here; 95% bootstrap intervals over iterations.",
        "## Untrained policy, paper preset (action std 1)",
        *table("init", 0.2),
        "",
        "## Trained policy, tuned preset",
        *table("trained", 0.5),
        "",
        "## Gain of one step",
        *gains(),
        "",
        "## Bias at 400 pairs and more",
        *bias(),
    ]
    (HERE / "TABLE.md").write_text("\n".join(parts) + "\n")


if __name__ == "__main__":
    main()
