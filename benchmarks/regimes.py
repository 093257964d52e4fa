"""Where ES wins, where the policy gradient does, and whether one estimator is near the better of the two everywhere.

    python benchmarks/regimes.py [--tasks halfcheetah] [--policies linear] [--delays 1 1000] [--seeds 8]
    python benchmarks/regimes.py --methods cv-fisher cv-large cv-variance cv-adam cv-natural \
        --tasks halfcheetah hopper swimmer --policies linear --delays 1 1000
    python benchmarks/regimes.py --tables

Trains every method in every cell (task, policy, delay of rewards); what is done is not done again, and a run that was
interrupted is continued. Then it writes results/regimes/table.md and map.png from all records.

    cv   method mixed-cv as it comes: one setting for all cells
    pg   the policy gradient alone with natural steps (trpo): the tuned preset for networks, unless rewards come at the
         end; otherwise batches and steps as cv has them, a discount chosen by the delay, and settings for some cells
    es   method es with its tuned preset, and settings of its own where they did better

The second command is the ablation: CV with parts taken away, in six cells. All settings were found on seeds from 100 to
199 (results/regimes/tuning); the map has seeds from 220 up.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from quell.campaign.plan import Job
from quell.campaign.runner import Runner
from quell.config import Config, parse_value
from quell.errors import installed
from quell.figures.style import LOOKS as STYLES
from quell.figures.style import new_figure, save, style_axes
from quell.runs import archive
from quell.runs.files import as_facts
from quell.runs.record import Record, read_group
from quell.stats import (
    UNRESOLVED,
    Interval,
    percentile_interval,
    probability_of_improvement,
    t_interval,
    times_drawn,
    verdict,
)
from quell.terminal.campaign import CampaignDisplay
from quell.training.methods import make_config

RESULTS = Path(__file__).parent.parent / "results" / "regimes"
TASKS = ("halfcheetah", "hopper", "swimmer", "walker2d", "dm-cheetah-run", "dm-cartpole-swingup")
POLICIES: dict[str, tuple[int, ...]] = {"linear": (), "2x32": (32, 32)}
DELAYS = (1, 50, 1000)
FIRST = 220
Settings = dict[str, Any]

EVERYWHERE: Settings = {"eval_every": 0, "train_horizon": 0}  # presets came to cut episodes later
NEAR: Settings = {"gamma": 0.995, "trace": 0.97}
FAR: Settings = {"gamma": 1.0, "trace": 1.0}
PG: dict[int, Settings] = {1: NEAR, 50: NEAR, 1000: FAR}
"""Delay -> discount of the policy gradient alone, which is told it."""
PG_ON: dict[tuple[str, int], Settings] = {
    **{("swimmer", 1): FAR, ("swimmer", 50): FAR},
    ("halfcheetah", 1000): {"policy.init_std": 0.15},
}
"""(task, delay) -> what did better there."""
NORMALISED: Settings = {"normalise_obs": True, "policy.activation": "tanh", "directions.sigma": 0.05, "step.lr": 0.01}
SMALL: Settings = {"pairs": 2, "batch_steps": 4000}
ES_ON: dict[tuple[str, str], Settings] = {
    ("dm-cheetah-run", "linear"): {**NORMALISED, **SMALL, "policy.init_std": 0.37},
    ("dm-cartpole-swingup", "linear"): {**NORMALISED, **SMALL, "policy.init_std": 0.14},
    ("dm-cheetah-run", "2x32"): {**NORMALISED, **SMALL, "policy.init_std": 0.14},
    ("dm-cartpole-swingup", "2x32"): {**NORMALISED, **SMALL, "policy.init_std": 0.37},
}
"""(task, policy) -> what did better there than ES's preset."""
VARIANTS: dict[str, Settings] = {
    "cv-fisher": {"directions": "fisher", "directions.nats": 1.0, "directions.least": 0.05},
    "cv-large": {"directions.least": None},
    "cv-apart": {"shared_noise": False},
    "cv-loud": {"step.quiet": 0.0},
    "cv-variance": {
        **{"estimator.coefficients.doubt": 0.0, "estimator.coefficients.strict": 1e9},
        "estimator.coefficients.lean": 1.0,
    },
    "cv-adam": {"step": "adam", "directions.nats": None, "directions.least": None},
    "cv-natural": {"step": "natural", "step.kl": 0.1, "step.schedule": "linear"},
}
"""Ablations. Perturbations: shaped by the policy's Fisher matrix; a nat whatever ES is worth. Action noise: each
member's own; it stays. Coefficients: least variance alone, with no eye for bias. Steps: Adam's alone, with
perturbations of one size, as it has no metric to size them by; a natural step alone."""
METHODS = ("es", "pg", "cv")


@dataclass
class Arguments:
    """Train what is missing and tabulate what is there."""

    tasks: tuple[str, ...] = TASKS
    policies: tuple[str, ...] = tuple(POLICIES)
    delays: tuple[int, ...] = DELAYS
    methods: tuple[str, ...] = METHODS
    """es, pg, cv, and ablations of cv by their names."""
    seeds: int = 10
    first: int = FIRST
    """The first seed."""
    steps: int = 400_000
    episodes: int = 20
    """Episodes of each final evaluation."""
    jobs: int = 2
    """Runs at a time, one worker each."""
    settings: tuple[str, ...] = ()
    """Other settings, as NAME=VALUE: to search with, under a label of their own."""
    label: str = ""
    out: Path = RESULTS
    runs: Path = Path("runs/regimes")
    """Where run folders with their checkpoints go."""
    tables: bool = False
    """Train nothing; make table and figure of the records that there are."""


def config(
    task: str, policy: str, delay: int, method: str, seed: int, steps: int, other: Mapping[str, Any] | None = None
) -> Config:
    base, own = made_of(task, policy, delay, method)
    cell = {"policy.hidden": POLICIES[policy], "delay": delay, "seed": seed, "steps": steps}
    return make_config(task, base, "tuned", {**EVERYWHERE, **own, **cell, **(other or {})}).validate()


def made_of(task: str, policy: str, delay: int, method: str) -> tuple[str, Settings]:
    """quell's method, and its settings in this cell."""
    if method == "es":
        return "es", ES_ON.get((task, policy), {})
    if method == "pg":
        if POLICIES[policy] and delay < max(DELAYS):
            return "trpo", {}
        same = {"policy.init_std": 0.37, "normalise_obs": False, "critic.updates": 100, "policy.learn_std": True}
        steps = {"pairs": 2, "batch_steps": 4000, "step.kl": 0.1, "step.schedule": "linear", "shared_reset": True}
        return "trpo", {**same, **steps, **PG[delay], **PG_ON.get((task, delay), {})}
    return "mixed-cv", VARIANTS.get(method, {})


def plan(wanted: Arguments) -> list[Job]:
    """Seed by seed, so that what is done early covers all cells. What ES sees does not depend on a delay."""
    other = {name: parse_value(value) for name, _, value in (word.partition("=") for word in wanted.settings)}
    jobs = []
    for seed in range(wanted.first, wanted.first + wanted.seeds):
        for policy in wanted.policies:
            for task in wanted.tasks:
                for method in wanted.methods:
                    for delay in (1,) if method == "es" else wanted.delays:
                        label = "-".join(filter(None, (policy, f"delay{delay}", method, wanted.label)))
                        made = config(task, policy, delay, method, seed, wanted.steps, other)
                        record = archive.loose(wanted.out, f"{task}-{label}-{seed}")
                        jobs.append(Job(made, wanted.runs / label, record, wanted.episodes, label))
    return jobs


Cell = tuple[str, str, int]
Found = Mapping[Cell, Mapping[str, list[float]]]


def cells(records: Sequence[Record]) -> dict[Cell, dict[str, list[float]]]:
    """(task, policy, delay) -> method -> scores by seed; what ES earned stands in every delay's cell."""
    found: dict[Cell, dict[str, list[float]]] = {}
    for record in sorted(records, key=lambda one: one.config.seed):
        policy, paid, method = record.label.split("-", 2)
        cell = record.config.task, policy, int(paid.removeprefix("delay"))
        found.setdefault(cell, {}).setdefault(method, []).append(record.return_mean_action)
    for (task, policy, _), of in list(found.items()):
        for (other, same, _), there in found.items():
            if (task, policy) == (other, same) and "es" in of:
                there.setdefault("es", of["es"])
    order = [*TASKS, *sorted({task for task, _, _ in found} - {*TASKS})]
    return dict(
        sorted(found.items(), key=lambda one: (list(POLICIES).index(one[0][1]), order.index(one[0][0]), one[0][2]))
    )


def mapped(found: Found) -> dict[Cell, dict[str, list[float]]]:
    """The same with the map's methods alone, where CV was run."""
    return {cell: {name: of[name] for name in METHODS if name in of} for cell, of in found.items() if "cv" in of}


ENOUGH = 3
"""Seeds of each method, below which a cell is shown but nothing is concluded from it."""


def enough(found: Found) -> dict[Cell, Mapping[str, list[float]]]:
    """The cells where all three methods have enough seeds."""
    return {cell: of for cell, of in found.items() if all(len(of.get(name, ())) >= ENOUGH for name in METHODS)}


def table(records: Sequence[Record], weights: Sequence[Mapping[str, Any]] = (), *, whole: bool = True) -> str:
    """Mean and 95% interval of every method in every cell (or those with enough seeds), CV beside the better of the
    other two, and ES's weight."""
    found: Found = mapped(cells(records))
    found = found if whole else enough(found)
    head = ["task", "policy", "delay", *(name.upper() for name in METHODS), "CV over the better", "CV to it"]
    lines = ["| " + " | ".join([*head, "ES's weight"]) + " |", "|---" * (len(head) + 1) + "|"]
    for (task, policy, delay), of in found.items():
        shown = [_scores(of[name]) if name in of else "not run" for name in METHODS]
        shown += [*_beside(of), _weight(weights, (task, policy, delay))]
        lines.append("| " + " | ".join([task, policy, str(delay), *shown]) + " |")
    return "\n".join(lines) + "\n"


def not_run(records: Sequence[Record]) -> str:
    """The cells of the map that were not run, in words."""
    there = mapped(cells(records))
    missing = [(task, policy) for policy in POLICIES for task in TASKS if (task, policy, DELAYS[0]) not in there]
    return ", ".join(f"{task} {policy}" for task, policy in missing) or "none"


def _scores(values: Sequence[float]) -> str:
    if len(values) < max(ENOUGH, 2):
        return f"{np.mean(values):.0f} ({len(values)})"
    interval = t_interval(values)
    return f"{interval.value:.0f} [{interval.low:.0f}, {interval.high:.0f}] ({len(values)})"


def _better(of: Mapping[str, Sequence[float]]) -> str:
    return max((name for name in ("es", "pg") if name in of), key=lambda name: np.mean(of[name]))


def _beside(of: Mapping[str, Sequence[float]]) -> list[str]:
    """(CV's mean of that of the better method, what a rank test says of the two)."""
    if any(len(of.get(name, ())) < ENOUGH for name in METHODS):
        return ["", ""]
    best = of[_better(of)]
    word, name = verdict(of["cv"], best)[1], _better(of).upper()
    return [
        f"{np.mean(of['cv']) / np.mean(best):.2f}",
        f"{word} from {name}" if word == UNRESOLVED else f"{word} {name}",
    ]


def _weight(weights: Sequence[Mapping[str, Any]], cell: Cell) -> str:
    mine = [one["share"] for one in weights if _cell(one) == cell]
    return f"{np.median(mine):.2f}" if mine else ""


def pooled(records: Sequence[Record]) -> str:
    """All cells together, seeds resampled within each: CV against ES, against PG, against the better of the two."""
    whole = enough(mapped(cells(records)))
    lines = ["| cells | how many | P(CV above ES) | P(CV above PG) | P(CV above the better) | CV over the better |"]
    lines += ["|---|---|---|---|---|---|"]
    kinds = {"all": whole}
    kinds |= {policy: {cell: of for cell, of in whole.items() if cell[1] == policy} for policy in POLICIES}
    kinds |= {f"delay {delay}": {cell: of for cell, of in whole.items() if cell[2] == delay} for delay in DELAYS}
    for name, chosen in kinds.items():
        if not chosen:
            continue
        own = {str(cell): of["cv"] for cell, of in chosen.items()}
        against = [{str(cell): of[other] for cell, of in chosen.items()} for other in ("es", "pg")]
        against.append({str(cell): of[_better(of)] for cell, of in chosen.items()})
        shown = [f"{probability_of_improvement(own, other):.2f}" for other in against]
        lines.append(f"| {name} | {len(chosen)} | " + " | ".join([*shown, f"{share(chosen):.2f}"]) + " |")
    return "\n".join(lines) + "\n"


def key(records: Sequence[Record]) -> str:
    """CV against each of the others in every cell: paired by seed, and by rank."""
    lines = ["| task | policy | delay | against | seeds | CV less it, by seed | P(CV above it) | rank test |"]
    lines += ["|---" * 8 + "|"]
    for (task, policy, delay), of in enough(mapped(cells(records))).items():
        for other in ("es", "pg"):
            pairs = min(len(of["cv"]), len(of[other]))
            apart = t_interval(np.subtract(of["cv"][:pairs], of[other][:pairs]))
            chance, said = verdict(of["cv"], of[other])
            shown = [task, policy, str(delay), other.upper(), str(pairs), f"{apart:.0f}", f"{chance:.2f}", said]
            lines.append("| " + " | ".join(shown) + " |")
    return "\n".join(lines) + "\n"


def share(found: Found, resamples: int = 4000) -> Interval:
    """Mean over cells of CV's mean score of the better method's, with a stratified bootstrap interval.

    Which method is the better is decided anew in every resample, so that its luck is not counted against CV.
    """
    rng = np.random.default_rng(0)

    def means(values: Sequence[float]) -> Any:
        return times_drawn(rng, len(values), resamples) @ np.asarray(values) / len(values)

    drawn = [means(of["cv"]) / np.maximum(means(of["es"]), means(of["pg"])) for of in found.values()]
    plain = [np.mean(of["cv"]) / np.mean(of[_better(of)]) for of in found.values()]
    return percentile_interval(float(np.mean(plain)), np.mean(drawn, axis=0))


def ablation(records: Sequence[Record]) -> str:
    """CV with a part taken away: score in every cell where that was run, and how often CV is above it."""
    found = cells(records)
    names = [name for name in VARIANTS if any(name in of for of in found.values())]
    rows = {cell: of for cell, of in found.items() if any(name in of for name in names)}
    lines = ["| task | policy | delay | " + " | ".join(["cv", *names]) + " |", "|---" * (len(names) + 4) + "|"]
    for (task, policy, delay), of in rows.items():
        shown = [_scores(of[name]) if name in of else "" for name in ["cv", *names]]
        lines.append("| " + " | ".join([task, policy, str(delay), *shown]) + " |")
    chances = []
    for name in names:
        both = {str(cell): of for cell, of in rows.items() if name in of and "cv" in of}
        chance = probability_of_improvement(
            {cell: of["cv"] for cell, of in both.items()}, {cell: of[name] for cell, of in both.items()}
        )
        chances.append(f"{chance:.2f}")
    lines.append("| " + " | ".join(["P(CV above it)", "", "", "", *chances]) + " |")
    return "\n".join(lines) + "\n"


WEIGHTS = "weights.jsonl"


def note_weights(jobs: Sequence[Job], out: Path) -> None:
    """A line for every run of CV: the median of ES's weight in the estimate."""
    path = out / WEIGHTS
    lines = dict.fromkeys(path.read_text().splitlines() if path.exists() else ())
    known = {tuple(json.loads(line)[name] for name in ("task", "policy", "delay", "seed")) for line in lines}
    for job in jobs:
        policy, paid, method = job.label.split("-", 2)
        place = job.config.task, policy, int(paid.removeprefix("delay")), job.config.seed
        metrics = job.folder / "metrics.jsonl"
        if method != "cv" or place in known or not (job.done and metrics.exists()):
            continue
        rows = [row for line in metrics.read_text().splitlines() if (row := as_facts(line))]
        shares = [1 + row["eta/mean"] for row in rows if "eta/mean" in row]
        named = dict(zip(("task", "policy", "delay", "seed"), place, strict=True))
        lines[json.dumps({**named, "share": round(float(np.median(shares)), 4)})] = None
    path.write_text("".join(line + "\n" for line in sorted(lines)))


def read_weights(out: Path = RESULTS) -> list[dict[str, Any]]:
    path = out / WEIGHTS
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def weighed(weights: Sequence[Mapping[str, Any]], points: Sequence[Mapping[str, Any]]) -> str:
    """ES's weight in every cell beside what the law says at the largest size of perturbations, and measured noise."""
    head = "| task | policy | delay | ES's weight | by the law | by measured noise |"
    lines = [head, "|---" * 6 + "|"]
    for cell in sorted({(one["task"], one["policy"], one["delay"]) for one in weights}):
        own = float(np.median([one["share"] for one in weights if _cell(one) == cell]))
        said = [_said(point) for point in points if _cell(point) == cell]
        shown = [f"{value:.2f}" for value in (said[0] if said else ())] or ["", ""]
        lines.append("| " + " | ".join([*map(str, cell), f"{own:.2f}", *shown]) + " |")
    return "\n".join(lines) + "\n"


def _cell(one: Mapping[str, Any]) -> Cell:
    return one["task"], one["policy"], one["delay"]


NATS = 1.0
"""The largest size of CV's perturbations."""


def _said(point: Mapping[str, Any]) -> tuple[float, float]:
    """ES's share by the law and by measured noise beside CV's policy gradient, at a size other than the point's."""
    (one,) = (one for one in point["beside"] if one["gamma"] == NEAR["gamma"])
    times = point["nats"] / NATS
    return 1 / (1 + one["predicted"] * times), 1 / (1 + one["measured"]["value"] * times)


def draw(found: Found, path: Path) -> None:
    """A panel per task, a row per policy: score against delay, with 95% intervals, in cells with enough seeds."""
    rows = list(dict.fromkeys(policy for _, policy, _ in found)) or list(POLICIES)
    tasks = list(dict.fromkeys(task for task, _, _ in found)) or list(TASKS)
    figure = new_figure(2.7 * len(tasks) + 0.6, 2.7 * len(rows) + 0.3)
    for panels, policy in zip(np.array(figure.subplots(len(rows), len(tasks), squeeze=False)), rows, strict=True):
        for axes, task in zip(panels, tasks, strict=True):
            _panel(axes, {delay: of for (one, other, delay), of in found.items() if (one, other) == (task, policy)})
            style_axes(axes, f"{task}, {policy}")
    figure.axes[0].legend(frameon=False, fontsize=8)
    save(figure, path)


def _panel(axes: Any, found: Mapping[int, Mapping[str, Sequence[float]]]) -> None:
    delays = sorted(found)
    if not found:
        axes.text(0.5, 0.5, "not run", ha="center", transform=axes.transAxes)
    for number, (method, look) in enumerate(LOOKS.items()):
        there = [(at, found[at][method]) for at in delays if method in found[at]]
        x = [delays.index(at) + 0.06 * number for at, _ in there]
        axes.plot(x, [np.mean(of) for _, of in there], look.line, color=look.colour, marker="o", markersize=4)
        axes.plot([], [], look.line, color=look.colour, label=method.upper())
        for place, (_, values) in zip(x, there, strict=True):
            if len(values) > 1:
                interval = t_interval(values)
                axes.plot([place, place], [interval.low, interval.high], color=look.colour, linewidth=1)
    axes.set_xticks(range(len(delays)), labels=list(map(str, delays)))
    axes.set_xlabel("rewards are paid every ... steps")


LOOKS = {"es": STYLES["es"], "pg": STYLES["pg"], "cv": STYLES["natural-cv"]}


def main(wanted: Arguments) -> None:
    code = False
    if not wanted.tables:
        jobs = plan(wanted)
        for job in jobs:
            job.check()
        due = [job for job in jobs if not job.done]
        outcomes = Runner(wanted.jobs, CampaignDisplay({job.title: 1.0 for job in due})).run(due)
        code = any(outcome.status != "done" for outcome in outcomes)
        note_weights(jobs, wanted.out)
    records = read_group(wanted.out)
    text = table(records, read_weights(wanted.out))
    (wanted.out / "table.md").write_text(f"{text}\n{ablation(records)}")
    if installed("plot") and (shown := enough(mapped(cells(records)))):
        draw(shown, wanted.out / "map.png")
    print(text)
    sys.exit(code)


if __name__ == "__main__":
    main(tyro.cli(Arguments))
