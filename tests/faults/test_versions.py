"""Configs and folders that are not what this quell would write: all that is wrong is told, at once and in a line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import quell
from quell.cli import main
from quell.config import from_dict, to_dict
from quell.errors import UsageError
from quell.training.methods import make_config


def test_several_mistakes_are_told_at_once() -> None:
    facts = to_dict(make_config("swimmer", "es"))
    facts |= {"steps": -1, "seed": "x", "nonsense": 1}
    facts["policy"] |= {"activation": "evil", "hidden": "wide"}
    facts["directions"] |= {"sigma": float("nan")}
    with pytest.raises(UsageError) as told:
        from_dict(facts)
    for name in ("steps", "seed", "nonsense", "policy.activation", "policy.hidden", "directions.sigma"):
        assert name in str(told.value), name
    assert "\n" not in str(told.value)
    with pytest.raises(UsageError, match=r"steps.*pairs"):
        quell.train("swimmer", steps=0, pairs=0)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    settings = {"horizon": 20, "steps": 400, "eval_episodes": 1, "workers": 1, "progress": False}
    return quell.train("lqr", method="es", out=tmp_path_factory.mktemp("runs"), **settings).path  # type: ignore[call-overload]


def test_folders_say_which_schema_they_have(run: Path) -> None:
    state = max((run / "checkpoints").glob("0*/state.json"))
    for file in (run / "config.json", state):
        assert json.loads(file.read_text())["schema"] == quell.runs.files.SCHEMA


def test_other_versions_are_named(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = run / "versions.json"
    facts = json.loads(file.read_text())
    file.write_text(json.dumps(facts | {"packages": facts["packages"] | {"numpy": "1.0", "gone": "2.0"}}))
    with pytest.warns(UserWarning, match=r"begun with numpy 1.0 \(now .*\): results may differ"):
        quell.load(run)
    with pytest.warns(UserWarning, match="numpy 1.0") as told:
        quell.resume(run, steps=480, workers=1, progress=False)
    assert len(told) == 1
    for spoilt in ("[]", "{", '{"packages": {"numpy": []}}'):
        file.write_text(spoilt)
        if "numpy" not in spoilt:
            quell.load(run)
    file.write_text(json.dumps(facts))
    assert main(["eval", str(run), "--episodes", "1", "--workers", "1"]) == 0
    assert capsys.readouterr().err == ""


def test_an_engine_that_is_not_exact_is_written_down_and_named(run: Path, tmp_path: Path) -> None:
    """Sums in single precision make other bits: the folder says so, and so does whoever goes on with another engine."""
    assert json.loads((run / "versions.json").read_text())["engine"] == "exact"
    single = quell.Cpu(workers=1, sum="vmap")
    path = quell.train("lqr-302", steps=2 * 302 * 2, engine=single, out=tmp_path, progress=False).path
    assert json.loads((path / "versions.json").read_text())["engine"] == "cpu"
    with pytest.warns(UserWarning, match=r"begun with engine cpu \(now exact\): results may differ"):
        quell.resume(path, steps=2 * 302 * 4, workers=1, progress=False)


@pytest.mark.filterwarnings("default")
def test_versions_of_any_length_are_told_in_a_line(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = run / "versions.json"
    before = file.read_text()
    packages = dict.fromkeys(json.loads(before)["packages"], "9" * 60_000)
    file.write_text(json.dumps({"packages": packages}))
    try:
        assert main(["eval", str(run), "--episodes", "1", "--workers", "1"]) == 0
    finally:
        file.write_text(before)
    told = capsys.readouterr().err
    assert told.startswith("quell: warning: this run was begun with ")
    assert (told.count("\n"), "numpy 9999" in told, len(told) < 2000) == (1, True, True)
