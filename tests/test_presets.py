"""Names of old records, preset files, and what `quell train --show` says of them."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path

import pytest

import quell.tasks
from quell.campaign.plan import record_path
from quell.cli import main
from quell.config import flatten, from_dict, full_name, to_dict
from quell.presets import CUSTOM, METHODS, _file, default_method, space
from quell.runs import archive
from quell.runs.record import is_record, read_named
from quell.training.methods import explain, make_config

RESULTS = Path(__file__).parents[1] / "results"
FAMILIES = sorted({method.family for method in METHODS.values()} | {"paper"})
WORDS = {"space", "default", "others", "others-discrete"}
"""Tables of a file that are not named after a task."""
OLD_NAMES = {
    ("ars", "ars"): 396,
    ("cv", CUSTOM): 246,
    ("cv", "cv"): 109,
    ("cv", "es"): 76,
    ("cv", "natural-cv"): 794,
    ("es", "es"): 703,
    ("gcmc", "gcmc"): 70,
    ("ortho", "ortho"): 70,
    ("pg", "pg"): 73,
    ("ppo", "ppo"): 551,
    ("qmc", "qmc"): 70,
    ("trpo", CUSTOM): 86,
    ("trpo", "trpo"): 220,
}
"""(what runs were called, what they are) -> how many records. Custom are an estimator with another's step, and
estimators that are gone."""


def test_every_record_has_exactly_one_name() -> None:
    found: Counter[tuple[str, str]] = Counter()
    for path in sorted(RESULTS.rglob(archive.PACKED)):
        for _, facts in archive.read_packed(path):
            if is_record(facts) and "method" in facts["config"]:
                config = from_dict(facts["config"])
                found[facts["config"]["method"], config.method] += 1
                assert "method" not in to_dict(config)
    print("".join(f"\n{old} -> {new}: {count}" for (old, new), count in sorted(found.items())))
    assert found == OLD_NAMES


def test_a_record_is_found_under_its_earlier_name() -> None:
    """So that no finished run is repeated; and one that was made with other settings is not taken for it."""
    records = read_named(RESULTS / "benchmark")
    for name in ("hopper-cv-0", "lqr-cv-0", "hopper-es-0", "hopper-trpo-0"):
        config = records[name].config
        assert archive.exists(path := record_path(RESULTS / "benchmark", config))
        assert path.stem == name.replace("lqr-cv", "lqr-es")
        other = record_path(RESULTS / "benchmark", dataclasses.replace(config, pairs=99))
        assert other.stem == f"{config.task}-{config.method}-0"
    assert record_path(RESULTS / "benchmark", records["hopper-cv-0"].config).stem == "hopper-cv-0"


@pytest.mark.parametrize("family", FAMILIES)
def test_a_preset_file_says_nothing_that_is_not_read(family: str) -> None:
    """Tables are of tasks that there are, with settings that at least one of the file's methods reads, in bounds."""
    own = [name for name, method in METHODS.items() if method.family == family] or list(METHODS)
    for table, settings in _file(family).items():
        task = table if table not in WORDS else "gym:CartPole-v1" if table == "others-discrete" else "hopper"
        quell.tasks.get(task)
        methods = [name for name in own if METHODS[name].discrete or not quell.tasks.get(task).discrete]
        configs = [make_config(task, name).validate() for name in methods]
        for name in settings:
            assert any(full_name(name, flatten(config)) for config in configs), f"{family}.toml [{table}] {name}"


def test_a_task_gets_default_and_its_own_table() -> None:
    default, own = _file("natural")["default"], _file("natural")["halfcheetah"]
    sources = {one.name: (one.value, one.source) for one in explain("halfcheetah", overrides={"step.kl": 0.2})}
    assert sources["pairs"] == (own["pairs"], "presets/natural.toml [halfcheetah]")
    assert sources["policy.activation"] == (default["policy.activation"], "presets/natural.toml [default]")
    assert sources["step.kl"] == (0.2, "asked for")
    assert sources["estimator"] == ("control-variate", "method natural-cv")
    assert sources["seed"] == (0, "default")
    assert {"policy": "the task: its actions are choices"}.items() <= {
        one.name: one.source for one in explain("gym:CartPole-v1")
    }.items()


@pytest.mark.parametrize(("method", "step", "rate"), [("ppo", "adam", 0.01), ("es", "sgd", 0.01), ("es", "adam", 0.03)])
def test_numbers_of_a_step_are_for_the_methods_own(method: str, step: str, rate: float) -> None:
    """PPO's rate of 1 is for the step that takes all of its way; Adam's is another."""
    assert make_config("inverted-pendulum", method, overrides={"step": step}).step.lr == rate  # type: ignore[attr-defined]


@pytest.mark.parametrize("method", ["natural-cv", "trpo", "ppo"])
def test_a_preset_cuts_no_episodes_under_other_conditions(method: str) -> None:
    cut = make_config("halfcheetah", method).train_horizon
    assert 0 < cut < 1000
    assert make_config("halfcheetah", method, overrides={"hide": (0,)}).train_horizon == cut
    for changed in ({"delay": 50}, {"delay": 0}, {"frame_skip": 2}):
        assert make_config("halfcheetah", method, overrides=changed).train_horizon == 0
        assert make_config("halfcheetah", method, overrides={**changed, "train_horizon": 70}).train_horizon == 70
    sources = {one.name: one.source for one in explain("halfcheetah", method, overrides={"delay": 50})}
    assert sources["train_horizon"].startswith("delay or frame_skip")


@pytest.mark.parametrize(
    ("flags", "steps"),
    [("", 100), ("--delay end", 0), ("--delay=50", 0), ("--frame-skip 2", 0), ("--delay 50 --train-horizon 70", 70)],
)
def test_flags_too_keep_a_preset_from_cutting_episodes(
    flags: str, steps: int, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["train", "halfcheetah", *flags.split(), "--out", str(tmp_path), "--show"]) == 0
    shown = {line.split()[0]: line.split()[1] for line in capsys.readouterr().out.splitlines() if line.split()}
    assert shown["train_horizon"] == str(steps)


def test_a_task_without_natural_steps_has_another_default(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert [default_method(task) for task in ("lqr", "lqr-302", "hopper")] == ["es", "es", "natural-cv"]
    assert make_config("lqr").method == "es"
    assert make_config("lqr", "natural-cv").method == "natural-cv"
    small = ["--steps", "1", "--horizon", "4", "--workers", "1", "--out", str(tmp_path)]
    assert main(["train", "lqr", *small]) == 0
    told = capsys.readouterr()
    assert told.err.count("lqr: method es, because natural steps do not work") == 1
    assert "lqr  es  seed 0" in told.out
    assert main(["train", "lqr", "--method", "es", *small]) == 0
    assert "no natural step" not in capsys.readouterr().err


def test_show_prints_every_setting_and_trains_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["train", "swimmer", "--show", "--sigma", "0.5", "--step", "adam", "--out", str(tmp_path / "x")]) == 0
    lines = {line.split()[0]: line.split(maxsplit=2)[1:] for line in capsys.readouterr().out.splitlines()}
    assert lines["directions.sigma"] == ["0.5", "command line"]
    assert lines["step"] == ["adam", "command line"]
    assert lines["policy.init_std"] == ["0.6", "presets/natural.toml [swimmer]"]
    assert lines.keys() >= flatten(make_config("swimmer", overrides={"step": "adam"})).keys()
    assert not (tmp_path / "x").exists()


def test_every_searched_setting_is_read() -> None:
    for name, method in METHODS.items():
        known = flatten(make_config("hopper", name))
        read = [setting for setting in space(name) if full_name(setting, known)]
        assert len(read) == len(space(name)), method
