"""W&B and MLflow, without a network: what arrives there is what metrics.jsonl has, over environment steps."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import quell
import quell.errors
import quell.training.loggers
from quell.errors import QuellError, UsageError

pytestmark = pytest.mark.usefixtures("in_process")
SHORT: dict[str, Any] = {"horizon": 10, "pairs": 1, "steps": 60, "eval_episodes": 1, "workers": 1, "progress": False}


@pytest.mark.filterwarnings("ignore")
def test_wandb_gets_every_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    result = quell.train("lqr-302", method="es", out=tmp_path, log="wandb", **SHORT)
    wandb.teardown()  # its process writes later
    (file,) = result.path.glob("wandb/offline-run-*/*.wandb")
    data = file.read_bytes()
    for row in result.history:
        for name in ("steps", "return/mean", "gradient/norm"):
            assert name.encode() in data
            assert json.dumps(row[name]).encode() in data, (name, row[name])


@pytest.mark.filterwarnings("ignore")
def test_mlflow_gets_every_number_and_goes_on_with_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")  # the port of nobody
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(QuellError, match=r"MLflow: .*127\.0\.0\.1"):
        quell.train("lqr-302", method="es", out=tmp_path, log=["mlflow"], **SHORT)
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    monkeypatch.delenv("MLFLOW_ALLOW_FILE_STORE", raising=False)
    monkeypatch.setattr(quell.training.loggers, "DATABASES", ("no_such_module",))
    monkeypatch.chdir(tmp_path)
    half = quell.train("lqr-302", method="es", out=tmp_path, log=["mlflow"], **{**SHORT, "steps": 40})
    result = quell.resume(half.path, steps=60, log=["mlflow"], progress=False)
    client = mlflow.MlflowClient()
    assert {path.name for path in tmp_path.iterdir()} == {"lqr-302", "mlruns"}
    (run,) = client.search_runs([client.get_experiment_by_name("quell").experiment_id])
    assert run.data.params["directions.sigma"] == str(result.config.directions.sigma)
    assert run.info.status == "FINISHED"
    seen = [(entry.step, entry.value) for entry in client.get_metric_history(run.info.run_id, "return/mean")]
    assert seen == [(row["steps"], row["return/mean"]) for row in result.history]


class Lost(quell.training.loggers.Logger):
    """A tracker that is lost with the third row; `silent` is one that says nothing about it."""

    name = "lost"
    silent = False

    def __enter__(self) -> Lost:
        self.rows: list[dict[str, float]] = []
        return self

    def send(self, row: dict[str, float]) -> None:
        self.rows.append(row)
        if len(self.rows) == 3:
            raise ConnectionResetError("" if self.silent else "Connection lost\nand much more")

    def finish(self, *, failed: bool) -> None:
        raise AssertionError("it is not there any more")


@pytest.mark.parametrize(("silent", "why"), [(False, "Connection lost"), (True, "ConnectionResetError")])
def test_a_tracker_that_is_lost_is_left_out(
    silent: bool, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(quell.errors.EXTRAS, "lost", "json")
    monkeypatch.setitem(quell.training.loggers.LOGGERS, "lost", Lost)
    monkeypatch.setattr(Lost, "silent", silent)
    with pytest.warns(UserWarning, match="logged to lost ") as told:
        result = quell.train("lqr-302", method="es", out=tmp_path, log="lost", **{**SHORT, "steps": 200})
    assert [str(one.message) for one in told] == [f"nothing more is logged to lost in this run, which continues: {why}"]
    assert (result.finished, len(result.history)) == (True, 10)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_mlflow_is_lost_in_mid_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mlflow")

    class Removes(quell.Callback):
        def on_iteration(self, row: dict[str, float]) -> None:
            if row["iteration"] == 2:
                shutil.rmtree(tmp_path / "mlruns")

    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file://{tmp_path}/mlruns")
    with pytest.warns(UserWarning, match="nothing more is logged to mlflow in this run, which continues: "):
        result = quell.train("lqr-302", method="es", out=tmp_path, log="mlflow", callbacks=[Removes()], **SHORT)
    assert result.finished


def test_a_missing_extra_is_reported_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(quell.errors.EXTRAS, "wandb", "no_such_module_at_all")
    with pytest.raises(UsageError, match=r"logging to wandb needs .* pip install 'quell\[wandb\]'"):
        quell.train("lqr-302", out=tmp_path, log=["wandb"], **SHORT)
    with pytest.raises(UsageError, match=r"unknown logger 'mlfow' .did you mean 'mlflow'"):
        quell.train("lqr-302", out=tmp_path, log=["mlfow"], **SHORT)
    assert not list(tmp_path.iterdir())
