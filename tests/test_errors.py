"""Messages speak Python to Python and flags to the command line."""

from __future__ import annotations

import copy
import re
import shlex
import subprocess
from pathlib import Path

import gymnasium
import pytest

import quell
from quell import cli, words
from quell.config import KEYWORDS, flatten
from quell.errors import UsageError, as_flags, did_you_mean, flag, resuming
from quell.keywords import Settings
from quell.presets import METHODS
from quell.runs import Run
from quell.training.methods import make_config
from quell.words import ELSEWHERE


@pytest.mark.parametrize(
    ("python", "flags"),
    [
        ("`pairs=0` must be", "`--pairs 0` must be"),
        ("add `fork=True`", "add `--fork`"),
        ("`policy.learn_std=False`", "`--policy.no-learn-std`"),
        ("`policy.hidden=(0, 3)`", "`--policy.hidden 0 3`"),
        ("`policy.hidden=(0,)`", "`--policy.hidden 0`"),
        ("`video='a b.avi'`", "`--video a b.avi`"),
        ("`eval_every=-1`", "`--eval-every -1`"),
        ("a shorter `horizon=...`", "a shorter `--horizon ...`"),
        ("`task_settings.noise=nan`", "`--task-settings noise nan`"),
        ("`quell list tasks` lists them", "`quell list tasks` lists them"),
    ],
)
def test_the_words_of_the_command_line(python: str, flags: str) -> None:
    assert as_flags(python) == flags


@pytest.mark.parametrize(
    ("task", "line"),
    [
        ("hopper", "quell resume runs/a"),
        ("gym:CartPole-v1", "quell resume runs/a"),
        ("envpool:CartPole-v1", "quell resume runs/a"),
        ("my_module:make_env", "quell resume runs/a --trust-import my_module:make_env"),
        ("own:Push", "quell.resume('runs/a', env=...) with the environment as it was given"),
    ],
)
def test_how_to_go_on_depends_on_who_can_make_the_environment(task: str, line: str) -> None:
    assert resuming(Path("runs/a"), task) == line


def test_commands_that_are_suggested_can_be_pasted(tmp_path: Path) -> None:
    """A shell takes the path as one word, whatever it is made of, and runs nothing of it."""
    hostile = tmp_path / "q x" / "$(touch ran); `touch ran`"
    line = resuming(hostile, "lqr")
    assert shlex.split(line) == ["quell", "resume", str(hostile)]
    heard = subprocess.run(["sh", "-c", f'quell() {{ printf "%s" "$2"; }}; {line}'], capture_output=True, cwd=tmp_path)
    assert heard.stdout.decode() == str(hostile)
    assert not (tmp_path / "ran").exists()
    config = make_config("lqr", "es")
    with Run.create(config, tmp_path / "q x", "a") as run, pytest.raises(UsageError, match=r"quell resume '.*q x/.*'"):
        Run.create(config, tmp_path / "q x", run.path.name)
    for path in Path(quell.__file__).parent.rglob("*.py"):
        found = re.findall(r"quell resume \{(?!shlex\.quote)\S*", path.read_text())
        assert not found, f"{path} suggests a command without quotes: {found}"


def test_python_errors_speak_python() -> None:
    for keywords in ({"pairs": 0}, {"sigma": -1.0}, {"steps": "many"}):
        with pytest.raises(UsageError) as refused:
            quell.train("lqr", method="es", **keywords)  # type: ignore[arg-type]
        (name, value), *_ = keywords.items()
        assert f"{name}={value!r}`" in str(refused.value)
        assert "--" not in str(refused.value)
    with pytest.raises(UsageError, match=r"reads no setting 'pair' \(did you mean 'pairs'\?\)$"):
        quell.train("lqr", pair=3)  # type: ignore[call-overload]
    with pytest.raises(UsageError, match=r"reads no setting 'worker' \(did you mean 'workers'\?\)"):
        quell.train("lqr", worker=3)  # type: ignore[call-overload]


def test_a_refusal_lists_all_that_is_read() -> None:
    with pytest.raises(UsageError) as refused:
        quell.train("lqr", nonsense=3)  # type: ignore[call-overload]
    listed = str(refused.value).partition("it reads: ")[2].split(", ")
    assert {"steps", "seed", "pairs", "workers", "log", "callbacks", "directions.sigma"} <= set(listed)
    with pytest.raises(UsageError, match="it is called 'callbacks' here"):
        quell.train("lqr", callback=None)  # type: ignore[call-overload]
    known = {*flatten(make_config("lqr", "es")), *KEYWORDS, *Settings.__annotations__, "jobs", "episodes", "config"}
    assert {name for names in ELSEWHERE.values() for name in names} <= known | {
        "trials",
        "seeds",
        "seconds",
        "estimator.lr",
    }
    assert not {*ELSEWHERE} & {*Settings.__annotations__}, "what is a word of ours is answered by itself"


WORDS = ["total_timesteps", "learning_rate", "algo", "n_envs", "deterministic", "verbose", "callback", "wandb"]
WORDS += ["device", "tensorboard_log", "policy_kwargs", "ent_coef", "n_eval_episodes", "batch_size", "popsize", "env"]


@pytest.mark.parametrize("word", WORDS)
def test_words_of_other_libraries_are_answered(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    """In one line, that says what to write; the list of all settings is for words that are nobody's."""
    assert cli.main(["train", "CartPole-v1", flag(word), "1"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "it reads" not in said
    assert len(said) < 220
    with pytest.raises(UsageError) as refused:
        quell.train("CartPole-v1", **{word: 1})  # type: ignore[call-overload]
    assert "it reads" not in str(refused.value)
    assert "--" not in str(refused.value)


def test_words_of_other_libraries_are_answered_by_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    for command, said in (
        ("eval zoo:swimmer --deterministic", "`quell eval` and `quell play` take the mean action"),
        ("eval zoo:swimmer --n-eval-episodes 3", "it is called --episodes here"),
        ("play zoo:swimmer --render", "--live"),
        ("tune swimmer --n-trials 3", "it is called --trials here"),
        (
            "train --algo ppo --env CartPole-v1",
            "the task comes first, without a flag: quell train CartPole-v1",
        ),
        ("sweep --env CartPole-v1", "quell sweep CartPole-v1"),
    ):
        assert cli.main(command.split()) == 2
        assert said in capsys.readouterr().err


def test_commands_and_methods_of_other_libraries(capsys: pytest.CaptureFixture[str]) -> None:
    assert set(words.COMMANDS.values()) <= set(cli.COMMANDS)
    assert not words.COMMANDS.keys() & {*cli.COMMANDS, *cli.RENAMED}
    assert not words.METHODS.keys() & METHODS.keys()
    for command, said in (
        ("enjoy --algo ppo", "what other libraries call 'enjoy' is `quell play` here"),
        ("train CartPole-v1 -n 50000", "options have two dashes, and there is no -n: it is called --steps here"),
        ("train CartPole-v1 --method ppo --learning-rate 1e-3", "it is called --estimator.lr here"),
        ("train CartPole-v1 --method es --learning-rate 1e-3", "it is called --lr here"),
        ("train CartPole-v1 --method sac", "unknown method 'sac': there are no methods with a replay buffer"),
        ("eval zoo:swimmer --algo ppo", "takes the folder of a run"),
    ):
        assert cli.main(command.split()) == 2
        assert re.search(said, capsys.readouterr().err)


def test_objects_of_other_libraries(tmp_path: Path) -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'PPO': quell.train\(task, method='ppo'\)"):
        quell.PPO  # noqa: B018
    with pytest.raises(AttributeError, match=r"no attribute 'nothing'$"):
        quell.nothing  # noqa: B018
    result = quell.load("zoo:swimmer")
    for name, said in (("predict", "result.policy.predict"), ("save", "quell.load"), ("learn", "quell.resume")):
        with pytest.raises(AttributeError, match=f"a result has no '{name}': .*{said}"):
            getattr(result, name)
    assert not hasattr(result, "nothing")
    assert copy.copy(result).theta is result.theta
    several = gymnasium.make_vec("CartPole-v1", num_envs=2)
    for given in (several, lambda: several, [lambda: gymnasium.make("CartPole-v1")]):
        with pytest.raises(UsageError, match=r"one is enough: quell makes as many"):
            quell.train(given, out=tmp_path)
    with pytest.raises(UsageError, match=r"must be a number \(`schedule='linear'` lowers it to zero"):
        quell.train("CartPole-v1", method="es", lr=lambda left: left, out=tmp_path)  # type: ignore[call-overload]
    with pytest.raises(UsageError, match="unknown policy 'MlpPolicy': it follows from the environment's actions"):
        quell.train("CartPole-v1", policy="MlpPolicy", out=tmp_path)
    with pytest.raises(UsageError, match="are always written"):
        quell.train("CartPole-v1", log="tensorboard", out=tmp_path)


def test_help_and_version_are_commands_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["version"]) == 0
    assert capsys.readouterr().out == f"quell {quell.__version__}\n"
    assert cli.main(["help"]) == 0
    assert "usage: quell COMMAND" in capsys.readouterr().out
    for wrong in (["help", "zoo"], ["help", "nothing"]):
        assert cli.main(wrong) == 2
    with pytest.raises(SystemExit) as done:
        cli.main(["help", "eval"])
    assert done.value.code == 0
    assert "usage: quell eval" in capsys.readouterr().out


def test_did_you_mean() -> None:
    assert did_you_mean("LQR", ["lqr", "hopper"]) == " (did you mean 'lqr'?)"
    assert did_you_mean("eval_evry", ["eval_every"], flag) == " (did you mean --eval-every?)"
    assert did_you_mean("horizon", ["run", "seed"]) == ""


def test_the_names_a_user_sees() -> None:
    """dir(quell) is the public API: every name is there, and nothing that modules import."""
    listed = dir(quell)
    assert {"train", "load", "evaluate", "resume", "task", "variance", "tasks"} <= set(listed)
    assert not {"importlib", "annotations", "Any", "TYPE_CHECKING"} & set(listed)
    for name in listed:
        assert getattr(quell, name) is not None
