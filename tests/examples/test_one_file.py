"""An addition is one file: an example's class, put into its room, is found by name and its fields are flags."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
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
DUMMY = '''
"""A step with a metric of its own, and an engine that is the CPU's under another name and says something too."""

import dataclasses
from typing import ClassVar

from quell.rollout.cpu import Cpu
from quell.update.first_order import Sgd


@dataclasses.dataclass(frozen=True, kw_only=True)
class Counting(Sgd):
    name: ClassVar[str] = "counting"
    METRICS: ClassVar = {"counting/steps": "Steps that were taken."}

    def step(self, theta, gradient, state, context):
        theta, state, facts = super().step(theta, gradient, state, context)
        return theta, state, {**facts, "counting/steps": 1.0, "undefined": 2.0}


@dataclasses.dataclass(frozen=True)
class Elsewhere:
    """The CPU engine, without settings."""

    name: ClassVar[str] = "elsewhere"

    def validate(self):
        pass

    def make(self, task, problem, *, members, states=0):
        return Cpu(workers=1).make(task, problem, members=members, states=states)


STEPS = [Counting]
ENGINES = [Elsewhere]
'''
TINY = ["--steps", "300", "--horizon", "30", "--eval-episodes", "1"]


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


def test_a_step_and_an_engine_with_metrics_of_their_own(tmp_path: Path) -> None:
    """By name through train, its seeds, eval and variance, and from Python; nothing else is touched."""
    shutil.copytree(ROOT / "src/quell", tmp_path / "quell", ignore=shutil.ignore_patterns("__pycache__"))
    for room in ("update", "rollout"):
        (tmp_path / "quell" / room / "addition.py").write_text(DUMMY)
    script = """
        import json, pathlib, quell
        from quell.cli import main
        own = ["--step", "counting", "--engine", "elsewhere", *TINY]
        assert main(["train", "lqr-302", "--method", "es", *own, "--out", "runs"]) == 0
        (run,) = pathlib.Path("runs/lqr-302").glob("*/*")
        rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        assert all(row["counting/steps"] == 1 and row["undefined"] == 2 for row in rows)
        head = (run / "metrics.csv").read_text().splitlines()[0].split(",")
        assert "counting/steps" in head and "undefined" not in head
        assert main(["eval", str(run), "--episodes", "2", "--engine", "elsewhere"]) == 0
        assert main(["train", "lqr-302", "--method", "es", *own, "--out", "runs", "--seeds", "1"]) == 0
        small = ["--pairs", "10", "--warmup", "5", "--settings", "horizon", "20", "--engine", "elsewhere"]
        assert main(["variance", "lqr-302", "--methods", "policy-gradient", *small]) == 0
        again = quell.train("lqr-302", method="es", step="counting", engine="elsewhere", steps=300, horizon=30,
                            eval_episodes=1, out="python", progress=False)
        assert again.history[-1]["counting/steps"] == 1
        try:
            quell.train("lqr-302", method="es", engine="elsewhere", workers=2, out="python")
        except quell.UsageError as error:
            assert "reads no setting `workers`" in str(error)
        else:
            raise AssertionError
        print("all of it")
    """
    text = textwrap.dedent(script).replace("*TINY", ", ".join(map(repr, TINY)))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-c", text]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "all of it" in done.stdout


OUTSIDE = {
    "my_estimator": """
        from dataclasses import dataclass, replace
        from typing import ClassVar
        from quell.estimate.es import Es

        @dataclass(frozen=True, kw_only=True)
        class Halved(Es):
            name: ClassVar[str] = "halved"
            METRICS: ClassVar = {"halved/factor": "What the gradient is multiplied by."}
            factor: float = 0.5

            def combine(self, *given):
                found = super().combine(*given)
                metrics = {**found.metrics, "halved/factor": self.factor}
                return replace(found, gradient=found.gradient * self.factor, metrics=metrics)
    """,
    "my_directions": """
        from dataclasses import dataclass
        from typing import ClassVar
        import numpy as np
        from quell.perturb.gaussian import Gaussian

        @dataclass(frozen=True, kw_only=True)
        class Signs(Gaussian):
            name: ClassVar[str] = "signs"
            biased: ClassVar[bool] = True

            def plus(self, draw, pair):
                return np.sign(super().plus(draw, pair))
    """,
    "my_step": """
        from dataclasses import dataclass
        from typing import ClassVar
        from quell.update.first_order import Sgd

        @dataclass(frozen=True, kw_only=True)
        class Counting(Sgd):
            name: ClassVar[str] = "counting"
            METRICS: ClassVar = {"counting/steps": "Steps that were taken."}

            def step(self, theta, gradient, state, context):
                theta, state, facts = super().step(theta, gradient, state, context)
                return theta, state, {**facts, "counting/steps": 1.0}
    """,
    "my_engine": """
        import dataclasses
        from typing import ClassVar
        from quell.rollout.cpu import Cpu

        @dataclasses.dataclass(frozen=True)
        class Elsewhere:
            name: ClassVar[str] = "elsewhere"
            workers: int = 1

            def validate(self):
                pass

            def make(self, task, problem, *, members, states=0):
                print("made elsewhere")
                return Cpu(workers=self.workers).make(task, problem, members=members, states=states)
    """,
}
"""Modules outside of the package -> what is in them."""
OWN = ["--estimator", "my_estimator:Halved", "--directions", "my_directions:Signs", "--step", "my_step:Counting"]


def test_strategies_of_files_outside_the_package(tmp_path: Path) -> None:
    """One file each, by `module:Class` through train, its seeds, resume, eval and variance, and as objects in Python;
    a file of settings cannot name any."""
    for module, text in OUTSIDE.items():
        (tmp_path / f"{module}.py").write_text(textwrap.dedent(text))
    (tmp_path / "settings.toml").write_text('step = "my_step:Counting"\n')
    script = """
        import json, pathlib, sys, quell
        from quell.cli import main
        own, engine = [*OWN], ["--engine", "my_engine:Elsewhere"]
        tiny = ["--horizon", "30", "--eval-episodes", "1", "--method", "es"]
        train = ["train", "lqr-302", *tiny, *own, "--factor", "0.25", "--sigma", "0.1"]
        assert main([*train, *engine, "--steps", "300", "--out", "runs"]) == 0
        (run,) = pathlib.Path("runs/lqr-302").glob("*/*")
        assert run.parent.name == "custom"

        def rows():
            return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]

        assert all(row["counting/steps"] == 1 and row["halved/factor"] == 0.25 for row in rows())
        head = (run / "metrics.csv").read_text().splitlines()[0].split(",")
        assert {"counting/steps", "halved/factor"} <= set(head)
        assert main(["resume", str(run), *own, *engine, "--steps", "900"]) == 0
        assert rows()[-1]["steps"] == 900 and rows()[-1]["halved/factor"] == 0.25
        assert main(["eval", str(run), "--episodes", "2", *engine]) == 0
        assert main([*train, *engine, "--steps", "300", "--out", "runs", "--seeds", "2"]) == 0
        small = ["--pairs", "10", "--warmup", "5", "--settings", "horizon", "20"]
        methods = "my_estimator:Halved,my_directions:Signs"
        assert main(["variance", "lqr-302", "--methods", methods, *small, *engine, "--json", "v.json"]) == 0
        assert {row["name"] for row in json.loads(pathlib.Path("v.json").read_text())["rows"]} >= {"halved", "signs"}
        assert main(["train", "lqr-302", "--config", "settings.toml", "--steps", "300", "--out", "other"]) == 2
        assert main(["train", "lqr-302", "--step", "my_step:nothing", "--out", "other"]) == 2
        assert main(["train", "lqr-302", "--step", "json:dumps", "--out", "other"]) == 2
        from my_directions import Signs
        from my_engine import Elsewhere
        from my_estimator import Halved
        from my_step import Counting
        mine = dict(estimator=Halved(factor=0.25), directions=Signs(sigma=0.1), step=Counting(), engine=Elsewhere())
        again = quell.train("lqr-302", method="es", **mine, steps=300, horizon=30, eval_episodes=1, out="python",
                            progress=False)
        assert again.history[-1]["counting/steps"] == 1
        assert all(one["gradient/norm"] == other["gradient/norm"] for one, other in zip(again.history, rows()))
        print("all of it")
    """
    text = textwrap.dedent(script).replace("*OWN", ", ".join(map(repr, OWN)))
    command = [sys.executable, "-c", text]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "all of it" in done.stdout
    assert done.stdout.count("made elsewhere") >= 6, "in every command"
