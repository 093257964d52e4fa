"""Other people's experiment trackers, as callbacks: `--log wandb`, `--log mlflow`. Both draw over environment steps.

One that cannot be reached when a run begins ends it; one that is lost later is left out, with a warning: metrics.jsonl
has every row.
"""

import hashlib
import math
import os
import time
import warnings
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from quell.config import Config, flatten
from quell.errors import QuellError, UsageError, did_you_mean, require
from quell.training.callbacks import Callback

PROJECT = "quell"


class Logger(Callback):
    """One run, in one project; a resumed run goes on where it was."""

    name: str

    def __init__(self, folder: Path, config: Config) -> None:
        self.folder, self.config = folder.resolve(), config
        self._lost = False

    def on_iteration(self, row: dict[str, Any]) -> None:
        self._try(lambda: self.send({name: value for name, value in row.items() if math.isfinite(value)}))

    def __exit__(self, *error: object) -> None:
        self._try(lambda: self.finish(failed=bool(error[0])))

    def _try(self, call: Callable[[], object]) -> None:
        """Do it, unless the tracker was lost before: its own attempts may take minutes each time."""
        try:
            if not self._lost:
                call()
        except Exception as error:  # files, networks, processes: a tracker may fail in any way
            self._lost = True
            why = (str(error).splitlines() or [""])[0] or type(error).__name__
            warnings.warn(f"nothing more is logged to {self.name} in this run, which continues: {why}", stacklevel=3)

    def send(self, row: dict[str, float]) -> None:
        """An iteration's metrics, all of them finite."""
        raise NotImplementedError

    def finish(self, *, failed: bool) -> None:
        """The run has ended."""
        raise NotImplementedError


class Wandb(Logger):
    """Weights & Biases; its own settings (WANDB_MODE=offline, WANDB_ENTITY) are its environment variables."""

    name = "wandb"

    def __enter__(self) -> "Wandb":
        import wandb

        known = hashlib.sha256(str(self.folder).encode()).hexdigest()[:16]
        config = self.config
        try:
            self._run = wandb.init(
                project=PROJECT,
                group=f"{config.task} {config.method}",
                name=self.folder.name,
                id=known,
                resume="allow",
                dir=self.folder,
                config=flatten(config),
                settings=wandb.Settings(console="off"),  # the screen is ours
            )
        except wandb.Error as error:
            raise QuellError(f"Weights & Biases: {error}") from None
        self._run.define_metric("*", step_metric="steps")
        return self

    def send(self, row: dict[str, float]) -> None:
        self._run.log(row)

    def finish(self, *, failed: bool) -> None:
        self._run.finish(int(failed))


DATABASES = ("sqlalchemy", "alembic")
"""What MLflow writes databases with."""


class Mlflow(Logger):
    """MLflow, at MLFLOW_TRACKING_URI; without one, where MLflow itself would go, a database, or the folder mlruns where
    nothing is installed that writes databases: MLflow's small package, which the extra has, brings none."""

    name = "mlflow"

    def __enter__(self) -> "Mlflow":
        import mlflow

        try:
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # or it refuses the folders that it is sent to
            given = mlflow.is_tracking_uri_set() or all(map(find_spec, DATABASES))
            place = None if given else Path("mlruns").absolute().as_uri()
            self._client = mlflow.MlflowClient(tracking_uri=place, registry_uri=place)
            there = self._client.get_experiment_by_name(PROJECT)
            experiment = there.experiment_id if there else self._client.create_experiment(PROJECT)
            tags = {"quell.folder": hashlib.sha256(str(self.folder).encode()).hexdigest()}
            found = self._client.search_runs([experiment], f"tags.`quell.folder` = '{tags['quell.folder']}'")
            run = found[0] if found else self._client.create_run(experiment, tags=tags, run_name=self.folder.name)
            self._id = run.info.run_id
            if not found:
                for name, value in flatten(self.config).items():
                    self._client.log_param(self._id, name, value)
            self._client.update_run(self._id, "RUNNING")
        except mlflow.MlflowException as error:
            raise QuellError(f"MLflow: {str(error).splitlines()[0]}") from None
        return self

    def send(self, row: dict[str, float]) -> None:
        from mlflow.entities import Metric

        now, step = int(time.time() * 1000), int(row["steps"])
        self._client.log_batch(self._id, [Metric(name, value, now, step) for name, value in row.items()])

    def finish(self, *, failed: bool) -> None:
        self._client.set_terminated(self._id, "FAILED" if failed else "FINISHED")


LOGGERS: dict[str, type[Logger]] = {logger.name: logger for logger in (Wandb, Mlflow)}


def find_loggers(names: Sequence[str]) -> list[type[Logger]]:
    """Loggers by name; complains about those that there are not, or that are not installed."""
    for name in names:
        if name in ("tensorboard", "csv", "stdout", "json"):
            raise UsageError(f"{name} needs no logger: TensorBoard's files, metrics.csv and .jsonl are always written")
        if name not in LOGGERS:
            raise UsageError(f"unknown logger {name!r}{did_you_mean(name, LOGGERS)}; there are: {', '.join(LOGGERS)}")
        require(name, f"logging to {name}")
    return [LOGGERS[name] for name in names]
