"""What `quell advise` says before anything is trained, beside what was then measured.

    python benchmarks/advised.py [--tasks halfcheetah]

Linear policies, rewards at every step and at the end of an episode; what is there is not measured again. Writes
results/regimes/advice.json. The table sets it beside the map's cells (benchmarks/regimes.py).
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regimes import POLICIES, RESULTS, TASKS, Found, cells, mapped

from quell.measure.advice import advise
from quell.runs.record import read_group

DELAYS = (1, 1000)
POLICY = "linear"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="*", default=list(TASKS))
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    file = arguments.out / "advice.json"
    found: list[dict[str, Any]] = json.loads(file.read_text()) if file.exists() else []
    known = {(one["task"], one["delay"]) for one in found}
    for task in arguments.tasks:
        for delay in DELAYS:
            if (task, delay) not in known:
                found.append(advised(task, delay))
                file.write_text("[\n" + ",\n".join(map(json.dumps, found)) + "\n]\n")
    print(table(found, mapped(cells(read_group(arguments.out)))))


def advised(task: str, delay: int) -> dict[str, Any]:
    """All numbers of one task, without training."""
    settings = {"delay": delay, "policy.hidden": POLICIES[POLICY], "policy.init_std": 0.15}
    told = advise(task, settings=settings, workers=1, progress=False)
    return {**dataclasses.asdict(told), "share": told.best.share, "verdict": told.verdict}


def table(advice: Sequence[dict[str, Any]], found: Found) -> str:
    """What was said, and the scores of ES and the policy gradient in the same cell of the map."""
    lines = ["| task | delay | ES's share | seconds | said | ES | PG | CV | was it so? |", "|---" * 9 + "|"]
    for one in advice:
        of = found.get((one["task"], POLICY, one["delay"]), {})
        shown = [f"{sum(of[name]) / len(of[name]):.0f}" if name in of else "not run" for name in ("es", "pg", "cv")]
        cell = [one["task"], one["delay"], f"{one['share']:.2g}", f"{one['seconds']:.0f}", one["verdict"], *shown]
        lines.append("| " + " | ".join(map(str, [*cell, _so(one["verdict"], of)])) + " |")
    return "\n".join(lines) + "\n"


def _so(verdict: str, of: Any) -> str:
    if "es" not in of or "pg" not in of:
        return ""
    es, pg = (sum(of[name]) / len(of[name]) for name in ("es", "pg"))
    better = "es" if es > pg else "policy gradient"
    return "either" if verdict == "both" else "yes" if verdict == better else f"no: {better}"


if __name__ == "__main__":
    main()
