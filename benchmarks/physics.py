"""What quell leaves out of MuJoCo's steps: one environment, one process, random actions, step by step leaner.

`shipped` is MuJoCo as its Python package and the model set it up. `untimed` is without the profiling clock of the
package, `lean` also without the stages that a model has no use for. The states are the same to the last bit.

python benchmarks/physics.py
"""

from __future__ import annotations

import json
import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import mujoco
import numpy as np
import tyro

from quell import tasks
from quell.keys import Purpose, generator
from quell.tasks import MujocoTask
from quell.tasks.mujoco import Member, idle_stages, without_clock


@dataclass(frozen=True)
class Arguments:
    """Print microseconds of processor time per environment step, medians of interleaved rounds."""

    rounds: int = 9
    steps: int = 500
    """Environment steps of a round, in episodes of 50."""
    json: Path | None = None
    """Also write the medians here."""


def main() -> None:
    args = tyro.cli(Arguments)
    mujoco.set_mju_user_warning(lambda message: None)  # about odd initial poses; by default it also writes a log file
    microseconds = {}
    for name in tasks.names():
        task = tasks.get(name)
        if not isinstance(task, MujocoTask) or task.own_model:
            continue
        lean, shipped = task.model(), task.model()
        shipped.opt.disableflags &= ~idle_stages(shipped)
        kinds = {"shipped": (shipped, True), "untimed": (shipped, False), "lean": (lean, False)}
        actions = generator(0, Purpose.ACTION).standard_normal((args.steps, lean.nu))
        times: dict[str, list[float]] = {kind: [] for kind in kinds}
        ends: dict[str, np.ndarray] = {}
        for _ in range(args.rounds):
            for kind, (model, timed) in kinds.items():
                with nullcontext() if timed else without_clock():
                    times[kind].append(_microseconds(task, model, actions, ends.setdefault(kind, np.empty(model.nq))))
        for kind in kinds:
            np.testing.assert_array_equal(ends[kind], ends["shipped"])
        microseconds[name] = {kind: median(values) for kind, values in times.items()}
        row = microseconds[name]
        print(
            f"{name:<26}" + "".join(f"{value:8.1f}" for value in row.values()) + f"{row['lean'] / row['shipped']:8.2f}"
        )
    if args.json:
        args.json.write_text(json.dumps(microseconds, indent=1))


def _microseconds(task: MujocoTask, model: mujoco.MjModel, actions: np.ndarray, end: np.ndarray) -> float:
    """Time per step, without resets; `end` receives the last position."""
    member, rng, spent = Member(task, model, mujoco.MjData(model)), generator(0, Purpose.ENVIRONMENT), 0.0
    for episode in np.array_split(actions, max(1, len(actions) // 50)):
        member.start(rng)
        started = time.process_time()
        for action in episode:
            member.data.ctrl[:] = action
            member.advance()
        spent += time.process_time() - started
    end[:] = member.data.qpos
    return 1e6 * spent / len(actions)


if __name__ == "__main__":
    main()
