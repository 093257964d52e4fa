"""The command line: help is fast, bad input costs exit code 2 and one clear message, good input works."""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import quell
import quell.errors
from quell.campaign.plan import by_task
from quell.cli import COMMANDS, RENAMED, main
from quell.commands.doctor import CORE
from quell.commands.settings import TrainFlags
from quell.commands.train import read_settings
from quell.errors import EngineFailure, QuellError, installing
from quell.registry import read_whole
from quell.training.methods import make_config

FAST = ["--horizon", "20", "--pairs", "2", "--batch-steps", "0", "--steps", "160", "--eval-episodes", "1"]
FAST += ["--workers", "1"]


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "quell", *arguments], capture_output=True, text=True, timeout=60)


def test_help_is_fast_and_imports_little() -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = command("--help")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.3, "processor time"
    assert all(name in done.stdout for name in COMMANDS)
    code = (
        "import sys; from quell.cli import main; main(['--help']); sys.exit(bool({'jax', 'mujoco'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([name, "--help"])
    assert stop.value.code == 0
    assert f"quell {name}" in capsys.readouterr().out


@pytest.mark.parametrize("name", RENAMED)
def test_a_command_that_has_another_name_now_says_which(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    for now in re.findall(r"`quell ([^`]*)`", line)[1:]:
        command, *rest = now.split()
        assert command in COMMANDS
        with pytest.raises(SystemExit) as stop:
            main([command, *[word for word in rest if word.islower() and word[0] != "-"], "--help"])
        assert stop.value.code == 0


def test_help_fits_on_a_screen(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert len(capsys.readouterr().out.splitlines()) <= 24


def test_a_missing_extra_says_what_to_type(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(quell.errors.EXTRAS, "dm", "no_such_module")
    monkeypatch.setattr("quell.errors.sys", SimpleNamespace(version_info=(3, 12, 4)))
    assert main(["train", "dm-cheetah-run"]) == 2
    assert "pip install 'quell[dm]'" in capsys.readouterr().err


def test_an_extra_that_newer_pythons_cannot_have_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for extra in ("dm", "robo"):
        monkeypatch.setitem(quell.errors.EXTRAS, extra, "no_such_module")
    for version, task, told in [
        ((3, 11), "roboschool-halfcheetah", "pip install 'quell[robo]'"),
        ((3, 12), "roboschool-halfcheetah", "needs Python 3.11"),
        ((3, 13), "roboschool-halfcheetah", "needs Python 3.11"),
        ((3, 13), "dm-cheetah-run", "pip install --no-deps dm_control"),
    ]:
        monkeypatch.setattr("quell.errors.sys", SimpleNamespace(version_info=version))
        assert main(["train", task]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert told in line


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize(("typed", "name"), [("ES", "es"), ("Det", "det"), ("PPO-paper+M+a", "ppo-paper+a+m")])
def test_a_method_has_one_name(typed: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paper = ["--preset", "paper", "--out", str(tmp_path)]
    assert main(["train", "lqr", *FAST, *paper, "--method", typed]) == 0
    assert capsys.readouterr().out.startswith(f"lqr  {name}  seed 0")
    assert [path.name for path in (tmp_path / "lqr").iterdir()] == [name]
    assert make_config("lqr", typed).method == name


@pytest.mark.parametrize(
    ("typed", "number"),
    [
        ("1000", 1000),
        ("1e6", 10**6),
        ("1k", 1000),
        ("1K", 1000),
        ("1M", 10**6),
        ("1.1M", 1_100_000),
        ("2e3k", 2 * 10**6),
    ],
)
def test_whole_numbers_as_people_write_them(typed: str, number: int) -> None:
    assert read_whole(typed) == number
    config, *_ = read_settings(["lqr", "--steps", typed], TrainFlags, command="train", description="")
    assert config.steps == number
    assert by_task("steps", [typed]) == {"": number}


@pytest.mark.usefixtures("in_process")
@pytest.mark.usefixtures("in_process")
def test_a_request_met_in_part_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A checkpoint of another iteration is played, or a run that is done already goes on."""
    run = str(quell.train("lqr-302", method="es", steps=80, pairs=2, horizon=20, out=tmp_path, progress=False).path)
    assert main(["eval", run, "--episodes", "1", "--at", "999"]) == 0
    assert "iteration 999 has no checkpoint: this is the newest before it, of iteration 1\n" in capsys.readouterr().err
    assert main(["eval", run, "--episodes", "1", "--at", "1"]) == 0
    assert capsys.readouterr().err == ""
    assert main(["resume", run, "--steps", "5"]) == 0
    assert "nothing was left to do: it has 80 steps, and 5 were asked for\n" in capsys.readouterr().err
    assert quell.load(run).config.steps == 80, "its budget stays what it was"
    assert main(["resume", run, "--steps", "160"]) == 0
    assert "nothing" not in capsys.readouterr().err


def test_train_resume_eval(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(tmp_path / "swimmer/natural-cv/a")
    assert main(["train", "swimmer", *FAST, "--out", str(tmp_path), "--name", "a"]) == 0
    assert "gradient variance" in capsys.readouterr().out
    assert main(["train", "swimmer", *FAST, "--out", str(tmp_path), "--name", "a"]) == 2
    assert "exists already" in capsys.readouterr().err
    assert main(["resume", run, "--step.kl", "0.5"]) == 2
    assert "step.kl differs" in capsys.readouterr().err
    assert main(["resume", run, "--steps", "320"]) == 0
    assert "320 steps, 4 iterations" in capsys.readouterr().out
    assert main(["resume", run, "--steps", "400", "--step.kl", "0.5", "--fork"]) == 0
    capsys.readouterr()
    assert main(["eval", run, "--episodes", "3", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["returns"]) == 3
    assert main(["eval", run, "--episodes", "3"]) == 0
    assert "3 episodes" in capsys.readouterr().out


@pytest.mark.usefixtures("in_process")
def test_one_score_everywhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Mean actions unless sampled ones are asked for, and it is always said which."""
    result = quell.train("lqr-302", out=tmp_path, horizon=20, pairs=2, batch_steps=0, steps=80, workers=1)
    mean, sampled = (quell.evaluate(result, episodes=3, mean_action=chosen, workers=1) for chosen in (True, False))
    assert (quell.evaluate(result, episodes=3, workers=1).returns == mean.returns).all()
    assert (mean.returns != sampled.returns).all()
    for flags, played, said in (([], mean, "mean action"), (["--sample"], sampled, "actions sampled")):
        words = ["eval", str(result.path), "--episodes", "3", "--workers", "1", *flags]
        assert main(words) == 0
        assert (
            f"  return  {played.returns.mean():.2f} ± {played.returns.std():.2f}  ({said};" in capsys.readouterr().out
        )
        assert main([*words, "--json"]) == 0
        facts = json.loads(capsys.readouterr().out)
        assert (facts["returns"], facts["actions"]) == (played.returns.tolist(), said)
    assert main(["eval", str(result.path), "--mean-action"]) == 2, "there is one word for it, as in `quell play`"
    capsys.readouterr()
    assert main(["list", "runs", str(tmp_path)]) == 0
    assert "return, mean action" in capsys.readouterr().out
    assert main(["list", "zoo"]) == 0
    assert "return, mean action" in capsys.readouterr().out


@pytest.mark.usefixtures("in_process")
def test_options_may_come_before_the_task(tmp_path: Path) -> None:
    assert main(["train", *FAST, "lqr-302", "--out", str(tmp_path)]) == 0


@pytest.mark.usefixtures("in_process")
def test_lqr_shows_its_optimum(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "lqr-302", *FAST, "--out", str(tmp_path)]) == 0
    assert "Riccati optimum over 20 steps" in capsys.readouterr().out


def test_presets_and_methods_change_the_defaults() -> None:
    from quell.config import flatten
    from quell.training.methods import make_config

    paper, tuned = (flatten(make_config("halfcheetah", "cv", preset)) for preset in ("paper", "tuned"))  # type: ignore[arg-type]
    default = flatten(make_config("halfcheetah"))
    assert paper["estimator.coefficients"] == "sgd"
    assert (paper["estimator.columns.baseline"], tuned["estimator.columns.baseline"]) == ("none", "leave-one-out")
    assert (paper["shared_reset"], paper["pairs"]) == (False, 5)
    assert (paper["policy.output_scale"], paper["policy.init_std"]) == (0.01, 0.37)
    assert (paper["directions.sigma"], paper["step"], paper["step.lr"]) == (0.02, "adam", 0.01)
    assert (tuned["step"], tuned["step.lr"]) == ("adam", 0.01)
    assert (default["estimator.metric"], default["step"]) == ("step", "natural")
    assert make_config("lqr", "ppo-paper+m+s").normalise_obs
    assert make_config("lqr", "ppo-paper+m+s").estimator.needs.updates == 10
    assert flatten(make_config("lqr", "det"))["policy"] == "deterministic"
    assert tuned["policy.output_scale"] == 0.1


def test_the_paper_preset_starts_small_with_every_policy() -> None:
    """The paper's start is inferred (results/initial-policy); the one before it is two settings away."""
    from quell.config import flatten
    from quell.policy import DeterministicPolicy
    from quell.training.methods import make_config

    det = flatten(make_config("swimmer", "det", "paper"))
    assert (det["policy"], det["policy.output_scale"], "policy.init_std" in det) == ("deterministic", 0.01, False)
    choices = flatten(make_config("gym:CartPole-v1", "es", "paper"))
    assert (choices["policy"], choices["policy.output_scale"]) == ("categorical", 0.01)
    for overrides in ({"policy.output_scale": 1.0, "policy.init_std": 1.0}, {"output_scale": 1.0, "init_std": 1.0}):
        large = flatten(make_config("swimmer", "cv", "paper", overrides))
        assert (large["policy.output_scale"], large["policy.init_std"]) == (1.0, 1.0)
    assert flatten(make_config("swimmer", "ars", "paper"))["policy.output_scale"] == 0.01
    own = DeterministicPolicy(output_scale=0.5)
    assert make_config("swimmer", "es", "paper", {"policy": own}).policy == own
    named = make_config("swimmer", "es", "paper", {"policy": "deterministic"}).policy
    assert named == DeterministicPolicy(output_scale=0.01)


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize("step", ["adam", "sgd"])
def test_every_step_in_a_real_run(step: str, tmp_path: Path) -> None:
    """By name, through the command line, stopped and continued: theta moves, and the rest is as if never stopped."""
    words = ["train", "lqr-302", *FAST, "--method", "es", "--step", step, "--lr", "0.003", "--out", str(tmp_path)]
    assert main([*words, "--name", "half"]) == 0
    half, whole = (tmp_path / "lqr-302" / ("es" if step == "adam" else "custom") / name for name in ("half", "whole"))
    assert main(["resume", str(half), "--steps", "320", "--workers", "1"]) == 0
    assert main([*words, "--steps", "320", "--name", "whole"]) == 0
    resumed, expected = quell.load(half), quell.load(whole)
    assert resumed.config.step.lr == 0.003  # type: ignore[attr-defined]
    assert (resumed.theta == expected.theta).all()
    start = quell.load(half, at=0).theta
    assert np.abs(resumed.theta - start).max() > 1e-4


def test_doctor(capsys: pytest.CaptureFixture[str]) -> None:
    """It prints a line for each package and extra, tries a run, and says that all is well."""
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out.splitlines()
    for package in CORE:
        assert any(line.startswith(f"  ok       {package} ") for line in out), package
    for extra in quell.errors.EXTRAS:
        assert any(f"extra {extra}" in line for line in out)
    assert any("rendering for `quell play`" in line for line in out)
    assert out[-1].startswith("  ok       trained two iterations in")


def test_doctor_finds_what_is_wrong(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quell.commands.doctor.CORE", ("numpy", "no-such-package"))
    assert main(["doctor"]) == 1
    assert "MISSING  no-such-package" in capsys.readouterr().out

    def fail() -> float:
        raise EngineFailure("no processes left")

    def blind() -> str:
        raise QuellError("nothing to render with")

    monkeypatch.setattr("quell.video.working_renderer", blind)
    monkeypatch.setattr("quell.commands.doctor.CORE", ("numpy",))
    monkeypatch.setattr("quell.commands.doctor._trains", fail)
    monkeypatch.setitem(quell.errors.EXTRAS, "dm", "no_such_module")
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "missing  rendering for `quell play`: nothing to render with" in out
    assert f"missing  extra dm: {installing('dm')}" in out
    assert "FAILED   training: no processes left" in out


def test_tasks_and_methods(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "tasks"]) == 0
    assert "dm-cheetah-run" in capsys.readouterr().out
    assert main(["list", "methods"]) == 0
    assert "ppo-paper+s+a+m" in capsys.readouterr().out


def test_tasks_are_listed_without_any_extra(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for extra in quell.errors.EXTRAS:
        monkeypatch.setitem(quell.errors.EXTRAS, extra, "no_such_module")
    assert main(["list", "tasks"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert sum("(not installed)" in row for row in rows) == 11
