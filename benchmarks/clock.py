"""What MuJoCo's profiling clock costs: one environment, one process, random actions, with the clock and without.

python benchmarks/clock.py
"""

from __future__ import annotations

import json
import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import mujoco
import tyro

from quell import tasks
from quell.keys import Purpose, generator
from quell.tasks import MujocoTask
from quell.tasks.mujoco import without_clock

TASKS = ("swimmer", "halfcheetah", "walker2d", "hopper", "humanoid", "inverted-double-pendulum")
SUITE = ("dm-cartpole-balance", "dm-pendulum-swingup", "dm-quadruped-walk")


@dataclass(frozen=True)
class Arguments:
    """Print microseconds of processor time per environment step, medians of interleaved rounds."""

    rounds: int = 9
    steps: int = 500
    """Environment steps of a round."""
    json: Path | None = None
    """Also write the medians here."""


def main() -> None:
    args = tyro.cli(Arguments)
    mujoco.set_mju_user_warning(lambda message: None)  # about odd initial poses; by default it also writes a log file
    found = {}
    for name in (*TASKS, *SUITE):
        task = tasks.get(name)
        assert isinstance(task, MujocoTask)
        model = task.model()
        data = mujoco.MjData(model)
        actions = generator(0, Purpose.ACTION).standard_normal((args.steps, model.nu))
        times: dict[str, list[float]] = {"with": [], "without": []}
        for _ in range(args.rounds):
            for label, context in (("with", nullcontext), ("without", without_clock)):
                mujoco.mj_resetData(model, data)
                task.reset(model, data, generator(0, Purpose.ENVIRONMENT))
                with context():
                    started = time.process_time()
                    for action in actions:
                        data.ctrl[:] = action
                        task.advance(model, data)
                    times[label].append(1e6 * (time.process_time() - started) / args.steps)
        found[name] = {label: median(values) for label, values in times.items()}
        timed, untimed = found[name]["with"], found[name]["without"]
        print(f"{name:<26}{timed:8.1f}{untimed:8.1f}{untimed / timed:8.2f}")
    if args.json:
        args.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
