"""W&B and MLflow, without a network: what arrives there is what metrics.jsonl has, over environment steps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import quell
import quell.errors
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
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file://{tmp_path}/mlruns")
    with pytest.raises(QuellError, match="MLflow: The filesystem tracking backend"):
        quell.train("lqr-302", method="es", out=tmp_path, log=["mlflow"], **SHORT)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    half = quell.train("lqr-302", method="es", out=tmp_path, log=["mlflow"], **{**SHORT, "steps": 40})
    result = quell.resume(half.path, steps=60, log=["mlflow"], progress=False)
    client = mlflow.MlflowClient()
    (run,) = client.search_runs([client.get_experiment_by_name("quell").experiment_id])
    assert run.data.params["directions.sigma"] == str(result.config.directions.sigma)
    assert run.info.status == "FINISHED"
    seen = [(entry.step, entry.value) for entry in client.get_metric_history(run.info.run_id, "return/mean")]
    assert seen == [(row["steps"], row["return/mean"]) for row in result.history]


def test_what_is_missing_is_said_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(quell.errors.EXTRAS, "wandb", "no_such_module_at_all")
    with pytest.raises(UsageError, match=r"logging to wandb needs .* pip install 'quell\[wandb\]'"):
        quell.train("lqr-302", out=tmp_path, log=["wandb"], **SHORT)
    with pytest.raises(UsageError, match=r"unknown logger 'mlfow' .did you mean 'mlflow'"):
        quell.train("lqr-302", out=tmp_path, log=["mlfow"], **SHORT)
    assert not list(tmp_path.iterdir())
