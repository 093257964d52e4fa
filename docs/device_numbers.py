"""Tables of the device engine's pages, made of the records in results/device: parts of make_numbers.py."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from quell.terminal.numbers import score
from quell.terminal.tables import markdown_lines

RESULTS = Path(__file__).resolve().parents[1] / "results" / "device"
TARGETS = (3000, 4000, 5000, 7000)


@cache
def facts(name: str) -> Any:
    return json.loads((RESULTS / name).read_text())


def device(what: str) -> str:
    """Parity with C MuJoCo, rates of iterations, seeds side by side, seconds to scores and of compiling, peers."""
    heads, rows = PARTS_OF[what]()
    return "\n".join(markdown_lines(heads, rows))


Table = tuple[list[str], list[list[str]]]


def parity() -> Table:
    heads = ["task", *(f"{kind}, {n}" for kind in ("joints", "observations") for n in (1, 10, 50))]
    rows = []
    for name, one in facts("parity-jax-h200.json")["tasks"].items():
        after, returned = one["stepped"]["after"], one["returned"]
        apart = [f"{at[kind]:.0e}" for kind in ("qpos", "obs") for at in after.values()]
        means = [score(sum(returned[side]) / len(returned[side])) for side in ("c", "mjx")]
        gap, low, high = returned["difference"]
        rows.append([f"`{name}`", *apart, *means, f"{gap:+.1f} [{low:.1f}, {high:.1f}]"])
    return [*heads, "return in C", "on MJX", "difference, 95%"], rows


def rate_rows(cache: str) -> Iterator[dict[str, Any]]:
    for run in facts("rates-h200.json")["runs"]:
        if run["cache"] == cache:
            yield from run["rows"]


def rates() -> Table:
    groups: dict[tuple[str, str, int], dict[str, Any]] = {}
    for row in [*facts("h200.json")["rates"], *rate_rows("full")]:
        groups.setdefault((row["task"], row["impl"], row["members"]), {})[row["row"]] = row
    rows = []
    for (task, impl, members), of in sorted(groups.items()):
        shares = [f"{of[name]['share']:.2f}" if name in of else "" for name in ("es", "cv", "default")]
        rows.append([task, impl, f"{members:,}", f"{of['raw']['rate']:,.0f}", *shares])
    return ["task", "physics", "members", "raw rollout, steps/s", "ES", "CV", "default"], rows


def seeds() -> Table:
    found = facts("seeds-h200.json")
    many = str(found["asked"]["seeds"])
    rows = [[f"{turn['1']:,.0f}", f"{turn[many]:,.0f}", f"{turn[many] / turn['1']:.1f}"] for turn in found["turns"]]
    return ["one alone, steps/s", f"{many} in one program, steps/s", "times"], rows


def seconds() -> Table:
    """Full runs only: first iteration, the first policy to earn each score, and the best there was."""
    rows = []
    for run in map(json.loads, (RESULTS / "seconds-h200.jsonl").read_text().splitlines()):
        if "only" in run:
            continue
        curve, changed = run["curve"], dict(one.split("=") for one in run["settings"])
        there = [next((point for point in curve if point["score"] >= target), None) for target in TARGETS]
        best = max(curve, key=lambda point: point["score"])
        cells = [f"`{run['task']}`", f"`{run['method']}`", f"{run['members']:,}", changed.get("train_horizon", "1000")]
        cells += [f"{curve[0]['seconds']:.0f}", *(f"{point['seconds']:.0f}" if point else "" for point in there)]
        rows.append([*cells, f"{best['score']:,.0f} after {best['seconds']:.0f}", f"{curve[-1]['steps'] / 1e6:.1f}"])
    heads = ["task", "method", "members", "episodes of", "first iteration", *map(str, TARGETS)]
    return [*heads, "best", "million steps"], rows


def compiling() -> Table:
    """Of whole programs: from an empty cache, with Warp's kernels there."""
    rows = [[row["impl"], f"{row['members']:,}", row["row"], f"{row['compiling']:.0f}"] for row in rate_rows("empty")]
    found = facts("h200.json")["compiling"]
    rows += [["jax", f"{one['members']:,}", one["row"], f"{one['seconds']:.0f}"] for one in found]
    return ["physics", "members", "program", "seconds"], rows


def peers() -> Table:
    found = facts("h200.json")["peers"]
    rows = [[one["env"], f"{one['members']:,}", one["library"], f"{one['rate']:,}"] for one in found]
    return ["environment", "members", "library", "steps/s"], rows


PARTS_OF: dict[str, Callable[[], Table]] = {
    part.__name__: part for part in (parity, rates, seeds, seconds, compiling, peers)
}
PARTS: dict[str, Callable[..., str]] = {"device": device}
