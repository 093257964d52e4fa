"""The same bits on any number of cores."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import quell
from quell.threads import THREADS, VARIABLE

PROGRAM = """
import hashlib, json, os, sys
task, method, cores, out, settings = json.loads(sys.argv[1])
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
import quell
assert quell.Cpu().processes == cores
result = quell.train(task, method=method, out=out, progress=False, **settings)
print(hashlib.sha256(result.theta.tobytes()).hexdigest())
"""
SHORT = {"steps": 3000, "horizon": 300, "eval_episodes": 1}


FACTORS = """
import hashlib, os, sys
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:int(sys.argv[1])])
import numpy as np
import quell
from quell.update.natural import _compiled_factors
from quell.policy.network import Policy
policy = Policy(8, 2, activation="tanh")
obs = np.random.default_rng(0).standard_normal((1024, 8)).astype(np.float32)
sums = _compiled_factors(policy)(policy.init(np.random.default_rng(0)), obs)
print(hashlib.sha256(b"".join(np.asarray(sums[name]).tobytes() for name in sorted(sums))).hexdigest())
"""
ALL = os.cpu_count() or 1
fixed_cores = pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cores cannot be chosen here")


def said(program: str, *arguments: str, **variables: str) -> str:
    """What a fresh process prints, whose environment fixes no threads but those given."""
    free = {name: value for name, value in os.environ.items() if name not in (VARIABLE, "NPROC")} | variables
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, env=free, capture_output=True, text=True, check=True).stdout.strip()


@fixed_cores
def test_sums_do_not_depend_on_the_cores_of_the_process() -> None:
    assert said(FACTORS, "1") == said(FACTORS, str(ALL))


def trained(method: str, cores: int, out: Path, task: str = "swimmer", **settings: object) -> str:
    """A digest of what a fresh process on so many cores learns."""
    facts = json.dumps([task, method, cores, str(out), SHORT | settings])
    return said(PROGRAM, facts)


@pytest.mark.slow
@fixed_cores
@pytest.mark.parametrize(
    ("method", "task", "settings"),
    [
        ("trpo", "swimmer", {}),
        ("natural-cv", "swimmer", {}),
        ("ppo", "gym:CartPole-v1", {"horizon": 200}),
        ("natural-cv", "hopper", {"policy.hidden": [128, 128]}),
        ("natural-cv", "swimmer", {"estimator": "control-variate", "step": "adam"}),
        ("es", "swimmer", {"step": "natural"}),
    ],
)
def test_results_do_not_depend_on_the_cores_of_the_process(
    method: str, task: str, settings: dict[str, object], tmp_path: Path
) -> None:
    one, all_of_them = (trained(method, cores, tmp_path, task, **settings) for cores in (1, ALL))
    assert one == all_of_them


def test_the_threads_are_recorded_and_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(THREADS))
    settings = {"horizon": 20, "steps": 400, "eval_episodes": 1, "workers": 1, "progress": False}
    run = quell.train("lqr", method="es", out=tmp_path, **settings).path  # type: ignore[call-overload]
    assert json.loads((run / "versions.json").read_text())["xla_threads"] == THREADS
    monkeypatch.setenv(VARIABLE, "16")
    with pytest.warns(UserWarning, match=rf"begun with XLA threads {THREADS} \(now 16\): results may differ"):
        quell.load(run)


@pytest.mark.parametrize(("first", "threads"), [("import jax; jax.devices()", "16"), ("import jax", str(THREADS))])
def test_where_jax_was_used_before_the_threads_are_what_it_chose(first: str, threads: str) -> None:
    program = f"{first}; import quell.threads; print(quell.threads.xla_threads())"
    assert said(program, NPROC="16") == threads
