"""Learning curves of chosen tasks, methods and presets over seeds, several runs at a time.

    python benchmarks/learning.py --tasks halfcheetah swimmer --methods es cv --presets paper tuned --seeds 3

Every finished run leaves one small file in the folder --out (config, versions, curve); a run whose file exists is not
repeated, so the command can be stopped and started again. At the end the table and the figure are made from all files.
"""

from __future__ import annotations

import itertools
import json
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from quell.plot import colour_of

import quell
from quell.config import parse_value, to_dict
from quell.runs import versions

RESULTS = Path(__file__).parent.parent / "results"
KEPT = ("iteration", "steps", "return/mean", "eval/return", "eval/mean_action", "variance/es", "variance/method")


@dataclass
class Arguments:
    """Train every combination and summarise what is in the folder."""

    tasks: tuple[str, ...] = ("halfcheetah", "swimmer")
    methods: tuple[str, ...] = ("es", "cv")
    presets: tuple[str, ...] = ("paper", "tuned")
    seeds: int = 3
    steps: int = 1_000_000
    out: Path = RESULTS / "learning"
    jobs: int = 2
    """Runs at a time, one worker each."""
    label: str = ""
    """Name for the settings below, added to the method's in files, table and figure."""
    settings: dict[str, str] = field(default_factory=dict)
    """Other settings, e.g. --label auto --settings cv.eta auto lr 0.03"""


def one(task: str, method: str, preset: str, seed: int, given: Arguments) -> Path:
    """One run, as a small file."""
    name, steps = f"{method}-{given.label}" if given.label else method, given.steps
    path = given.out / f"{task.replace(':', '-')}-{preset}-{name}-{steps}-{seed}.json"
    if path.exists():
        return path
    with tempfile.TemporaryDirectory() as folder:
        result = quell.train(
            task,
            method=method,
            preset=preset,  # type: ignore[arg-type]
            seed=seed,
            steps=steps,
            workers=1,
            out=folder,
            progress=False,
            **{name: parse_value(text) for name, text in given.settings.items()},
        )
        final = {
            name: quell.evaluate(result, episodes=50, mean_action=mean_action, workers=1).returns
            for name, mean_action in (("sampled", False), ("mean_action", True))
        }
    facts = {
        "name": name,
        "config": to_dict(result.config),
        "versions": versions(),
        "seconds": result.last("seconds"),
        "final": {name: [round(float(r), 3) for r in returns] for name, returns in final.items()},
        "history": {name: [_short(row.get(name)) for row in result.history] for name in KEPT},
    }
    path.write_text(json.dumps(facts))
    return path


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")


def summary(folder: Path) -> str:
    """The table, from every file."""
    groups: dict[tuple[str, str, str, int], list[dict[str, Any]]] = {}
    for path in sorted(folder.glob("*.json")):
        facts = json.loads(path.read_text())
        config = facts["config"]
        name = facts.get("name", config["method"])
        groups.setdefault((config["task"], config["preset"], name, config["steps"]), []).append(facts)
    lines = [
        "| task | preset | method | steps | seeds | return, actions sampled | return, mean action | variance, ES = 1 |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for (task, preset, method, steps), runs in groups.items():
        sampled = [np.mean(run["final"]["sampled"]) for run in runs]
        mean_action = [np.mean(run["final"]["mean_action"]) for run in runs]
        ratios = [_ratio(run["history"]) for run in runs]
        ratio = f"{np.mean(ratios):.3f}" if not np.isnan(ratios).any() else ""
        lines.append(
            f"| {task} | {preset} | {method} | {steps:.0e} | {len(runs)} "
            f"| {_mean_std(sampled)} | {_mean_std(mean_action)} | {ratio} |"
        )
    _figure(groups, folder)
    return "\n".join(lines) + "\n"


def _ratio(history: dict[str, list[float | None]]) -> float:
    own, plain = (np.array(history[name], float) for name in ("variance/method", "variance/es"))
    return float(np.nansum(own) / np.nansum(plain)) if np.nansum(plain) > 0 else float("nan")


def _mean_std(values: list[Any]) -> str:
    return f"{np.mean(values):.1f} ± {np.std(values, ddof=1) if len(values) > 1 else 0:.1f}"


def _figure(groups: dict[tuple[str, str, str, int], list[dict[str, Any]]], folder: Path) -> None:
    """One panel per task, preset and budget: return while training, mean and standard deviation over seeds.

    What falls far below where it started leaves the panel, so that the rest can be seen.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import EngFormatter, MaxNLocator

    panels = sorted({(key[0], key[1], key[3]) for key in groups})
    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(4.4 * columns, 3.2 * rows), layout="constrained")
    for axes, panel in itertools.zip_longest(np.ravel(figure.subplots(rows, columns, squeeze=False)), panels):
        if panel is None:
            axes.set_axis_off()
            continue
        chosen = [(key[2], runs) for key, runs in groups.items() if (key[0], key[1], key[3]) == panel]
        lowest_start, highest = np.inf, -np.inf
        for number, (method, runs) in enumerate(chosen):
            colour = colour_of(method, number)
            curves = [[np.array(run["history"][name], float) for name in ("steps", "return/mean")] for run in runs]
            steps = np.linspace(max(x[0] for x, _ in curves), min(x[-1] for x, _ in curves), 150)
            returns = np.array([np.interp(steps, x, y) for x, y in curves])
            mean, std = returns.mean(axis=0), returns.std(axis=0)
            lowest_start, highest = min(lowest_start, returns[:, 0].min()), max(highest, returns.max())
            axes.plot(steps, mean, color=colour, label=method)
            axes.fill_between(steps, mean - std, mean + std, color=colour, alpha=0.2, linewidth=0)
        axes.set(title=f"{panel[0]}, preset {panel[1]}", xlabel="environment steps", ylabel="return while training")
        (bottom, top), span = axes.get_ylim(), highest - lowest_start
        axes.set_ylim(max(bottom, lowest_start - span / 3), min(top, highest + span / 20))
        axes.xaxis.set_major_locator(MaxNLocator(4))
        axes.xaxis.set_major_formatter(EngFormatter())
        axes.legend(frameon=False, fontsize=7)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
    figure.savefig(folder / "curves.png", dpi=110)


def main(arguments: Arguments) -> None:
    arguments.out.mkdir(parents=True, exist_ok=True)
    combinations = list(
        itertools.product(range(arguments.seeds), arguments.tasks, arguments.presets, arguments.methods)
    )
    with ProcessPoolExecutor(arguments.jobs) as pool:
        futures = {
            pool.submit(one, task, method, preset, seed, arguments): (task, preset, method, seed)
            for seed, task, preset, method in combinations
        }
        failed = 0
        for done, future in enumerate(as_completed(futures), 1):
            label = " ".join(map(str, futures[future]))
            try:
                future.result()
                print(f"{done}/{len(futures)} {label}", flush=True)
            except quell.QuellError as error:
                failed += 1
                print(f"{done}/{len(futures)} {label} FAILED: {error}", flush=True)
    table = summary(arguments.out)
    (arguments.out / "table.md").write_text(table)
    print(table)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main(tyro.cli(Arguments))
