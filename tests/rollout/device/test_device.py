"""The device engine on this machine's CPU: episodes, whole iterations as one program, and what a program is told."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import quell
import quell.tasks
from quell.errors import EngineFailure, QuellError, UsageError
from quell.estimate import Problem, estimate
from quell.estimate.reduce import sum_by_loop
from quell.keys import Stream, root
from quell.perturb import Unperturbed, draw_of
from quell.perturb.gaussian import Gaussian
from quell.perturb.low_rank import LowRank
from quell.policy import Policy
from quell.rollout.device import Device, directions
from quell.rollout.device import engine as device_engine
from quell.rollout.device.engine import DeviceEngine
from quell.rollout.device.worlds import World
from quell.stats import mean
from quell.tasks.lqr import linear_return, riccati_gains
from quell.training.iteration import Trainer
from quell.training.methods import make_config
from quell.types import Batch, Episodes, Sums, Trajectories

SHORT = {"horizon": 12, "pairs": 3, "steps": 10_000, "eval_every": 0, "batch_steps": 0}
COMPILED: list[str] = []


@pytest.fixture(autouse=True)
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the programs that a test compiles."""
    compiling = DeviceEngine._compile

    def counted(engine: DeviceEngine, name: str, *rest: Any) -> Any:
        COMPILED.append(name)
        return compiling(engine, name, *rest)

    COMPILED.clear()
    monkeypatch.setattr(DeviceEngine, "_compile", counted)
    return COMPILED


class Countdown(World):
    """Member k's episode ends after 2 + k steps, each of which is paid k; what comes behind is no number."""

    obs_size, action_size, horizon, can_terminate, bounds = 1, 1, 9, True, None

    def reset(self, keys: Any) -> tuple[Any, Any]:
        count = len(keys)
        return {"time": jnp.zeros(count), "lives": 2.0 + jnp.arange(count)}, jnp.ones((count, 1))

    def step(self, state: Any, actions: Any, last: Any = False) -> tuple[Any, Any, Any, Any]:
        time, lives = state["time"] + 1, state["lives"]
        behind = jnp.where(time > lives, jnp.nan, 0.0)
        following = {"time": time, "lives": lives}
        return following, 1 + (time + behind)[:, None], lives - 2 + behind, time >= lives

    def trouble(self, state: Any) -> dict[str, Any]:
        return {"spoilt": state["lives"] == 3}


@pytest.fixture
def countdown(monkeypatch: pytest.MonkeyPatch) -> Callable[..., DeviceEngine]:
    monkeypatch.setattr(device_engine, "make_world", lambda task, settings: Countdown())
    problem = Problem(Policy(1, 1, hidden=()), Gaussian(sigma=0.1), 0)
    return lambda **settings: DeviceEngine(quell.tasks.get("lqr"), problem, Device(**settings))


def test_steps_after_the_end_count_for_nothing(countdown: Callable[..., DeviceEngine]) -> None:
    engine, theta = countdown(), np.array([0.5, 0.0, 0.0], np.float32)
    played = engine.rollout(theta, Episodes.of_pairs(0, 2, record=True, states=3))
    assert played.steps.tolist() == [2, 3, 4, 5]
    assert played.terminated.all()
    assert played.returns.tolist() == [0, 3, 8, 15]
    assert (played.rewards[:, 5:] == 0).all()
    obs = np.array([[1 + t if t < 2 + k else 0 for t in range(9)] for k in range(4)])
    assert np.array_equal(np.asarray(engine._paths["obs"])[:, :, 0], obs)
    assert (np.asarray(engine._paths["actions"])[:, :, 0] != 0).sum(axis=1).tolist() == [2, 3, 4, 5]
    assert played.obs_sums[:, 0, 0].tolist() == obs.sum(axis=1).tolist()
    assert played.obs_sums[:, 1, 0].tolist() == np.square(obs).sum(axis=1).tolist()
    assert played.states is not None
    assert played.states[3, :, 0].tolist() == [1, 3, 5]
    assert engine.metrics() == {"trouble/spoilt": 1.0}


def test_episodes_are_cut_without_terminating(countdown: Callable[..., DeviceEngine]) -> None:
    played = countdown().rollout(np.zeros(3, np.float32), Episodes.of_pairs(0, 2, longest=3))
    assert played.steps.tolist() == [2, 3, 3, 3]
    assert played.terminated.tolist() == [True, True, False, False]
    assert played.rewards.shape == (4, 1)
    assert played.returns.tolist() == [0, 3, 6, 9]


def test_the_return_of_a_linear_policy_is_what_theory_says() -> None:
    """u = -K x on lqr with its own noise: the mean of 400 episodes within 4 standard errors of the exact return."""
    task = quell.tasks.get("lqr", horizon=20)
    gain = riccati_gains(2000)[0]
    policy = Policy(3, 3, hidden=(), init_std=0.3, learn_std=False)
    theta = np.concatenate([-gain.T.ravel(), np.zeros(3)]).astype(np.float32)
    with Device().make(task, Problem(policy, Unperturbed(), 5), members=400) as engine:
        for mean_action in (True, False):
            played = engine.rollout(theta, Episodes.unperturbed(0, 400, Stream.FRESH, mean_action=mean_action))
            exact = linear_return(task, np.repeat(gain[None], 20, axis=0), 0.0 if mean_action else 0.3)  # type: ignore[arg-type]
            error = played.returns.std() / np.sqrt(400)
            assert abs(mean(played.returns) - exact) < 4 * error
            assert error < 0.05 * abs(exact)
    assert COMPILED == ["rollout"]


def moved_both_ways(method: str, settings: dict[str, Any], iterations: int = 2, **engine: Any) -> list[float]:
    """Of an iteration, as one program and stage by stage on the same episodes: the distance of the two new thetas over
    the way. The next iteration begins where the program ended."""
    config = make_config("lqr", method, overrides={**SHORT, **settings})
    trainer, found = Trainer(config, Device(**engine)), []
    state = trainer.initial_state()
    for _ in range(iterations):
        whole, row = trainer.iterate(state)
        staged, other = trainer.in_turn(state)
        way = np.linalg.norm(np.asarray(whole.theta) - np.asarray(state.theta))
        found.append(float(np.linalg.norm(np.asarray(whole.theta) - np.asarray(staged.theta)) / way))
        assert row.keys() - other.keys() == set()
        for name in ("return/mean", "return/std", "steps", "gradient/norm", "episode_length"):
            assert row.get(name, 0.0) == pytest.approx(other.get(name, 0.0), rel=2e-3), name
        # A difference of sums that nearly cancel, in single precision here and in double there.
        variances = row.get("variance/method", 0.0), other.get("variance/method", 0.0)
        assert variances[0] == pytest.approx(variances[1], rel=3e-2, nan_ok=True)
        assert whole.obs.count == staged.obs.count
        np.testing.assert_allclose(whole.obs.squares, staged.obs.squares, rtol=1e-5)
        state = whole
    return found


def test_an_iteration_as_one_program_is_that_of_its_stages(compiled: list[str]) -> None:
    """To 1e-3 of the way, twice; nothing is compiled twice, not by another engine of the same kind either."""
    assert max(moved_both_ways("es", {})) < 1e-3
    assert sorted(compiled) == ["iterate", "rollout", "total"]
    assert max(moved_both_ways("es", {"seed": 7})) < 1e-3
    assert len(compiled) == 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("natural-cv", {}),
        ("natural-cv", {"directions": "fisher", "nats": 0.05}),
        ("natural-cv", {"directions": "low-rank"}),
        ("natural-cv", {"directions": "gaussian", "nats": 0.05}),
        ("mixed-cv", {}),
        ("cv", {}),
        ("cv", {"delay": 5, "hide": (0,), "obs_noise": 0.1}),
        ("cv", {"directions": "orthogonal"}),
        ("cv", {"directions": "gcmc"}),
        ("trpo", {}),
        ("ars", {"normalise_obs": True}),
        ("es", {"directions": "low-rank", "policy.hidden": (8,)}),
        ("es", {"step": "natural", "shared_noise": True, "shared_reset": True}),
        ("es", {"mean_actions": True}),
    ],
)
def test_every_traceable_method_is_that_of_its_stages(method: str, settings: dict[str, Any]) -> None:
    assert max(moved_both_ways(method, settings, iterations=3)) < 5e-3


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("es", {}),
        *(
            pytest.param(method, settings, marks=pytest.mark.slow)
            for method, settings in [
                ("ars", {}),
                ("cv", {}),
                ("cv", {"coefficients": "layers"}),
                ("natural-cv", {"estimator.metric": "parameters"}),
                ("trpo", {"estimator.line_search": False}),
            ]
        ),
    ],
)
def test_a_gradient_is_that_of_numpy_on_the_same_batch(
    method: str, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In double precision, pair by pair, as the CPU engine sums: to 1e-4 of its length, in two batches. The step is a
    thousandth of the gradient, so that the program's gradient is how far theta went."""
    numbers = {**SHORT, "step": "sgd", "step.lr": 1e-3, "policy.output_scale": 0.01}
    numbers |= {} if method == "ars" else {"policy.init_std": 0.3}
    config = make_config("lqr", method, overrides={**numbers, **settings})
    trainer = Trainer(config, Device())
    engine, problem, state = trainer.engine, trainer.problem, trainer.initial_state()
    assert isinstance(engine, DeviceEngine)
    for _ in range(2):
        moved, _ = trainer.iterate(state)
        looks = {"record": config.estimator.needs.trajectories}
        shared = {"shared_reset": config.shared_reset, "shared_noise": config.shared_noise}
        episodes = Episodes.of_pairs(state.iteration, 3, **looks, **shared)
        theta, memory = (
            np.asarray(state.theta),
            {name: np.asarray(a, np.float64) for name, a in state.estimator.items()},
        )
        rollouts = engine.rollout(theta, episodes, state.obs if config.normalise_obs else None)
        if engine._paths:
            paths = Trajectories(*(np.asarray(engine._paths[name]) for name in ("obs", "actions")))
            rollouts = dataclasses.replace(rollouts, trajectories=paths)
        address = draw_of(problem.policy, root(config.seed), episodes)
        eps = [np.asarray(directions.both(problem.directions, address, pair, None)) for pair in range(3)]
        monkeypatch.setattr("quell.estimate.reduce.directions_of", lambda _, __, pair, eps=eps: eps[pair])

        def total(estimator: Any, batch: Batch, rows: Any, theta: Any) -> Sums:
            (sums,) = sum_by_loop(estimator, problem, batch, rows, theta).values()
            return sums

        found = estimate(config.estimator, problem, Batch(theta, episodes, rollouts), memory, total=total)
        gradient = (np.asarray(moved.theta, np.float64) - theta) / 1e-3
        length = np.linalg.norm(found.gradient)
        assert length > 1e-2
        assert np.linalg.norm(gradient - found.gradient) < 1e-4 * length
        state = moved


def test_low_rank_directions_drawn_on_the_device_are_summed_as_they_are_played() -> None:
    policy, kind = Policy(4, 2, hidden=(6,)), LowRank(sigma=0.1, rank=2)
    episodes = Episodes.of_pairs(3, 70)
    draw, weights = draw_of(policy, root(0), episodes), np.random.default_rng(0).standard_normal((70, 2)).astype("f4")
    eps = np.asarray(jax.vmap(lambda pair: directions.both(kind, draw, pair, None))(jnp.arange(70)))
    total, squares = jax.jit(lambda weights: kind.combine(draw, weights))(weights)
    each = (weights[:, :, None] * eps).sum(axis=1)
    np.testing.assert_allclose(total, each.sum(axis=0), atol=1e-4)
    assert float(squares) == pytest.approx(np.square(each).sum(), rel=1e-4)
    theta, obs = policy.init(np.random.default_rng(1)), np.random.default_rng(2).standard_normal((6, 4)).astype("f4")
    pair, sign = np.array([0, 0, 1, 1, 2, 2]), np.array([1, -1, 1, -1, 1, -1])
    acting = directions.parameters(kind, draw, jnp.asarray(theta), jnp.asarray(pair), jnp.asarray(sign), None)
    dense = theta + np.float32(0.1) * eps[pair, (sign < 0).astype(int)]
    np.testing.assert_allclose(
        directions.outputs(policy, acting, obs), directions.outputs(policy, jnp.asarray(dense), obs), atol=1e-5
    )


@pytest.mark.slow
def test_members_may_play_one_chunk_after_the_other() -> None:
    """7 members at a time, of 10: the same episodes, the same sums up to rounding."""
    config = make_config("lqr", "cv", overrides={**SHORT, "pairs": 5})
    after = []
    for chunk in (None, 4):
        trainer = Trainer(config, Device(chunk=chunk))
        state, row = trainer.iterate(trainer.initial_state())
        after.append((np.asarray(state.theta), row["return/mean"], row["variance/method"]))
    np.testing.assert_allclose(after[0][0], after[1][0], atol=2e-6)
    assert after[0][1:] == pytest.approx(after[1][1:], rel=1e-4)


def test_a_budget_is_exceeded_by_no_more_than_a_pair() -> None:
    """What is played of the last batch is what other engines play of it: pairs, until the budget is spent."""
    config = make_config("lqr", "es", overrides={**SHORT, "steps": 6 * 12 + 30})
    trainer = Trainer(config, Device())
    state, first = trainer.iterate(trainer.initial_state())
    state, last = trainer.iterate(state)
    assert (first["steps"], last["steps"]) == (72, 72 + 48)
    assert last["trouble/bad_pairs"] == 0
    assert state.obs.count == 120


def test_a_run_goes_on_elsewhere_and_says_so(tmp_path: Path) -> None:
    """Begun on the device, continued on the CPU engine and back: one checkpoint format, and a warning of bits."""
    settings: dict[str, Any] = {**SHORT, "eval_every": 1, "eval_episodes": 2, "progress": False, "name": "run"}
    begun = quell.train("lqr", method="es", **{**settings, "steps": 144}, engine="device", out=tmp_path)
    assert begun.iteration == 2
    assert [row["iteration"] for row in begun.history] == [1, 2]
    assert '"engine": "device"' in (begun.path / "versions.json").read_text()
    with pytest.warns(UserWarning, match=r"begun with engine device \(now exact\)"):
        there = quell.resume(begun.path, steps=216, progress=False, workers=1)
    back = quell.resume(begun.path, steps=288, progress=False, engine=Device())
    assert (there.iteration, back.iteration) == (3, 4)
    assert not np.array_equal(there.theta, back.theta)


def test_ppo_plays_on_the_device_and_learns_here() -> None:
    """Its updates cannot be traced: episodes and sums are the device's."""
    config = make_config("lqr", "ppo", overrides={**SHORT})
    trainer = Trainer(config, Device())
    state, row = trainer.iterate(trainer.initial_state())
    assert np.linalg.norm(state.theta - trainer.initial_state().theta) > 0
    assert row["pg/updates"] > 0
    assert COMPILED == ["rollout", "total"]


def test_low_rank_directions_are_never_formed() -> None:
    """No array of the program has as many numbers as members times parameters."""
    members, hidden = 64, 96
    config = make_config(
        "lqr",
        "es",
        overrides={**SHORT, "pairs": members // 2, "directions": "low-rank", "policy.hidden": (hidden, hidden)},
    )
    trainer = Trainer(config, Device())
    engine, programs = trainer.engine, list[Any]()
    assert isinstance(engine, DeviceEngine)

    def traced(key: Any, program: Any, *arguments: Any) -> Any:
        programs.append(jax.make_jaxpr(program)(*arguments))
        raise EngineFailure("seen")

    engine._run = traced  # type: ignore[method-assign]
    with pytest.raises(EngineFailure, match="seen"):
        trainer.iterate(trainer.initial_state())
    dim = trainer.problem.policy.dim
    assert dim > hidden**2
    largest = max(sizes(programs[0].jaxpr))
    assert dim <= largest < members * dim / 4


def sizes(jaxpr: Any) -> Iterator[int]:
    """Numbers of all arrays of a program, and of those within."""
    for equation in jaxpr.eqns:
        yield from (variable.aval.size for variable in equation.outvars if hasattr(variable.aval, "size"))
        for inner in jax.tree.leaves(list(equation.params.values()), is_leaf=lambda leaf: hasattr(leaf, "eqns")):
            if hasattr(inner := getattr(inner, "jaxpr", inner), "eqns"):
                yield from sizes(inner)


def test_seeds_side_by_side_are_what_they_are_alone(tmp_path: Path) -> None:
    """Two seeds in one program, one folder each: what each is alone, to rounding; a later call trains none again."""
    settings: dict[str, Any] = {**SHORT, "steps": 150, "method": "es", "progress": False, "engine": "device"}
    several = quell.train("lqr", seeds=2, seed=5, out=tmp_path, **settings)
    assert [result.config.seed for result in several] == [5, 6]
    assert len({result.path for result in several}) == 2
    assert COMPILED.count("iterate") == 1
    result = several[1]
    alone = quell.train("lqr", seed=6, out=tmp_path / "alone", **settings)
    assert alone.steps == result.steps == 168
    assert alone.iteration == result.iteration == 3
    np.testing.assert_allclose(result.theta, alone.theta, atol=1e-5)
    count = len(COMPILED)
    again = quell.train("lqr", seeds=2, seed=5, out=tmp_path, **settings)
    assert [result.path for result in again] == [result.path for result in several]
    assert len(COMPILED) == count


@pytest.mark.slow
def test_one_of_several_seeds_may_fail(tmp_path: Path) -> None:
    """The folder of one cannot be written: the others are trained all the same."""
    settings: dict[str, Any] = {**SHORT, "steps": 72, "method": "es", "progress": False, "engine": "device"}
    quell.train("lqr", seeds=1, seed=5, out=tmp_path, **settings)
    (folder,) = (path.parent for path in tmp_path.rglob("config.json"))
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    for records in [path for path in tmp_path.rglob("records*") if path.is_dir()]:
        shutil.rmtree(records)
    folder.rmdir()
    folder.write_text("in the way")
    with pytest.raises(QuellError, match="1 of 3 runs failed"):
        quell.train("lqr", seeds=3, seed=5, out=tmp_path, **settings)
    assert len(list(tmp_path.rglob("config.json"))) == 2


TWO = """
import sys, numpy as np
from quell.rollout.device import Device
from quell.training.iteration import Trainer
from quell.training.methods import make_config
config = make_config("lqr", sys.argv[1], overrides={"horizon": 12, "pairs": 5, "steps": 10_000, "batch_steps": 0})
after = []
for settings in ({"devices": 1}, {"devices": 2}, {"devices": 2, "chunk": 2}):
    trainer = Trainer(config, Device(**settings))
    assert trainer.engine.devices == settings["devices"]
    state = trainer.initial_state()
    for _ in range(2):
        state, row = trainer.iterate(state)
    after.append((np.asarray(state.theta), row["return/mean"], row["steps"], state.obs.count))
way = np.linalg.norm(after[0][0] - trainer.initial_state().theta)
for theta, *facts in after[1:]:
    print(np.linalg.norm(theta - after[0][0]) / way)
    assert np.linalg.norm(theta - after[0][0]) < 2e-3 * way
    np.testing.assert_allclose(facts, after[0][1:], rtol=1e-4)
"""


@pytest.mark.slow
@pytest.mark.parametrize("method", ["es", "natural-cv"])
def test_two_devices_give_what_one_gives(method: str) -> None:
    """Two of XLA's host devices share five pairs; theta after two iterations to 2e-3 of the way."""
    from os import environ

    flags = {**environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    subprocess.run([sys.executable, "-c", TWO, method], env=flags, check=True, timeout=600)


def test_what_cannot_be_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="`devices=9` is more than JAX finds: 1"):
        Device(devices=9).validate()
    with pytest.raises(UsageError, match="`chunk=0` must be at least 1"):
        Device(chunk=0).validate()
    with pytest.raises(UsageError, match="'gym:CartPole-v1' does not run on `engine=device`: use `engine=cpu`"):
        Device().make(quell.tasks.get("CartPole-v1"), Problem(Policy(4, 2), Gaussian(), 0), members=2)


def test_a_full_device_is_said_to_be() -> None:
    config = make_config("lqr", "es", overrides=SHORT)
    for chunk, said in ((None, "`chunk=1024`"), (64, "`chunk=32`")):
        trainer = Trainer(config, Device(chunk=chunk))

        def full(*_: Any) -> Any:
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 1 bytes.")

        trainer.engine._compile = full  # type: ignore[attr-defined]
        device_engine.PROGRAMS.clear()
        with pytest.raises(EngineFailure, match=f"the device is out of memory: {said}"):
            trainer.iterate(trainer.initial_state())


def test_no_accelerator_is_noted() -> None:
    told = list[str]()
    trainer = Trainer(make_config("lqr", "es", overrides={**SHORT, "pairs": 2}), Device())
    trainer.engine.tell = told.append
    device_engine.PROGRAMS.clear()
    trainer.iterate(trainer.initial_state())
    assert told[0] == device_engine.NO_ACCELERATOR
    assert told[1].startswith("compiling the iteration")
    assert told[2].startswith("compiled the iteration in")
