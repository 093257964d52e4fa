"""One run in a process of its own: python -m quell.campaign.child, started by the runner.

The job comes as JSON in the argument; progress goes out as JSON lines. When stdin closes, because the runner asks
for it or is gone, the run stops after the current iteration and saves.
"""

import json
import os
import shutil
import sys
import threading
import time
from dataclasses import replace
from typing import Any

from quell import registry
from quell.api import Result, engine_called, evaluate, load
from quell.campaign.plan import STOPPED, Job
from quell.config import changed
from quell.errors import QuellError, UsageError, shown
from quell.keys import Purpose, generator
from quell.rollout import Compute, precision
from quell.runs.folder import Run, versions
from quell.runs.record import Record, thin, variance_ratio
from quell.tasks import trusted
from quell.tasks.base import Task
from quell.training.callbacks import Callback, Callbacks
from quell.training.loop import run_training
from quell.training.methods import make_task
from quell.training.state import TrainState

PATIENCE = 120.0  # seconds to wait for the child of a killed runner to let go of the run folder


class Reporter(Callback):
    """Tells the runner how far the run is, at most a few times per second."""

    def __init__(self) -> None:
        self._last = 0.0
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while os.read(0, 1):
            pass
        self.stop_requested = True

    def on_iteration(self, row: dict[str, Any]) -> None:
        now = time.monotonic()
        if now - self._last > 0.3:
            self._last = now
            _say({"steps": row["steps"], "return": row["return/mean"]})


def carry_out(job: Job, *, task: Task | None, compute: Compute, callbacks: Callbacks = ()) -> TrainState:
    """Train, or continue where an earlier attempt was stopped; then write the record, unless it was stopped again."""
    own = None if registry.is_own("policy", job.config.policy) else job.config.policy
    with _folder(job, compute) as folder:
        played = make_task(job.config, task)
        state = run_training(job.config, folder, compute=compute, callbacks=callbacks, task=played)
        if state.finished(job.config):
            result = load(folder.path, env=task, policy=own, trust_files=True)
            record_of(result, job.episodes, job.label).write(job.record)
    return state


def run(job: Job) -> int:
    """The job of this process; its exit code."""
    task = trusted(job.trust, horizon=job.config.horizon or 0) if job.trust else None
    state = carry_out(job, task=task, compute=_one_process(job.engine), callbacks=[Reporter()])
    if not state.finished(job.config):
        return STOPPED
    folder = Run.open(job.folder)
    made_with = json.loads((folder.path / "versions.json").read_bytes())
    spent = sum(os.times()[:4])  # by this process and its workers, which have ended; in the last attempt alone
    times = {"seconds": state.seconds, "core_seconds": spent}
    _say({"steps": state.steps, **times, "commit": made_with["commit"], "platform": made_with["platform"]})
    return 0


def _one_process(engine: str) -> Compute:
    """The engine, with one worker where it has workers: as many runs go on side by side as there are cores."""
    has_workers = "workers" in registry.hints(registry.table("engine")[engine])
    return engine_called(engine, 1 if has_workers else None)


def record_of(result: Result, episodes: int, label: str = "") -> Record:
    """Play `episodes` with sampled and with mean actions, and as many with the untrained policy."""
    made_with = {name: value for name, value in versions().items() if name in ("python", "packages")}
    final = {"sampled": _returns(result, episodes, sample=True), "mean_action": _returns(result, episodes)}
    start, history = _returns(untrained(result), episodes, sample=True), result.history
    return Record(result.config, made_with, final, start, thin(history), label, variance_ratio(history))


def untrained(result: Result) -> Result:
    """The run's policy as it was before the first iteration."""
    theta = result.policy.policy.init(generator(result.config.seed, Purpose.INIT))
    return replace(result, iteration=0, steps=0, policy=replace(result.policy, theta=theta, obs_stats=None), history=[])


def _returns(result: Result, episodes: int, *, sample: bool = False) -> list[float]:
    returns = evaluate(result, episodes=episodes, mean_action=not sample, workers=1).returns
    return [float(f"{value:.6g}") for value in returns]


def _folder(job: Job, compute: Compute) -> Run:
    """The run's folder, locked: a new one, or what an earlier attempt left."""
    path = job.folder
    if path.exists() and not path.is_dir():
        raise UsageError(f"{shown(path)} is a file where a run's folder belongs: remove it, or choose another --runs")
    if path.exists() and not (path / "config.json").exists():  # killed before it began
        shutil.rmtree(path)
    if not path.exists():
        return Run.create(job.config, job.runs, path.name, precision(compute))
    folder = Run.open(path)
    _lock(folder)
    if differing := changed(folder.config, job.config):
        raise UsageError(f"{str(path)!r} holds a run with another {', '.join(differing)}; remove it or choose --runs")
    return folder


def _lock(folder: Run) -> None:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        try:
            return folder.lock()
        except UsageError:
            time.sleep(0.2)
    return folder.lock()


def _say(facts: dict[str, Any]) -> None:
    try:
        print(json.dumps(facts), flush=True)
    except BrokenPipeError:  # the runner is gone, which closing stdin tells us too
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main(arguments: list[str]) -> int:
    try:
        return run(Job.decode(arguments[0]))
    except QuellError as error:
        print(" ".join(str(error).split()), file=sys.stderr)  # one line: the runner shows the last
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
