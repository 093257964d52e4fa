"""The library's front door: train, resume, load, evaluate."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from quell import registry
from quell.config import Config, Preset, changed, replace
from quell.errors import UsageError
from quell.estimate import Problem
from quell.keys import Stream
from quell.perturb import Unperturbed
from quell.policy.act import actor
from quell.policy.network import Policy
from quell.policy.normalise import ObsStats
from quell.rollout import Compute, default_compute, make_engine
from quell.runs import Run, checkpoint
from quell.runs.folder import FREE_TO_CHANGE
from quell.tasks.base import Task
from quell.terminal.progress import Display, Progress
from quell.training.methods import as_strategies, make_config, make_policy, make_task
from quell.training.state import learned
from quell.types import Array, Episodes, Rollouts


@dataclass(frozen=True)
class TrainedPolicy:
    """A policy to act with: `action = policy(obs)`.

    Actions are as the policy draws them; `quell.policy.act.to_environment` is what `policy.actions` does to them.
    """

    policy: Policy
    theta: Array
    obs_stats: ObsStats | None

    def __call__(self, obs: Any, *, rng: np.random.Generator | None = None) -> Any:
        """The action for one observation [o] or several [n, o]: the mean (most likely) one, or sampled with `rng`."""
        rows = np.atleast_2d(np.asarray(obs, np.float32))
        if self.obs_stats is not None:
            mean, scale = self.obs_stats.normaliser()
            rows = (rows - mean) * scale
        noise = self.policy.draw_noise(rng, len(rows)) if rng is not None else np.zeros((1, 1), np.float32)
        thetas = np.broadcast_to(self.theta, (len(rows), len(self.theta)))
        actions = actor(self.policy, thetas, mean_action=rng is None)(rows, noise)
        if self.policy.kind == "categorical":
            actions = actions[:, 0].astype(np.int64)
        return actions[0] if np.ndim(obs) == 1 else actions


@dataclass(frozen=True)
class Result:
    """A run: where it is, what it was, what came out."""

    path: Path
    config: Config
    iteration: int
    steps: int
    policy: TrainedPolicy
    history: list[dict[str, Any]]
    """One dictionary of metrics per iteration; `quell.metrics.METRICS` defines each name."""
    signal: int = 0
    """The number of the signal that stopped the run early, if one did."""

    @property
    def theta(self) -> Array:
        return self.policy.theta

    @property
    def finished(self) -> bool:
        """Whether the step budget was spent."""
        return self.steps >= self.config.steps

    def last(self, metric: str) -> float:
        """The latest value of a metric that is not logged at every iteration, such as eval/return."""
        values = [row[metric] for row in self.history if row.get(metric) is not None]
        return float(values[-1]) if values else float("nan")


def train(
    task: str | Task,
    *,
    method: str = "cv",
    preset: Preset = "tuned",
    workers: int | None = None,
    engine: Compute | str | None = None,
    out: Path | str = "runs",
    name: str | None = None,
    progress: bool = True,
    **settings: Any,
) -> Result:
    """Train a policy and return it with its history.

    `settings` are those of the command line: `steps=1_000_000, pairs=10, sigma=0.05`, nested ones as mappings or with
    their dots (`**{"estimator.gamma": 0.99}`). Strategies are objects or names: `estimator=MyEstimator()`,
    `directions="qmc"`, `step=optax.adam(0.01)`. Everything is written to `out/<task>/<method>/<seed>-<time>/`. It runs
    on `workers` processes of this machine, or as `engine` says, such as `quell.Ray(workers=8)`.
    """
    label, given = (task, None) if isinstance(task, str) else (task.name, task)
    config = make_config(label, method, preset, as_strategies(settings), given).validate()
    compute = compute_for(engine, workers)
    return start(config, compute=compute, out=Path(out), name=name, progress=progress, task=given)


def compute_for(engine: Compute | str | None, workers: int | None) -> Compute:
    """The engine asked for, as an object, by name, or as a number of workers; a UsageError if it cannot be had."""
    if isinstance(engine, str):
        chosen: Compute = registry.make("engine", engine, {"workers": workers})
    elif engine is not None and workers is not None:
        raise UsageError("give workers=... or an engine object with its own, not both")
    else:
        chosen = engine or default_compute(workers)
    chosen.validate()
    return chosen


def start(
    config: Config,
    *,
    compute: Compute,
    out: Path = Path("runs"),
    name: str | None = None,
    progress: bool = True,
    task: Task | None = None,
) -> Result:
    """Train as a config says."""
    compute.validate()
    make_policy(config, task or make_task(config))  # complain before a folder exists
    with _display(config, progress) as display, Run.create(config, out, name) as run:
        try:
            return _go(config, run, compute, display, resume=False, task=task)
        finally:
            run.remove_if_never_begun()


def resume(
    path: Path | str,
    *,
    workers: int | None = None,
    engine: Compute | str | None = None,
    progress: bool = True,
    fork: bool = False,
    task: Task | None = None,
    **settings: Any,
) -> Result:
    """Continue a run from its newest intact checkpoint, bit for bit as if it had never stopped.

    Settings may extend it (`steps`) or change how often it evaluates and saves. Anything else needs `fork=True`, which
    copies the run into a new folder and continues there with the change. A strategy of your own has to be passed again.
    """
    run, compute = Run.open(path), compute_for(engine, workers)
    with run:
        run.lock()
        run.warn_of_versions()
        saved = checkpoint.load_newest(run.checkpoints)
        trained = run.config_of(saved[1]) if saved else run.config  # killed before its first checkpoint: begin again
        wanted = replace(trained, as_strategies(settings)).validate()
        differing = [name for name in changed(trained, wanted) if name not in FREE_TO_CHANGE]
        if not differing:
            run.update_config(wanted)
            with _display(wanted, progress) as display:
                return _go(wanted, run, compute, display, resume=True, task=task)
        if not fork:
            what = (
                f"{', '.join(differing)} differ{'s' * (len(differing) == 1)} from what {str(path)!r} was trained with"
            )
            raise UsageError(f"{what}; add --fork to continue in a new folder with the change")
    with _display(wanted, progress) as display, run.fork(wanted) as forked:
        return _go(wanted, forked, compute, display, resume=True, task=task)


def _display(config: Config, progress: bool) -> Progress:
    """Signals are its business from before there is a folder: none is left half-made."""
    return Display(f"{config.task} {config.method}", config.steps) if progress else Progress()


def _go(config: Config, run: Run, compute: Compute, display: Progress, *, resume: bool, task: Task | None) -> Result:
    from quell.training.loop import run_training

    display.began(run.path)
    run_training(config, run, compute=compute, progress=display, resume=resume, task=task)
    return dataclasses.replace(_loaded(run, None, task), signal=display.signal)


def load(path: Path | str, *, at: int | None = None, task: Task | None = None) -> Result:
    """A run's policy and history, from its newest intact checkpoint (or the newest up to iteration `at`)."""
    run = Run.open(path)
    run.warn_of_versions()
    return _loaded(run, at, task)


def _loaded(run: Run, at: int | None, task: Task | None) -> Result:
    saved = checkpoint.load_newest(run.checkpoints, at_most=at)
    if saved is None:
        raise UsageError(f"{str(run.path)!r} has no intact checkpoint")
    arrays, facts = saved
    config = run.config_of(facts)
    policy = make_policy(config, task or make_task(config))
    theta, stats = learned(policy, arrays, facts)
    history = [row for row in run.metrics() if row["iteration"] <= facts["iteration"]]
    trained = TrainedPolicy(policy, theta, stats if config.normalise_obs else None)
    return Result(run.path, config, facts["iteration"], facts["steps"], trained, history)


def evaluate(
    result: Result,
    *,
    episodes: int = 100,
    mean_action: bool = False,
    seed: int = 0,
    workers: int | None = None,
    engine: Compute | str | None = None,
    task: Task | None = None,
) -> Rollouts:
    """Fresh episodes of a run's policy, drawn from `seed` and from no stream that training used."""
    for what, value, least in (("episodes", episodes, 1), ("seed", seed, 0)):
        if value < least:
            raise UsageError(f"{what} must be at least {least}, got {value}")
    compute = compute_for(engine, workers)
    problem = Problem(result.policy.policy, Unperturbed(), seed)
    request = Episodes.unperturbed(0, episodes, Stream.FRESH, mean_action=mean_action)
    with make_engine(compute, task or make_task(result.config), problem, members=episodes) as running:
        return running.rollout(result.theta, request, result.policy.obs_stats).copied()
