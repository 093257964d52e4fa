"""Does this checkout train to the same bits as another commit?

    python benchmarks/same_bits.py COMMIT [--methods es natural-cv] [--tasks swimmer] [--json FILE]

Both sides train every method, with both presets, for about five iterations on five tasks (es and cv also on Ray), each
in a process of its own with its own source tree; what is compared is theta's SHA-256 and the number of iterations.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

STEPS = {
    "swimmer": 50_000,
    "hopper": 1_200,
    "dm-cartpole-swingup": 50_000,
    "roboschool-pong": 50_000,
    "gym:CartPole-v1": 1_100,
}
"""Five iterations of five pairs: 1,000 steps an episode, or some twenty where an untrained policy falls."""
METHODS = ("natural-cv", "cv", "es", "ortho", "gcmc", "qmc", "det", "ars", "pg", "trpo", "ppo", "trpo-paper")
METHODS += ("ppo-paper", *(f"ppo-paper+{switches}" for switches in ("s", "a", "m", "s+a", "s+m", "a+m", "s+a+m")))
ON_RAY = ("es", "natural-cv")
OF_ONE_PRESET = {
    **{"natural-cv": ("tuned", "cv"), "trpo": ("tuned", "trpo"), "ppo": ("tuned", "ppo")},
    **{"cv": ("paper", "cv"), "trpo-paper": ("paper", "trpo"), "ppo-paper": ("paper", "ppo")},
}
"""Before presets chose numbers alone: method -> the one preset that had it, and the name it had there."""
ROOT = Path(__file__).resolve().parents[1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit", help="what to compare with")
    parser.add_argument("--methods", nargs="*", default=METHODS)
    parser.add_argument("--tasks", nargs="*", default=list(STEPS))
    parser.add_argument("--no-ray", action="store_true")
    parser.add_argument("--json", type=Path, help="write both sides' hashes here")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        arguments.child.write_text(json.dumps(train_all(arguments.tasks, arguments.methods, not arguments.no_ray)))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        old = Path(folder) / "old"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(old), arguments.commit], check=True)
        try:
            sides = {name: side(path, Path(folder), arguments) for name, path in (("old", old), ("new", ROOT))}
        finally:
            subprocess.run([*git, "remove", "--force", str(old)], check=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(sides, indent=1) + "\n")
    return compare(sides["old"], sides["new"])


def side(tree: Path, folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """The hashes of one source tree."""
    out = folder / f"{tree.name}.json"
    command = [sys.executable, __file__, arguments.commit, "--child", str(out), "--tasks", *arguments.tasks]
    command += ["--methods", *arguments.methods, *(["--no-ray"] if arguments.no_ray else [])]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": str(tree / "src")}, cwd=folder)
    return dict(json.loads(out.read_text()))


def compare(old: dict[str, Any], new: dict[str, Any]) -> int:
    different = [name for name in old if old[name] != new.get(name)]
    for name in old:
        mark = "DIFFERENT" if name in different else "same"
        print(f"{name:<52}{mark:<10}{' / '.join(map(str, new.get(name, ['missing'])))[:60]}")
    print(f"{len(old) - len(different)} of {len(old)} are the same")
    return int(bool(different))


def train_all(tasks: list[str], methods: list[str], ray: bool) -> dict[str, Any]:
    found = {}
    for preset in ("paper", "tuned"):
        for task in tasks:
            for method in methods:
                if known_as(method, preset) is None:
                    continue
                found[f"{task} {method} {preset}"] = train(task, method, preset)
                if ray and method in ON_RAY and preset == "tuned":
                    found[f"{task} {method} {preset} on Ray"] = train(task, method, preset, ray=True)
    return found


def known_as(method: str, preset: str) -> str | None:
    """What this source tree calls a method; None if it does not have it."""
    if importlib.util.find_spec("quell.presets"):
        return method
    only, name = OF_ONE_PRESET.get(method, (preset, method.replace("ppo-paper+", "ppo+")))
    return name if only == preset else None


def train(task: str, method: str, preset: str, *, ray: bool = False) -> list[Any]:
    """[iterations, theta's SHA-256], or what was refused."""
    import quell

    with tempfile.TemporaryDirectory() as out:
        settings: dict[str, Any] = {"seed": 3, "eval_every": 0, "eval_episodes": 1, "out": out, "progress": False}
        if ray:
            settings |= on_ray()
        else:
            settings["workers"] = 1
        try:
            result = quell.train(task, method=known_as(method, preset), preset=preset, steps=STEPS[task], **settings)  # type: ignore
        except quell.UsageError as error:
            return ["refused", type(error).__name__]
        print(task, method, preset, "ray" if ray else "", file=sys.stderr, flush=True)
        return [result.iteration, hashlib.sha256(result.theta.tobytes()).hexdigest()]


def on_ray() -> dict[str, Any]:
    """How to ask for two Ray workers: before and since engines became values."""
    import quell

    if hasattr(quell, "Ray"):
        return {"engine": quell.Ray(workers=2)}
    return {"compute": quell.Compute(workers=2, engine="ray")}


if __name__ == "__main__":
    sys.exit(main())
