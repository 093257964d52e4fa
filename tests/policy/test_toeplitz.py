"""Policies with Toeplitz matrices: the same as a full network with those, and what a natural step makes of them."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.linalg import toeplitz

import quell
from quell.perturb.fisher import Fisher
from quell.policy import ToeplitzPolicy
from quell.policy.act import actor
from quell.policy.fisher import Metric, factors
from quell.policy.likelihood import policy_change
from quell.policy.network import Policy
from quell.types import Array

TASK = quell.task("halfcheetah")
POLICY = ToeplitzPolicy(hidden=(8, 5), activation="tanh", init_std=0.4).make(TASK)
OBS = np.random.default_rng(1).standard_normal((40, TASK.obs_size)).astype(np.float32)


def full(theta: Array) -> tuple[Policy, Array]:
    """The network whose weights are those matrices."""
    parts, sizes = POLICY.unflatten(theta), (17, 8, 5, 6)
    arrays = []
    for i, (n, m) in enumerate(itertools.pairwise(sizes)):
        t = parts[f"t{i}"]
        arrays += [toeplitz(t[m - 1 :], t[m - 1 :: -1]).ravel(), parts[f"b{i}"]]
        assert arrays[-2].size == n * m
    made = np.concatenate([*arrays, parts["log_std"]]).astype(np.float32)
    return Policy(17, 6, hidden=(8, 5), activation="tanh", init_std=0.4), made


def test_it_is_a_network_with_those_matrices() -> None:
    theta = POLICY.init(np.random.default_rng(0))
    assert POLICY.dim == 24 + 8 + 12 + 5 + 10 + 6 + 6
    policy, made = full(theta)
    own = actor(POLICY, np.stack([theta] * 40), mean_action=True)(OBS, np.zeros((1, 1), np.float32))
    other = actor(policy, np.stack([made] * 40), mean_action=True)(OBS, np.zeros((1, 1), np.float32))
    np.testing.assert_allclose(own, other, rtol=2e-5, atol=1e-6)


def test_two_layers_of_32_have_a_few_hundred_parameters() -> None:
    assert ToeplitzPolicy(learn_std=False).make(TASK).dim == 48 + 32 + 63 + 32 + 37 + 6
    assert ToeplitzPolicy(hidden=()).make(TASK).dim == 22 + 6 + 6


def test_its_metric_is_the_whole_fisher_matrix() -> None:
    """v' F v from the decomposed sums is |A v|^2 from the policy's own change, whatever the direction."""
    theta = POLICY.init(np.random.default_rng(2))
    metric = Metric.of(POLICY, factors(POLICY)(theta.astype(np.float64), OBS), damping=0.0)
    vectors = np.random.default_rng(3).standard_normal((5, POLICY.dim)).astype(np.float32)
    moved = np.asarray(policy_change(POLICY)(theta, OBS, vectors), np.float64)  # type: ignore[arg-type]
    expected = np.square(moved).sum(axis=1)
    assert np.square(metric.apply(vectors, 0.5)).sum(axis=1) == pytest.approx(expected, rel=1e-3)


def test_it_takes_natural_steps_and_shaped_directions_and_can_be_loaded(tmp_path: Path, in_process: None) -> None:
    settings: dict[str, Any] = {
        "estimator.coefficients": "mse",
        "directions": Fisher(nats=0.5),
        "horizon": 50,
        "steps": 1500,
    }
    run = quell.train(
        "halfcheetah", policy=ToeplitzPolicy(hidden=(8,)), out=tmp_path, progress=False, batch_steps=300, **settings
    )
    assert sum(row["update/kl"] > 0 for row in run.history) >= 3
    again = quell.load(run.path)
    assert isinstance(again.config.policy, ToeplitzPolicy)
    assert np.array_equal(again.theta, run.theta)
