"""Two source trees in one race: another commit and this checkout take turns, row by row, on the same machine.

`throughput.py --against COMMIT` and `cluster.py --against COMMIT` use this. Each side is a process of its own, started
from the same benchmark file with its own source tree in front, that waits while the other works. Both meet the same
load, turn by turn, so the ratios say more than two runs could. Several pairs of processes are raced, because how memory
happens to be laid out can make one process a per cent faster than the next. Beside the time on the clock stands the
processor time of a side and all its workers, which other programs disturb far less.

    race        what the benchmarks call
    serve       what their children do
    make_trainer  the same work in the words of both sides
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
Contestant = Callable[[], Any]
"""Does one turn's work; what it returns is compared between the sides, as far as it has bits."""


@contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    """A commit's files in a temporary git worktree."""
    with tempfile.TemporaryDirectory() as folder:
        tree, git = Path(folder) / "tree", ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(tree), commit], check=True)
        try:
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


class Side:
    """A child that does a turn when told to."""

    def __init__(self, script: Path, tree: Path, arguments: list[str]) -> None:
        environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
        command = [sys.executable, str(script), "--serve", *arguments]
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.rows: list[str] = self._answer()

    def turn(self, row: str) -> tuple[float, float, str]:
        """(seconds, processor seconds, what came out)."""
        assert self._process.stdin is not None
        before = processor_seconds(self._process.pid)
        self._process.stdin.write(row + "\n")
        self._process.stdin.flush()
        seconds, came_out = self._answer()
        return seconds, processor_seconds(self._process.pid) - before, came_out

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=120)

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"a side ended with exit code {self._process.wait()}; what it said is above")
        return json.loads(line)


def processor_seconds(root: int) -> float:
    """What a process, all that it started, and their threads have used so far (Linux)."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has just ended
            continue
    family = {root}
    while grown := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= grown
    used = 0
    for pid in family:
        for thread in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            with suppress(OSError):
                used += int(thread.read_text().split()[0])
    return 1e-9 * used


def serve(contestants: dict[str, Contestant]) -> None:
    """Take turns until the parent goes away; answers go where stdout was, and prints to stderr."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    print(json.dumps(list(contestants)), file=answers, flush=True)
    for line in sys.stdin:
        started = time.perf_counter()
        came_out = contestants[line.strip()]()
        seconds = time.perf_counter() - started
        print(json.dumps([seconds, _digest(came_out)]), file=answers, flush=True)


def race(
    script: str, commit: str, *, rounds: int, processes: int, arguments: list[str], warm: int = 2
) -> dict[str, dict[str, Any]]:
    """Seconds of both sides and their ratios, row by row; the table is printed."""
    found: dict[str, dict[str, Any]] = {}
    with checked_out(commit) as tree, suppress(KeyboardInterrupt):  # Ctrl-C: what there is so far
        for number in range(processes):
            sides = {
                name: Side(Path(script).resolve(), path, arguments) for name, path in (("old", tree), ("new", ROOT))
            }
            try:
                for row in sides["new"].rows:
                    facts = found.setdefault(
                        row, {**{side: {"clock": [], "processor": []} for side in sides}, "same": True}
                    )
                    _take_turns(sides, row, facts, rounds=rounds, warm=warm, first=number)
                    print(f"{row}, {number + 1} of {processes}", file=sys.stderr, flush=True)
            finally:
                for side in sides.values():
                    side.close()
    found = {row: facts for row, facts in found.items() if facts["old"]["clock"]}
    print(f"{'new / old, median of turns [95% interval]':<46}{'clock':<26}{'processor':<26}same result")
    for row, facts in found.items():
        for time_of in ("clock", "processor"):
            facts[f"{time_of} ratio"] = ratio(facts["old"][time_of], facts["new"][time_of])
        cells = "".join(f"{'{:.3f} [{:.3f}, {:.3f}]'.format(*facts[f'{t} ratio']):<26}" for t in ("clock", "processor"))
        times = " / ".join(f"{1e3 * median(facts[side]['clock']):.1f}" for side in ("old", "new"))
        print(f"{row:<24}{times + ' ms':<22}{cells}{'yes' if facts['same'] else 'NO'}")
    return found


def _take_turns(sides: dict[str, Side], row: str, facts: dict[str, Any], *, rounds: int, warm: int, first: int) -> None:
    """One row: old and new in turn, and who goes first alternates."""
    for number in range(rounds + warm):
        order = list(sides) if (number + first) % 2 else list(sides)[::-1]
        turns = {name: sides[name].turn(row) for name in order}
        facts["same"] &= turns["old"][2] == turns["new"][2]
        if number >= warm:  # before, things compile
            for name, (seconds, processor, _) in turns.items():
                facts[name]["clock"].append(seconds)
                facts[name]["processor"].append(processor)


def ratio(old: list[float], new: list[float]) -> tuple[float, float, float]:
    """The median of the turns' ratios, and its 95% interval by order statistics (a sign test turned around)."""
    ratios = sorted(n / o for o, n in zip(old, new, strict=True))
    reach = 0.98 * len(ratios) ** 0.5
    low, high = round(len(ratios) / 2 - reach) - 1, round(len(ratios) / 2 + reach)
    return median(ratios), ratios[max(0, low)], ratios[min(len(ratios) - 1, high)]


def _digest(came_out: Any) -> str:
    theta = getattr(came_out, "theta", None)
    return "" if theta is None else hashlib.sha256(theta.tobytes()).hexdigest()[:16]


# The same work in the words of both sides: since presets choose numbers alone, and before.

OF_ONE_PRESET = {
    **{"natural-cv": ("tuned", "cv"), "trpo": ("tuned", "trpo"), "ppo": ("tuned", "ppo")},
    **{"cv": ("paper", "cv"), "trpo-paper": ("paper", "trpo"), "ppo-paper": ("paper", "ppo")},
}
"""Method -> the one preset that had it before presets chose numbers alone, and the name it had there."""
FIXED: dict[str, Any] = {"discount": {"name": "fixed", "gammas": (0.99,)}}
"""The paper's control variate without trials of other discounts."""


START: dict[str, Any] = {"policy.output_scale": 1.0, "policy.init_std": 1.0}
"""Where a policy starts, which the preset paper said otherwise before: both sides play the same episodes."""


def known_as(method: str, preset: str) -> str | None:
    """What this source tree calls a method; None if it does not have it under that preset."""
    if importlib.util.find_spec("quell.presets"):
        return method
    only, name = OF_ONE_PRESET.get(method, (preset, method.replace("ppo-paper+", "ppo+")))
    return name if only == preset else None


def make_trainer(task: str, method: str, preset: str, *, workers: int, engine: str = "cpu", **settings: Any) -> Any:
    """A Trainer of a method by today's name, in whichever source tree this is."""
    from quell import registry
    from quell.training.iteration import Trainer
    from quell.training.methods import make_config

    config = make_config(task, known_as(method, preset), preset, settings)  # type: ignore[arg-type]
    return Trainer(config, registry.make("engine", engine, {"workers": workers}))


def iterations(trainer: Any, first: Any = None, count: int = 3) -> Contestant:
    """So many iterations on end from one state, again and again: always the same episodes. The turn is over when all is
    computed, also what goes on in the background of the next episodes."""
    import jax

    start = trainer.initial_state() if first is None else first

    def turn() -> Any:
        state = start
        for _ in range(count):
            state, _ = trainer.iterate(state)
        jax.block_until_ready(state.estimator)
        return state

    return turn
