"""The library's front door: train and sweep, one run or many."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack, overload

from quell import registry
from quell.api import Result, compute_for, planned, start
from quell.campaign.here import Swept, sweep_of
from quell.config import Preset
from quell.errors import UsageError
from quell.keywords import Settings
from quell.presets import instead
from quell.rollout import Compute
from quell.training.callbacks import Callback, Callbacks


@overload
def train(
    task: str | Any = None,
    *,
    method: str | None = None,
    preset: Preset | None = None,
    config: Path | str | None = None,
    workers: int | None = None,
    engine: Compute | str | None = None,
    out: Path | str = "runs",
    name: str | None = None,
    progress: bool = True,
    callbacks: Callback | Callbacks | None = (),
    log: str | Sequence[str] | None = (),
    seeds: None = None,
    **settings: Unpack[Settings],
) -> Result: ...


@overload
def train(
    task: str | Any = None,
    *,
    method: str | None = None,
    preset: Preset | None = None,
    config: Path | str | None = None,
    workers: int | None = None,
    engine: Compute | str | None = None,
    out: Path | str = "runs",
    name: str | None = None,
    progress: bool = True,
    callbacks: Callback | Callbacks | None = (),
    log: str | Sequence[str] | None = (),
    seeds: int,
    **settings: Unpack[Settings],
) -> list[Result]: ...


def train(
    task: str | Any = None,
    *,
    method: str | None = None,
    preset: Preset | None = None,
    config: Path | str | None = None,
    workers: int | None = None,
    engine: Compute | str | None = None,
    out: Path | str = "runs",
    name: str | None = None,
    progress: bool = True,
    callbacks: Callback | Callbacks | None = (),
    log: str | Sequence[str] | None = (),
    seeds: int | None = None,
    **settings: Unpack[Settings],
) -> Result | list[Result]:
    """Train a policy and return it with its history.

    `task` is a name (`quell list tasks`), a Gymnasium environment, or a function that makes one. `settings` are those
    of the command line: `steps=1_000_000, pairs=10, sigma=0.05`, nested ones as mappings or with their dots
    (`**{"estimator.gamma": 0.99}`). Strategies are objects or names: `estimator=MyEstimator()`, `directions="qmc"`,
    `step=optax.adam(0.01)`. `config` is a file with settings (TOML, or a run's config.json), which may also name
    the task; settings given here override it. Everything is written to `out/<task>/<method>/<seed>-<time>/`.
    The run uses `workers` processes of this machine, or an `engine` such as `quell.Ray(workers=8)`. `callbacks` can
    watch it, stop it or change a rate. `log="wandb"` (or "mlflow") also logs to a tracker.

    `seeds=5` trains five seeds, from `seed` up, as `quell train --seeds` does, and returns their results in order. They
    run in parallel, or one after the other with your own environment or strategies. Finished seeds are kept.
    """
    root = registry.as_path("out", out).absolute()  # before any code of the user's, which may go elsewhere
    made, given = planned(task, method, preset, config, {**settings})
    compute = compute_for(engine, workers)
    if seeds is None:
        looking: dict[str, Any] = {"progress": progress, "callbacks": callbacks, "log": log}
        looking["note"] = instead(made.task) if progress and method is None else None
        return start(made, compute=compute, out=root, name=name, task=given, **looking)
    if callbacks or log:
        raise UsageError("`seeds` trains without callbacks and trackers: leave them out, or train one seed at a time")
    number = registry.whole("seeds", seeds, least=1)
    swept = sweep_of(made, given, [{}], number, compute=compute, out=root / "seeds", name=name, progress=progress)
    return swept.results({})


def sweep(
    task: str | Any = None,
    grid: Mapping[str, Sequence[Any]] | None = None,
    *,
    random: int | None = None,
    seeds: int = 3,
    episodes: int = 20,
    jobs: int | None = None,
    method: str | None = None,
    preset: Preset | None = None,
    config: Path | str | None = None,
    engine: Compute | str | None = None,
    out: Path | str = "runs/sweeps",
    name: str | None = None,
    progress: bool = True,
    **settings: Unpack[Settings],
) -> Swept:
    """Train a task with every combination of a grid's values on several seeds, as `quell sweep` does.

        swept = quell.sweep("hopper", {"lr": [0.01, 0.03], "sigma": [0.02, 0.05]}, method="es", steps=100_000)
        swept.best                            # the settings with the highest mean return
        swept.results(swept.best)[0].policy   # of their first seed

    With `random`, this many combinations are drawn from the grid. `jobs` runs are trained at a time (one per core).
    Runs with your own environment or strategies are trained in this process, one after the other. Finished runs are
    not repeated: a larger grid, or the same call after it was stopped, trains only what is missing.
    """
    from quell.campaign.sweep import full_grid, trials

    root = registry.as_path("out", out).absolute()
    made, given = planned(task, method, preset, config, {**settings})
    if not grid:
        raise UsageError("what should vary? quell.sweep('hopper', {'lr': [0.01, 0.03]})")
    chosen = trials(full_grid(grid, made), None if random is None else registry.whole("random", random, least=1))
    counts = {"seeds": registry.whole("seeds", seeds, least=1), "episodes": registry.whole("episodes", episodes, 1)}
    where: dict[str, Any] = {"out": root, "name": name, "progress": progress, "jobs": jobs}
    return sweep_of(made, given, chosen, **counts, compute=compute_for(engine, None), **where)
