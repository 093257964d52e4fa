"""Tables and numbers of the pages, made of the records in results/: python docs/make_numbers.py

`marks.py` says how a page marks them. A new one is a function in PARTS; whatever follows its name in a mark is given to
it. README's parts are those of make_front.py, the paper's those of paper_numbers.py, the device engine's those of
device_numbers.py.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from statistics import fmean, median
from typing import Any

import device_numbers
import paper_numbers
from marks import fill

from quell import registry
from quell.campaign.benchmark import APART, Grid, grid, scores
from quell.runs import archive
from quell.runs.record import read_group
from quell.stats import mean_std, probability_of_improvement
from quell.terminal.numbers import score
from quell.terminal.tables import markdown_lines

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results"
sys.path.append(str(ROOT / "benchmarks"))
PAGES = tuple(sorted([*ROOT.glob("docs/*.md"), *RESULTS.glob("**/README.md")]))


@cache
def benchmark() -> Grid:
    return grid(read_group(RESULTS / "benchmark"))


@cache
def facts(name: str) -> Any:
    """A JSON file below results/."""
    return json.loads((RESULTS / name).read_text())


@cache
def archived(folder: str) -> dict[str, dict[str, Any]]:
    """Name -> what the records of a folder below results/ hold."""
    return archive.read(RESULTS / folder)


def table(heads: list[str], rows: list[list[str]]) -> str:
    return "\n".join(markdown_lines(heads, rows))


# Parts of sentences


def above(first: str, other: str, what: str = "") -> str:
    """How often a run of one method ends above one of another, over all tasks of the benchmark but LQR."""
    both = {task: row for task, row in benchmark().items() if task not in APART}
    own, theirs = ({task: scores(row[name]) for task, row in both.items()} for name in (first, other))
    chance = probability_of_improvement(own, theirs)
    return f"{chance.value:.2f}" if what == "alone" else f"{chance.value:.2f} [{chance.low:.2f}, {chance.high:.2f}]"


def reached(task: str, method: str) -> str:
    """Mean ± standard deviation over the seeds of a row of the benchmark."""
    found = mean_std(scores(benchmark()[task][method]))
    return f"{score(found.mean)} ± {score(found.std)}"


def mean(task: str, method: str) -> str:
    return score(mean_std(scores(benchmark()[task][method])).mean)


def seeds(task: str, method: str) -> str:
    """What every seed of a row of the benchmark reached."""
    return ", ".join(f"{x:.0f}" if abs(x) >= 100 else f"{x:.1f}" for x in scores(benchmark()[task][method]))


def left(measurement: str, method: str) -> str:
    """Variance of an estimator, that of ES = 1, with its interval."""
    (row,) = [row for row in archived("variance")[measurement]["rows"] if row["name"] == method]
    ratio, digits = row["ratio"], 2 if row["ratio"]["value"] < 2 else 1
    return f"{ratio['value']:.{digits}f} [{ratio['low']:.{digits}f}, {ratio['high']:.{digits}f}]"


def slower(task: str, row: str = "default") -> str:
    """Time of a step beside that of ES, in the benchmark of the clock."""
    return f"{facts('throughput/clock.json')['tasks'][task][row]['ratio'][0]:.2f}"


# Tables


def contents(name: str) -> str:
    """A table that a command wrote beside its records."""
    return (RESULTS / name).read_text()


def natural(when: str) -> str:
    """Variance, bias² and gain at single policies, untrained (init) or trained."""
    rows, found = [], archived("variance")
    order = ("halfcheetah", "hopper", "swimmer", "dm-cheetah-run", "dm-cartpole-swingup", "dm-cartpole-balance")
    for task in (*order, "walker2d"):
        if (one := found.get(f"natural/{task}-{when}")) is None:
            continue
        steps = {row["name"]: row["metrics"]["step"] for row in one["rows"]}
        gains = {gain["name"]: gain["gain"] for gain in one["gains"]}
        small = [steps[name][kind] for kind in ("ratio", "bias") for name in ("actor-critic", "natural-cv")]
        cells = [f"{x['value']:.1e} [{x['low']:.0e}, {x['high']:.0e}]" for x in small]
        large = [gains[name] for name in ("es", "actor-critic", "natural-cv")]
        rows.append([task, *cells, *(f"{x['value']:+.1f} [{x['low']:+.0f}, {x['high']:+.0f}]" for x in large)])
    names = ("actor-critic", "natural-cv")
    heads = [f"{kind}: {name}" for kind in ("variance", "bias²") for name in names]
    return table(["task", *heads, *(f"gain: {name}" for name in ("es", *names))], rows)


def shaped() -> str:
    """Variance of ES on isotropic and on shaped directions."""
    rows = []
    for one in facts("variance/directions.json")["variance"]:
        step, kl = one["step"], one["kl"]
        factor = f"{step['factor']:.1f} [{step['at least']:.1f}, {step['at most']:.1f}]"
        rows.append([one["task"], f"{one['nats']:g}", f"{kl['isotropic']:.4f}, {kl['fisher']:.4f}", factor])
    return table(["task", "nats asked for", "true mean KL (isotropic, fisher)", "variance isotropic / fisher"], rows)


def size() -> str:
    """Time and memory of ES with directions that are formed, and that are not."""
    rows = []
    for one in facts("variance/directions.json")["size"]:
        memory = f"{one['driver']:.2f}, {one['worker']:.2f}"
        rows.append([f"{one['d']:,}", one["kind"], f"{one['seconds']:.2f}", memory])
    return table(["parameters", "directions", "seconds an iteration", "peak GiB (driver, worker)"], rows)


def normalisation() -> str:
    """Sine of the angle by which normalising returns turns the expected direction."""
    found: dict[str, dict[int, str]] = {}
    for row in facts("variance/normalisation.json")["rows"]:
        cell = f"{100 * row['off']:.1f}% ± {100 * row['error']:.1f}%"
        found.setdefault(row["task"].replace("linear-", "linear "), {})[row["pairs"]] = cell
    return table(["", "5 pairs", "40 pairs"], [[task, row[5], row[40]] for task, row in found.items()])


def clock() -> str:
    """Whole iterations, per 1,000 steps."""
    rows = []
    for task, row in facts("throughput/clock.json")["tasks"].items():
        for name, one in row.items():
            beside = "" if name.startswith("es") else "{:.2f} [{:.2f}, {:.2f}]".format(*one["ratio"])
            rows.append([task, name, f"{median(one['steps']):.0f}", f"{median(one['ms']):.1f}", beside])
    return table(["task", "row", "steps of an iteration", "ms per 1,000 steps", "time beside ES"], rows)


def since(commit: str) -> str:
    """Time of whole iterations beside another commit's: clock, and processor time of all processes."""
    rows = []
    for name, one in facts(f"throughput/since-{commit}.json")["times"].items():
        ratios = ["{:.3f} [{:.3f}, {:.3f}]".format(*one[of]) for of in ("clock", "processor")]
        rows.append([name, f"{one['old ms']:.0f}, {one['new ms']:.0f}", *ratios])
    return table(["row", "ms, old and new", "new / old, clock", "new / old, processor time"], rows)


def bits(commit: str) -> str:
    """How many combinations still train to the same bits, by task, and what is different."""
    rows = []
    for task, found in facts(f"throughput/since-{commit}.json")["bits"].items():
        other = [name for name, one in found.items() if "same" not in one]
        ray = sum(name.endswith("on Ray") for name in found)
        same = f"{len(found) - len(other)} of {len(found)}"
        rows.append([task, same, str(ray), ", ".join(other)])
    return table(["task", "same bits", "of them on Ray", "different"], rows)


def physics() -> str:
    """Microseconds of a step of a worker's simulator, stage by stage left out."""
    rows = []
    for task, one in facts("throughput/physics.json").items():
        cells = [f"{one[stage]:.1f}" for stage in ("shipped", "untimed", "lean")]
        rows.append([task, *cells, f"{one['lean'] / one['shipped']:.2f}"])
    return table(["task", "as shipped", "without the clock", "without idle stages", ""], rows)


def soak() -> str:
    """Memory, processes and descriptors over a long run."""
    names = {"driver_mb": "driver, MB", "workers_mb": "workers, MB", "processes": "processes"}
    names |= {"threads": "threads of the driver", "descriptors": "descriptors"}
    rows = [(words, facts("soak/lqr-cv.json")["summary"][name]) for name, words in names.items()]
    return table(["", "early", "late", "most"], [[words, *map(str, one.values())] for words, one in rows])


def model(dim: str, method: str) -> str:
    """What an iteration on many machines would cost, simulated."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    from scale_model import Workload
    from scale_model import table as simulated

    return simulated(Workload(int(float(dim)), method=method))  # type: ignore[arg-type]


def strategies() -> str:
    """Everything that a method can be made of, by the name that a flag takes, in the words of its class."""
    rows = []
    for kind in registry.KINDS:
        for name, cls in registry.table(kind).items():
            rows.append([f"`--{kind}`", f"`{name}`", (cls.__doc__ or "").partition("\n")[0].replace("|", "\\|")])
    return table(["flag", "name", "what it is"], rows)


def regimes(part: str = "cells") -> str:
    """The map: scores in every cell, all cells together, CV with parts taken away, ES's weight, cells not run."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    import regimes as made

    records = read_group(RESULTS / "regimes")
    if part == "weights":
        return made.weighed(made.read_weights(), facts("regimes/law.json"))
    parts = {"pooled": made.pooled, "key": made.key, "ablation": made.ablation, "missing": made.not_run}
    return parts[part](records) if part in parts else made.table(records, made.read_weights(), whole=part == "all")


def trials() -> str:
    """What was tried on the way to mixed-cv, on tuning seeds: means, with the number of seeds where there are more."""
    found: dict[tuple[str, int, str], dict[str, list[float]]] = {}
    for record in read_group(RESULTS / "regimes/tuning"):
        cell, _, label = record.label.rpartition("-")
        if len(label) == 2 and label.startswith("m"):
            policy, delay, _ = cell.split("-", 2)
            where = policy, int(delay.removeprefix("delay")), record.config.task
            found.setdefault(where, {}).setdefault(label, []).append(record.return_mean_action)
    labels = sorted({label for of in found.values() for label in of})
    rows = [
        [task, policy, str(delay), *(_several(of.get(label, [])) for label in labels)]
        for (policy, delay, task), of in sorted(found.items())
    ]
    return table(["task", "policy", "delay", *(f"`{label}`" for label in labels)], rows)


def _several(values: list[float]) -> str:
    return f"{fmean(values):.0f}" + (f" ({len(values)})" if len(values) > 1 else "") if values else ""


def advised() -> str:
    """What `quell advise` says, beside the map."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    import advised as made
    from regimes import cells, mapped

    return made.table(facts("regimes/advice.json"), mapped(cells(read_group(RESULTS / "regimes"))))


def law() -> str:
    """The noise of ES beside that of the policy gradient, predicted and measured."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    from law import table as points

    return points(facts("regimes/law.json"))


def runs(folder: str) -> str:
    """One line for every setting of a campaign of benchmarks/learning.py."""
    from learning import grouped
    from learning import table as lines

    return lines(grouped(read_group(RESULTS / folder)))


def untrained() -> str:
    """What untrained policies earn, by how they start."""
    from untrained import table as starts

    return starts(facts("initial-policy/untrained.json"))


def habits() -> str:
    """What those who come from other libraries type, and what came of it."""
    tried = facts("habits/habits.json")["habits"]
    rows = [[name, one["outcome"], one["said"].replace("|", "\\|")] for name, one in tried.items()]
    return table(["typed", "outcome", "the line that was printed or said"], rows)


def seconds() -> str:
    """Seconds to a score."""
    from seconds import OUT, read, table

    return str(table(read(OUT)))


def peers() -> str:
    """Other libraries' speed, and what follows for their seconds to a score, beside the default's."""
    from peers import OUT, curves, read
    from seconds import OUT as OURS
    from seconds import groups, reached
    from seconds import read as ours

    default = {
        (task, target): median(reached(run["curve"], target) or math.inf for run in runs)
        for task, target, method, runs in groups(ours(OURS))
        if method == "natural-cv"
    }
    rows, found = [], curves(read(OUT))
    for row in [row for row in read(OUT) if row["kind"] == "speed"]:
        case, speed = (row["task"], row["method"]), row["steps_per_second"]
        for target in sorted(target for of, target in default if of == row["task"]):
            own, took, times = default[row["task"], target], [], []
            for run in found.get(case, []):
                one, last = reached([list(point) for point in run], target), run[-1][0]
                took.append(f"{one:,.0f}" if one else f"not within {last:,.0f}")
                times.append(f"{one / own:.0f}" if one else f"over {last / own:.0f}")
            cells = [row["task"], f"{target:g}", row["method"], f"{speed:,.0f}", f"{1e6 / speed:,.0f}"]
            rows.append([*cells, ", ".join(took) or "not run", f"{own:.1f}", ", ".join(times)])
    heads = ["task", "score", "method", "steps/s", "seconds of a million steps", "seconds to the score", "default"]
    return table([*heads, "times as long"], rows)


def growth(what: str) -> str:
    """Steps per second as one thing about a run grows: ES, the default, and the default's share of ES."""
    rows = []
    for name, one in facts("throughput/growth.json")["steps_per_second"][what].items():
        both = [f"{one[method]:,}" if method in one else "" for method in ("es", "natural-cv")]
        rows.append([name, *both, f"{one['natural-cv'] / one['es']:.2f}" if "natural-cv" in one else ""])
    return table([what, "ES, steps/s", "default, steps/s", "share"], rows)


def horizons() -> str:
    """Scores against steps where training episodes are cut short."""
    from horizons import OUT, read
    from horizons import table as compared

    return str(compared(read(OUT)))


def es_peers() -> str:
    """Steps per second of ES beside other libraries'."""
    from es_peers import table as raced

    return str(raced(facts("throughput/es-peers.json")["steps_per_second"]))


PARTS: dict[str, Callable[..., str]] = {
    **{part.__name__: part for part in (above, reached, mean, seeds, left, slower)},
    **paper_numbers.PARTS,
    **{part.__name__: part for part in (contents, natural, shaped, size, normalisation, clock, since, bits)},
    **{part.__name__: part for part in (physics, soak, model, strategies, trials)},
    **{part.__name__: part for part in (regimes, advised, law, runs, untrained, habits, seconds, peers)},
    **device_numbers.PARTS,
    **{part.__name__: part for part in (growth, es_peers, horizons)},
}


def make(name: str) -> str:
    part, *given = name.split()
    return PARTS[part](*given)


def page(text: str) -> str:
    """A page with its parts made anew."""
    return fill(text, make, "make_numbers.py")


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(page(path.read_text()))
