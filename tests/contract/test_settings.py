"""No setting is silently ignored: every one that a method has is read while it trains, and no other is accepted."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import pytest
from conftest import Here
from strategies import all_of

import quell
from quell import registry
from quell.api import start
from quell.cli import main
from quell.config import STRATEGIES, Config, flatten, from_dict, full_name, replace, to_dict
from quell.errors import UsageError
from quell.estimate.control_variate.discount import FixedDiscounts
from quell.policy.network import Policy
from quell.presets import METHODS
from quell.training.methods import make_config

PRESETS = ("paper", "tuned")
CASES = list(itertools.product(METHODS, PRESETS))
UNSEEN = ("dataclasses.py", "quell/registry.py", "quell/config.py", "quell/runs/folder.py", "<string>")
"""Files whose reading of a setting does not count: they copy, compare and describe all alike."""
ONLY_NAMES = {"task", "method", "preset"}
SHORT: dict[str, Any] = {"horizon": 6, "pairs": 2, "batch_steps": 0, "steps": 48, "eval_episodes": 1}


def strategies_of(owner: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted name and object of every strategy within a config."""
    for name, value in registry.settings_of(owner).items():
        if registry.is_strategy(value):
            yield f"{prefix}{name}", value
            yield from strategies_of(value, f"{prefix}{name}.")


def forget_everything_compiled() -> None:
    """A setting that is read while compiling is read once for all equal strategies."""
    for name, module in list(sys.modules.items()):
        if name.startswith("quell") and isinstance(module, ModuleType):
            for value in vars(module).values():
                if isinstance(value, functools._lru_cache_wrapper):
                    value.cache_clear()


class Watch:
    """Which fields of some dataclasses are read, and not by those who read all of them alike."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, classes: set[type[Any]]) -> None:
        self.read: set[tuple[type[Any], str]] = set()
        for cls in classes:
            monkeypatch.setattr(cls, "__getattribute__", self._watching(cls))

    def _watching(self, cls: type[Any]) -> Any:
        names = {item.name for item in dataclasses.fields(cls)}

        def get(owner: Any, name: str) -> Any:
            if name in names and type(owner) is cls:
                code = sys._getframe(1).f_code
                generic = cls is not Policy and code.co_filename.endswith("quell/policy/__init__.py")
                if not code.co_filename.endswith(UNSEEN) and not generic:
                    self.read.add((cls, name))
            return object.__getattribute__(owner, name)

        return get


@pytest.mark.parametrize(
    ("method", "preset"),  # in the quick run PPO without its switches, and with all of them
    [pytest.param(*case, marks=[pytest.mark.slow] * (case[0].count("+") in (1, 2))) for case in CASES],
)
def test_every_setting_is_read(method: str, preset: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two iterations in this process. A field that is not read must be refused where it is not its default."""
    config = make_config("swimmer" if method == "natural-cv" else "lqr", method, preset, SHORT).validate()
    forget_everything_compiled()
    found = dict(strategies_of(config))
    with monkeypatch.context() as patch:
        watch = Watch(patch, {type(s) for s in found.values()} | {Config, Policy})
        result = start(config, compute=Here(), out=tmp_path, progress=False)
    assert result.iteration == 2
    unread = [
        f"{where}.{name}"
        for where, strategy in found.items()
        for name, value in registry.settings_of(strategy).items()
        if not registry.is_strategy(value) and (Policy if where == "policy" else type(strategy), name) not in watch.read
    ]
    unread += [
        f.name
        for f in dataclasses.fields(Config)
        if (Config, f.name) not in watch.read | {(Config, n) for n in ONLY_NAMES}
    ]
    assert [name for name in unread if not refused_if_changed(config, name)] == []


def refused_if_changed(config: Config, name: str) -> bool:
    value = flatten(config)[name]
    other = not value if isinstance(value, bool) else value / 2
    try:
        replace(config, {name: other}).validate()
    except UsageError as error:
        return "is read only" in str(error) or "is not read" in str(error)
    return False


def test_an_unread_setting_would_be_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The watch itself: nobody reads this one."""
    from quell.estimate.es import Es

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Idle(Es):
        unused: float = 1.0

    config = make_config("lqr", "es", overrides={**SHORT, "estimator": Idle()}).validate()
    with monkeypatch.context() as patch:
        watch = Watch(patch, {Idle})
        start(config, compute=Here(), out=tmp_path, progress=False)
    assert (Idle, "shaping") in watch.read
    assert (Idle, "unused") not in watch.read


SILENT: list[tuple[str, str, str, str, Any]] = [
    # task, method and more words, flag, keyword, value
    ("lqr", "es", "--estimator.gamma", "estimator.gamma", 0.9),
    ("lqr", "es", "--gamma", "gamma", 0.9),
    ("lqr", "es", "--baseline", "baseline", "leave-one-out"),
    ("lqr", "es", "--coefficients", "coefficients", "moments"),
    ("lqr", "es", "--shift", "shift", True),
    ("lqr", "es", "--updates", "updates", 3),
    ("lqr", "pg", "--sigma", "sigma", 0.1),
    ("lqr", "pg", "--directions.sigma", "directions.sigma", 0.1),
    ("lqr", "ppo-paper", "--shaping", "shaping", "ranks"),
    ("lqr", "trpo-paper", "--clip", "clip", 0.1),
    ("lqr", "ppo-paper", "--kl-penalty", "kl_penalty", 0.5),
    ("lqr", "det", "--init-std", "init_std", 0.3),
    ("lqr", "det", "--learn-std", "learn_std", False),
    ("swimmer", "natural-cv", "--rate", "rate", 1e-3),
    ("swimmer", "natural-cv", "--shrinkage", "shrinkage", 3.0),
    ("lqr", "cv --preset paper", "--trace", "trace", "0.5"),
    ("lqr", "cv --preset paper", "--gammas", "gammas", (0.5,)),
    ("lqr", "es --step sgd", "--b1", "b1", 0.5),
    ("lqr", "es --step adam", "--decay", "decay", 0.5),
    ("gym:CartPole-v1", "es", "--init-std", "init_std", 0.3),
    ("gym:CartPole-v1", "es", "--policy.actions", "policy.actions", "clip"),
    ("lqr", "es --engine cpu", "--address", "address", "127.0.0.1:1"),
    ("lqr", "es --engine cpu", "--worker-cores", "worker_cores", 3),
    ("lqr", "es", "--nonsense", "nonsense", 1),
]


@pytest.mark.parametrize(("task", "method", "flag", "keyword", "value"), SILENT, ids=lambda v: str(v))
def test_a_setting_that_is_not_read_is_refused(
    task: str,
    method: str,
    flag: str,
    keyword: str,
    value: Any,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On the command line with exit code 2, one line and what is read instead; from Python with the same words."""
    monkeypatch.chdir(tmp_path)
    text = [] if isinstance(value, bool) else ["0.5" if isinstance(value, tuple) else str(value)]
    assert main(["train", task, "--method", *method.split(), flag, *text]) == 2
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1
    assert f"reads no setting '{flag}'" in error or f"reads no setting {flag}" in error
    assert re.search(r"it reads: --|\(did you mean --|\(the critic's is --", error)
    name, _, more = method.partition(" ")
    words = iter(more.split())
    extra = {word.removeprefix("--"): next(words) for word in words}
    with pytest.raises(UsageError, match=r"reads no setting .*(it reads: |did you mean|critic's is)") as refused:
        quell.train(task, method=name, **{keyword: value, **extra})  # type: ignore[arg-type]
    assert keyword in str(refused.value)
    assert not list(tmp_path.iterdir())


def test_settings_that_do_not_go_together() -> None:
    with pytest.raises(UsageError, match="metric step needs coefficients layers or mse, not sgd"):
        make_config("lqr", "cv", "paper", {"estimator.metric": "step"}).validate()
    several = {"coefficients": "moments", "discount": FixedDiscounts(gammas=(1.0, 0.9))}
    with pytest.raises(UsageError, match="coefficients moments weigh one column, not 2"):
        make_config("lqr", "cv", "paper", several).validate()
    with pytest.raises(UsageError, match="`shared_noise=True` is not read"):
        make_config("lqr", "det", "paper", {"shared_noise": True}).validate()


@pytest.mark.parametrize(("method", "preset"), CASES)
class TestConfig:
    """What config.json holds is what was chosen."""

    def test_there_and_back(self, method: str, preset: Any) -> None:
        config = make_config("hopper", method, preset, {"policy.hidden": (8,), "seed": 3, "horizon": 9}).validate()
        again = from_dict(json.loads(json.dumps(to_dict(config))))
        assert again == config
        assert flatten(again) == flatten(config)

    def test_unknown_names_are_refused_at_every_depth(self, method: str, preset: Any) -> None:
        plain = to_dict(make_config("lqr", method, preset))
        for path in [(), *((name,) for name in STRATEGIES), ("estimator", "coefficients"), ("estimator", "columns")]:
            values = json.loads(json.dumps(plain))
            target = values
            for name in path:
                target = target.get(name, {})
            if not target:
                continue
            target["nonsense"] = 1
            with pytest.raises(UsageError, match=r"there is no setting .*nonsense"):
                from_dict(values)

    def test_every_setting_has_its_dotted_name(self, method: str, preset: Any) -> None:
        config = make_config("lqr", method, preset)
        for name, value in flatten(config).items():
            assert full_name(name, flatten(config)) == name
            if name.rpartition(".")[2] not in registry.KINDS:
                assert replace(config, {name: value}) == config


def test_names_may_be_shortened_where_that_is_unique() -> None:
    config = make_config("lqr", "cv", "paper")
    assert replace(config, {"sigma": 0.5}).directions.sigma == 0.5
    assert replace(config, {"discount.start": 0.6}) == replace(config, {"estimator.columns.discount.start": 0.6})
    assert replace(config, {"init_std": 0.6}) == replace(config, {"policy.init_std": 0.6})
    with pytest.raises(UsageError, match=r"`rate=\.\.\.` could be `estimator.columns.discount.rate=...` or `esti"):
        replace(config, {"rate": 0.1})
    assert replace(config, {"discount.rate": 0.1}) == replace(
        config, {"estimator": {"columns": {"discount": {"rate": 0.1}}}}
    )
    assert replace(config, {"coefficients": "moments", "decay": 0.5}).estimator.coefficients.decay == 0.5  # type: ignore[attr-defined]


def test_of_two_names_the_one_nearer_to_the_surface_is_meant() -> None:
    """The default has a critic with layers of its own."""
    config = replace(make_config("swimmer"), {"hidden": "linear"})
    assert flatten(config)["policy.hidden"] == ()
    assert config.estimator.columns.critic.hidden != ()  # type: ignore[attr-defined]
    assert full_name("lr", ["estimator.critic.lr", "step.lr"]) == "step.lr"
    assert full_name("lr", ["estimator.critic.lr", "step.kl"]) is None  # not the critic's in silence
    assert full_name("critic.lr", ["estimator.critic.lr", "step.kl"]) == "estimator.critic.lr"


def test_a_critics_setting_is_pointed_to(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "swimmer", "--lr", "0.1"]) == 2
    told = "reads no setting '--lr' (the critic's is --critic.lr; how far a natural step goes is --kl)\n"
    assert told in capsys.readouterr().err


def test_an_ambiguous_flag_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "lqr", "--method", "cv", "--rate", "0.1"]) == 2
    assert "`--rate ...` could be `--estimator.columns.discount.rate ...` or" in capsys.readouterr().err
    assert main(["train", "swimmer", "--decay", "0.1"]) == 2
    assert "step.decay" in capsys.readouterr().err


@pytest.mark.parametrize("kind", registry.KINDS)
def test_every_setting_is_explained_and_within_its_own_bounds(kind: str) -> None:
    for strategy in all_of(kind):
        registry.check(strategy)
        texts = registry.help_texts(type(strategy))
        for name, hint in registry.hints(type(strategy)).items():
            assert texts.get(name), f"{kind} {strategy.name}: {name} has no help"
            bounds = next((part for part in get_args(hint) if isinstance(part, registry.Range)), None)
            for wrong in [float("nan"), *([bounds.low - 1] if bounds and bounds.low > -1e300 else [])]:
                if bounds is not None and "int" not in str(hint):
                    with pytest.raises(UsageError, match=name):
                        registry.check(dataclasses.replace(strategy, **{name: wrong}))
            with pytest.raises(UsageError, match=name):
                registry.check(dataclasses.replace(strategy, **{name: object()}))
