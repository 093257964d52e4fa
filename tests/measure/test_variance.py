"""`quell.variance` and `quell variance`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

import quell
from quell import cli
from quell.errors import UsageError
from quell.estimate.es import Es
from quell.stats import Interval
from quell.tasks.base import folder_of

pytestmark = pytest.mark.usefixtures("in_process")

SETTINGS = {"horizon": 6, "policy.hidden": ()}
SMALL = ["lqr-302", "--settings", "horizon", "6", "policy.hidden", "[]", "--pairs", "20", "--warmup", "10"]


@dataclass(frozen=True, kw_only=True)
class Mine(Es):
    """A user's own estimator."""

    name: ClassVar[str] = "mine"
    biased: ClassVar[bool] = True


def test_in_python() -> None:
    report = quell.variance(
        "lqr-302",
        methods=["cv", Mine(shaping="none")],
        pairs=20,
        warmup=10,
        settings=SETTINGS,
        gain=["natural:0.01"],
        gain_methods=["es", "mine"],
        gain_estimates=3,
        workers=1,
    )
    values = report.values()
    assert json.loads(json.dumps(values)) == values
    assert [row["name"] for row in values["rows"]] == ["es", "cv", "mine"]
    for row in values["rows"]:
        assert set(row["metrics"]) == {"parameters", "policy", "step"}
        assert set(row["metrics"]["step"]) == {"variance", "ratio", "bias", "error"}
        assert row["ratio"] == row["metrics"]["parameters"]["ratio"]
        assert row["fisher_ratio"] == row["metrics"]["policy"]["ratio"]
    assert report["mine"].ratio.value == pytest.approx(1)
    assert report["mine"].metrics["step"].bias.value == pytest.approx(0)
    assert all(report["es"].metrics[metric].bias == Interval(0, 0, 0) for metric in report["es"].metrics)
    text = str(report)
    assert max(map(len, text.splitlines())) <= 100
    for words in ("mine*", "declares a bias", "inverse Fisher", "variance + bias²", "natural 0.01"):
        assert words in text
    assert [g.name for g in report.gains] == ["es", "mine"]


def test_requests_that_make_no_sense() -> None:
    for wrong in ({"pairs": 1}, {"seed": -1}, {"methods": "nonsense"}, {"gain": ["up:1"]}, {"workers": 0}):
        with pytest.raises(UsageError):
            quell.variance("lqr-302", settings=SETTINGS, **wrong)
    with pytest.raises(UsageError, match="declares a bias"):
        quell.variance("lqr-302", settings=SETTINGS, methods="natural-cv", reference="natural-cv", workers=1)
    with pytest.raises(UsageError, match="needs 200 pairs"):
        quell.variance("lqr-302", settings=SETTINGS, pairs=20, gain=["raw:1"])


@pytest.mark.parametrize(
    "words",
    [
        ["lqr-302", "--sweep", "gamma", "0.9"],
        ["lqr-302", "--sweep", "horizon", "1", "2"],
        ["lqr-302", "--sweep", "gamma", "0.9", "1.5"],
        ["lqr-302", "--gain", "raw"],
        ["lqr-302", "--gain", "raw:-1"],
        ["lqr-302", "--methods", "es,nonsense"],
        ["lqr-302", "--pairs", "1"],
        ["lqr-302", "--at", "nowhere"],
        ["lqr-302", "--settings", "sigma", "-1"],
        ["lqr-302", "--engine", "abacus"],
        ["no-such-task"],
    ],
)
def test_bad_requests_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["variance", *words]) == 2
    assert "error" in capsys.readouterr().err


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*SMALL, "--workers", "1", "--methods", "cv-moments,cv-several", "--json", str(tmp_path / "a" / "v.json")]
    words += [
        "--gain",
        "sign:0.01",
        "--gain-estimates",
        "3",
        "--gain-methods",
        "es, cv,cv-several",
        "--figure",
        str(tmp_path / "v.png"),
    ]
    assert cli.main(["variance", *words]) == 0
    out = capsys.readouterr().out
    assert "\ncv " in out  # --gain needs it, so it is measured too
    values = json.loads((tmp_path / "a" / "v.json").read_text())
    assert [row["name"] for row in values["rows"]] == ["es", "cv-moments", "cv-several", "cv"]
    assert len(values["gains"]) == 3
    assert (tmp_path / "v.png").stat().st_size > 10_000


def test_sweeps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figure = str(tmp_path / "s.png")
    words = [*SMALL, "--workers", "1", "--methods", "cv", "--sweep", "std", "0.5", "1", "--figure", figure]
    assert cli.main(["variance", *words]) == 0
    out = capsys.readouterr().out
    assert "action std 0.5" in out
    assert "std=1" in out
    assert (tmp_path / "s.png").exists()
    assert cli.main(["variance", *SMALL, "--methods", "cv", "--sweep", "gamma", "0.9", "1"]) == 0
    assert "cv-moments gamma=0.9" in capsys.readouterr().out


def test_an_environment_of_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pendula2.py").write_text("import gymnasium\ndef make():\n    return gymnasium.make('Pendulum-v1')\n")
    monkeypatch.chdir(tmp_path)
    words = ["--methods", "es", *SMALL[1:], "--trust-import", "pendula2:make"]
    assert cli.main(["variance", *words]) == 0
    assert "pendula2:make" in capsys.readouterr().out
    for wrong in (["variance", "swimmer", *words], ["variance", "--methods", "es"]):
        assert cli.main(wrong) == 2
        assert "which task? `quell variance TASK`, or --trust-import my_module:make_env" in capsys.readouterr().err
    train = ["train", "--trust-import", "pendula2:make", "--method", "es", "--horizon", "6", "--pairs", "1"]
    assert cli.main([*train, "--steps", "12", "--out", "runs", "--name", "x"]) == 0
    assert cli.main(["variance", *words, "--at", "runs/pendula2-make/es/x", "--settings", "sigma", "0.05"]) == 0


def test_settings_that_name_files_are_trusted_by_their_user_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = {"steps": 12, "pairs": 1, "horizon": 6, "method": "es", "progress": False, "eval_episodes": 1}
    made = tmp_path / "hopper.xml"
    made.write_bytes((folder_of("gymnasium") / "envs/mujoco/assets/hopper.xml").read_bytes())
    settings = {"xml_file": str(made)}
    run = quell.train("gym:Hopper-v5", task_settings=settings, out=tmp_path, **small)  # type: ignore[call-overload]
    words = ["variance", "gym:Hopper-v5", "--at", str(run.path), "--methods", "es", "--pairs", "4", "--warmup", "0"]
    assert cli.main(words) == 2
    assert "--trust-files" in capsys.readouterr().err
    assert cli.main([*words, "--trust-files"]) == 0
