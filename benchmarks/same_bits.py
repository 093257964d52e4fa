"""Does this checkout train to the same bits as another commit?

    python benchmarks/same_bits.py COMMIT [--methods es natural-cv] [--tasks swimmer] [--on-ray es] [--json FILE]

The other commit trains every method, with both presets, for about five iterations on six tasks (es and natural-cv also
on Ray, or all that --on-ray names). This checkout then trains what the other one's config.json says, under today's
names; compared is theta's SHA-256 after every iteration but the last, which a budget may cut. Each side has a process
and a source tree of its own. Behind every combination stand the settings that today's preset gives another value: those
are changed numbers, not changed bits.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from against import FIXED, known_as

STEPS = {
    "swimmer": 50_000,
    "hopper": 1_200,
    "dm-cartpole-swingup": 50_000,
    "roboschool-pong": 50_000,
    "gym:CartPole-v1": 1_100,
    "lqr-302": 15_000,
}
"""Five iterations of five pairs: 1,000 steps an episode, or some twenty where an untrained policy falls."""
BATCHES = 4
"""At least so many where batches are counted in steps; the last is cut at the budget and not compared."""
DEFAULT = "default"
"""No method asked for: what a task is then trained with, under the preset tuned."""
ASKED = {"seed": 3, "eval_every": 0, "eval_episodes": 1, "checkpoint_every": 1, "keep_checkpoints": 1000}
METHODS = (DEFAULT, "natural-cv", "cv", "es", "ortho", "gcmc", "qmc", "det", "ars", "pg", "trpo", "ppo", "trpo-paper")
METHODS += ("ppo-paper", *(f"ppo-paper+{switches}" for switches in ("s", "a", "m", "s+a", "s+m", "a+m", "s+a+m")))
METHODS += (FIXED_CV := "cv, gamma fixed",)
ON_RAY = ("es", "natural-cv")
ROOT = Path(__file__).resolve().parents[1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit", help="what to compare with")
    parser.add_argument("--methods", nargs="*", default=METHODS)
    parser.add_argument("--tasks", nargs="*", default=list(STEPS))
    parser.add_argument("--on-ray", nargs="*", default=ON_RAY, help="methods that are trained on Ray too, preset tuned")
    parser.add_argument("--json", type=Path, help="write both sides here")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--old", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        found = again(json.loads(arguments.old.read_text())) if arguments.old else train_all(arguments)
        arguments.child.write_text(json.dumps(found))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        old = Path(folder) / "old"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(old), arguments.commit], check=True)
        try:
            before = side(old, arguments, Path(folder) / "before.json")
            after = side(ROOT, arguments, Path(folder) / "after.json", ["--old", str(Path(folder) / "before.json")])
        finally:
            subprocess.run([*git, "remove", "--force", str(old)], check=True)
    if arguments.json:
        arguments.json.write_text(json.dumps({"old": before, "new": after}, indent=1) + "\n")
    return compare(before, after)


def side(tree: Path, arguments: argparse.Namespace, out: Path, more: list[str] | None = None) -> dict[str, Any]:
    """What one source tree trains."""
    command = [sys.executable, __file__, arguments.commit, "--child", str(out), "--tasks", *arguments.tasks]
    command += ["--methods", *arguments.methods, "--on-ray", *arguments.on_ray, *(more or [])]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": str(tree / "src")}, cwd=out.parent)
    return dict(json.loads(out.read_text()))


def compare(old: dict[str, Any], new: dict[str, Any]) -> int:
    different = 0
    for name in old:
        before, after = old[name]["bits"], new[name]["bits"]
        whole = max(1, min(len(before), len(after)) - 1)
        at = next((i for i in range(whole) if before[i : i + 1] != after[i : i + 1]), None)
        different += at is not None
        told = f"same, {whole} iterations" if at is None else f"DIFFERENT in iteration {at + 1}: {after[at:][:1]}"
        changed = " ".join(new[name].get("changed", []))
        print(f"{name:<44}{told:<28}{f'changed numbers: {changed}' if changed else ''}".rstrip())
    print(f"{len(old) - different} of {len(old)} are the same")
    return int(bool(different))


def train_all(asked: argparse.Namespace) -> dict[str, Any]:
    """What is trained by name: its bits, and its settings."""
    found = {}
    for preset in ("paper", "tuned"):
        for task in asked.tasks:
            for method in asked.methods:
                if own(method, preset) is None:
                    continue
                found[f"{task} {method} {preset}"] = train(task, method, preset)
                if method in asked.on_ray and preset == "tuned":
                    found[f"{task} {method} {preset} on Ray"] = train(task, method, preset, ray=True)
    return found


def own(method: str, preset: str) -> dict[str, Any] | None:
    """What asks for a method in this source tree; None if it does not have it under that preset."""
    if method == DEFAULT:
        return {} if preset == "tuned" else None
    name, more = ("cv", FIXED) if method == FIXED_CV else (method, {})
    return (known := known_as(name, preset)) and {"method": known, **more}


def train(task: str, method: str, preset: str, *, ray: bool = False) -> dict[str, Any]:
    """The bits of every iteration, or what was refused; and the settings as config.json has them."""
    import quell
    from quell.training.methods import make_config

    asked = own(method, preset) or {}
    name = asked.get("method") or known_as("natural-cv", preset)
    batch = make_config(task, name, preset, {}).batch_steps  # type: ignore[arg-type]
    steps = max(STEPS[task], BATCHES * batch)
    with tempfile.TemporaryDirectory() as out:
        settings: dict[str, Any] = {**ASKED, "out": out, "progress": False}
        settings |= on_ray() if ray else {"workers": 1}
        try:
            result = quell.train(task, preset=preset, steps=steps, **settings, **asked)  # type: ignore
        except quell.UsageError as error:
            return {"bits": ["refused", type(error).__name__]}
        print(task, method, preset, "on Ray" if ray else "", file=sys.stderr, flush=True)
        settings = json.loads((result.path / "config.json").read_text())
        return {"bits": bits(result), "settings": {key: value for key, value in settings.items() if key != "schema"}}


def again(old: dict[str, Any]) -> dict[str, Any]:
    """The same settings in this source tree, and which of them its own presets give another value."""
    return {name: retrained(name, one["settings"]) if "settings" in one else one for name, one in old.items()}


def retrained(name: str, settings: dict[str, Any]) -> dict[str, Any]:
    import quell
    from quell.api import start
    from quell.config import changed, from_dict
    from quell.training.methods import make_config

    ray = name.endswith(" on Ray")
    task, _, rest = name.removesuffix(" on Ray").partition(" ")
    method, _, preset = rest.rpartition(" ")
    with tempfile.TemporaryDirectory() as out:
        try:
            config = from_dict(settings)
            compute = on_ray()["engine"] if ray else quell.Cpu(workers=1)
            result = start(config, compute=compute, out=Path(out), progress=False)
        except quell.UsageError as error:
            return {"bits": ["refused", str(error)]}
        asked = {**ASKED, "steps": config.steps, **(own(method, preset) or {})}
        today = make_config(task, asked.pop("method", None), preset, asked)  # type: ignore[arg-type]
        print(name, file=sys.stderr, flush=True)
        return {"bits": bits(result), "changed": changed(config, today)}


def bits(result: Any) -> list[str]:
    """Of theta after every iteration, from its checkpoint."""
    import quell

    thetas = (quell.load(result.path, at=at).theta for at in range(1, result.iteration + 1))
    return [hashlib.sha256(theta.tobytes()).hexdigest()[:16] for theta in thetas]


def on_ray() -> dict[str, Any]:
    import quell

    return {"engine": quell.Ray(workers=2)}


if __name__ == "__main__":
    sys.exit(main())
