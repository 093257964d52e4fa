"""An addition is one file: an example's class, put into its room, is found by name and its fields are flags."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
ADDITIONS = {
    "own_estimator": ("estimate", "ESTIMATORS = [TopDirections]", ["--estimator", "top-directions", "--keep", "3"]),
    "own_directions": (
        "perturb",
        "DIRECTIONS = [LayerByLayer]",
        ["--directions", "layer-by-layer", "--sizes", "9", "9"],
    ),
    "own_step": ("update", "STEPS = [WithinKl]", ["--step", "within-kl", "--limit", "0.02"]),
}
"""Example -> (room, the line that the file ends in, how it is asked for)."""


def test_one_file_is_enough(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "src/quell", tmp_path / "quell", ignore=shutil.ignore_patterns("__pycache__"))
    for name, (room, table, _) in ADDITIONS.items():
        strategy = (ROOT / f"examples/{name}.py").read_text().partition("if __name__")[0]
        (tmp_path / "quell" / room / "addition.py").write_text(f"{strategy}{table}\n")
    command = [sys.executable, "-m", "quell", "train", "lqr-302", "--method", "es"]
    command += [word for *_, flags in ADDITIONS.values() for word in flags]
    command += ["--steps", "300", "--horizon", "30", "--eval-episodes", "1", "--out", str(tmp_path / "runs")]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    (config,) = (tmp_path / "runs").rglob("config.json")
    for *_, flags in ADDITIONS.values():
        assert f'"{flags[1]}"' in config.read_text()
