"""What says that it is traceable runs inside a compiled program too, and comes to the same as with NumPy."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import Collector
from linear_gaussian import POLICY as SMALL
from linear_gaussian import THETA as SMALL_THETA
from linear_gaussian import LinearGaussian
from strategies import all_of, directions_for, estimators, label, sampled

from quell import registry
from quell.estimate import Estimate, Rows, estimate
from quell.estimate.reduce import pair_of, sum_inside
from quell.perturb.gaussian import Gaussian
from quell.perturb.gcmc import Gcmc
from quell.perturb.orthogonal import Orthogonal
from quell.policy import Policy
from quell.training.methods import make_config
from quell.types import Batch, Episodes, Rollouts, State, Sums, Trajectories
from quell.update import Context
from quell.update.natural import Natural

POLICY = Policy(5, 2, hidden=(8,), activation="tanh", init_std=0.5)
RNG = np.random.default_rng(0)
THETA = POLICY.init(RNG)
GRADIENTS = RNG.standard_normal((3, POLICY.dim)).astype(np.float32)
STATES = RNG.standard_normal((64, 5)).astype(np.float32)
STEPS = [step for step in all_of("step") if step.traceable]


def test_adam_sgd_and_natural_steps_can_be_traced() -> None:
    assert {registry.name_of(step) for step in STEPS} >= {"adam", "sgd", "natural"}


def as_jax(tree: Any) -> Any:
    return jax.tree.map(jnp.asarray, tree)


@pytest.mark.parametrize("schedule", ["constant", "linear"])
@pytest.mark.parametrize("step", STEPS, ids=label)
def test_a_step_is_the_same_inside_a_compiled_program(step: Any, schedule: str) -> None:
    """Three steps, each from the one before; single precision against double: 1e-3 of the way that theta goes. The
    second call with the same shapes compiles nothing."""
    step = registry.replace(step, {"schedule": schedule})
    compiled = 0

    def one(theta: Any, gradient: Any, state: Any, spent: Any, states: Any) -> Any:
        nonlocal compiled
        compiled += 1
        context = Context(POLICY, spent, 1000, theta, states if step.states else None)
        moved, state, facts = step.step(theta, gradient, state, context)
        return moved, state, {name: jnp.asarray(value) for name, value in facts.items()}

    traced = jax.jit(one)
    theta, state = THETA, step.init(POLICY, THETA)
    other, other_state = jnp.asarray(THETA), as_jax(state)
    for number, gradient in enumerate(GRADIENTS):
        context = Context(POLICY, 100 * number, 1000, theta, STATES if step.states else None)
        moved, state, facts = step.step(theta, gradient, state, context)
        other, other_state, other_facts = traced(other, gradient, other_state, 100 * number, STATES)
        way = float(np.linalg.norm(moved - theta))
        assert way > 0
        assert np.linalg.norm(np.asarray(other) - moved) < 1e-3 * way * (number + 1)
        assert facts.keys() == other_facts.keys()
        assert {name: float(v) for name, v in facts.items()} == pytest.approx(
            {name: float(v) for name, v in other_facts.items()}, rel=5e-3, abs=1e-6
        )
        theta = moved
    assert compiled == 1


TRACEABLE = [estimator for estimator in estimators() if estimator.needs.traceable]
PLAIN = [Gaussian(sigma=0.3), Orthogonal(sigma=0.3), Gcmc(sigma=0.3)]
RANDOM = ("critic.", "phi")
"""What an estimator remembers that hangs on random numbers of its own: a compiled program draws others."""
PAIRS = 6


def test_the_estimators_of_the_methods_can_be_traced() -> None:
    methods = ["es", "ars", "cv", "natural-cv", "trpo"]
    assert all(make_config("lqr", method).estimator.needs.traceable for method in methods)


class Traced:
    """An estimator on the closed-form task, with NumPy and as one compiled program of all that it is told."""

    def __init__(self, estimator: Any, directions: Any) -> None:
        self.estimator, self.data = estimator, Collector(LinearGaussian(), SMALL, pairs=PAIRS, directions=directions)
        self.step, self.compiled = Natural(), 0
        self.state, self.learned = estimator.init(self.data.problem), self.step.init(SMALL, SMALL_THETA)
        self.program = jax.jit(self._whole)

    def batch(self, iteration: int) -> Batch:
        """One of its pairs has a reward that is no number."""
        metric = self.step.metric(SMALL, self.learned)
        batch = dataclasses.replace(self.data.batch(SMALL_THETA, iteration), metric=metric)
        batch.rollouts.rewards[2, 1] = np.nan
        return batch

    def with_numpy(self, batch: Batch) -> Estimate:
        return estimate(self.estimator, self.data.problem, batch, self.state, total=self.data.total)

    def in_a_program(self, batch: Batch) -> tuple[Any, State, dict[str, Any], Any]:
        rollouts, problem = batch.rollouts, self.data.problem
        eps = np.array([pair_of(problem, batch.episodes, rollouts, pair).eps for pair in range(PAIRS)])
        made = {"rewards": rollouts.rewards, "steps": rollouts.steps, "terminated": rollouts.terminated}
        told = as_jax({**made, **vars(rollouts.trajectories)})
        found: tuple[Any, State, dict[str, Any], Any] = self.program(
            told, as_jax(self.state), as_jax(self.learned), eps, batch.episodes.iteration, SMALL_THETA
        )
        return found

    def _whole(self, told: Any, state: Any, learned: Any, eps: Any, iteration: Any, theta: Any) -> Any:
        self.compiled += 1
        episodes = dataclasses.replace(Episodes.of_pairs(0, PAIRS, record=True), iteration=iteration)
        paths = Trajectories(told["obs"], told["actions"])
        rollouts = Rollouts(told["rewards"], told["steps"], told["terminated"], paths, np.zeros((2 * PAIRS, 2, 1)))
        batch = Batch(theta, episodes, rollouts, self.step.metric(SMALL, learned))
        pairs = {"eps": eps, "steps": told["steps"].reshape(PAIRS, 2)}
        pairs |= {name: value.reshape(PAIRS, 2, *value.shape[1:]) for name, value in vars(paths).items()}
        problem, sigma = self.data.problem, self.data.problem.directions.sigma

        def total(estimator: Any, _: Batch, rows: Rows, theta: Any) -> Sums:
            return sum_inside(estimator, problem, pairs, rows, theta, sigma)

        found = estimate(self.estimator, problem, batch, state, total=total)
        gains = None if found.caution.surrogate is None else found.caution.surrogate(theta + 0.01)
        return found.gradient, found.state, found.metrics, gains


def cases() -> Iterator[Any]:
    """Every estimator with Gaussian directions, and those that need no trajectories with others too."""
    for case in sampled(TRACEABLE):
        (estimator,) = case.values
        several = estimator.needs.perturbed and not estimator.needs.trajectories
        for directions in PLAIN if several else [directions_for(estimator)]:
            yield pytest.param(estimator, directions, marks=case.marks, id=f"{label(estimator)}-{label(directions)}")


@pytest.mark.parametrize(("estimator", "directions"), list(cases()))
def test_an_estimate_is_the_same_inside_a_compiled_program(estimator: Any, directions: Any) -> None:
    """prepare, the terms of all pairs at once, and combine in one program, against NumPy, each from the same state:
    1e-4 of the gradient's norm, 1e-3 of every metric and of what it remembers. The later batches compile nothing."""
    traced = Traced(estimator, directions)
    for iteration in range(3):
        batch = traced.batch(iteration)
        found = traced.with_numpy(batch)
        gradient, state, metrics, gains = traced.in_a_program(batch)
        error = np.linalg.norm(np.asarray(gradient) - found.gradient)
        assert error < 1e-4 * np.linalg.norm(found.gradient)
        assert np.linalg.norm(found.gradient) > 0
        assert same(metrics) == pytest.approx(same(found.metrics), rel=1e-3, abs=1e-5, nan_ok=True)
        if (surrogate := found.caution.surrogate) is not None:
            assert float(gains) == pytest.approx(surrogate(SMALL_THETA + np.float32(0.01)), rel=1e-3, abs=1e-5)
        assert state.keys() == found.state.keys()
        for name, value in found.state.items():
            assert np.shape(state[name]) == np.shape(value), name
            if not name.startswith(RANDOM):
                scale = np.abs(value).max(initial=1e-6)
                np.testing.assert_allclose(np.asarray(state[name]), value, rtol=1e-3, atol=1e-3 * scale, err_msg=name)
        traced.state = found.state
        context = Context(SMALL, 0, 1000, SMALL_THETA, np.ones((8, 1), np.float32))
        _, traced.learned, _ = traced.step.step(SMALL_THETA, found.gradient, traced.learned, context)
    assert traced.compiled == 1


def same(metrics: dict[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in metrics.items()}


def test_a_critic_is_trained_the_same_way_inside_a_compiled_program() -> None:
    """The rows that it keeps are the same; its weights, trained on other minibatches of them, predict as well."""
    traced = Traced(make_config("lqr", "trpo").estimator, directions_for(make_config("lqr", "trpo").estimator))
    for iteration in range(3):
        batch = traced.batch(iteration)
        found = traced.with_numpy(batch).state
        _, state, _, _ = traced.in_a_program(batch)
        for name in ("seen", "target", "centre", "spread", "batches", "time"):
            np.testing.assert_allclose(
                np.asarray(state[f"critic.{name}"]), found[f"critic.{name}"], rtol=1e-4, atol=1e-4
            )
        moved = [np.linalg.norm(np.asarray(one["critic.w1"]) - traced.state["critic.w1"]) for one in (state, found)]
        assert moved[0] == pytest.approx(moved[1], rel=0.2)
        traced.state = found
