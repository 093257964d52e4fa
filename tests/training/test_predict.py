"""A policy as Stable-Baselines3 calls it, on environments of ours and of others."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import quell
from quell.errors import UsageError

ZOO = "zoo:gym:CartPole-v1"


class VectorOf:
    """As much of Stable-Baselines3's VecEnv as its `evaluate_policy` uses: environments that begin anew."""

    def __init__(self, make: Any, count: int) -> None:
        self.envs = [make() for _ in range(count)]
        self.num_envs = count

    def reset(self) -> Any:
        return self._stacked([env.reset(seed=i)[0] for i, env in enumerate(self.envs)])

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray]:
        assert len(actions) == self.num_envs
        told = [env.step(action) for env, action in zip(self.envs, actions, strict=True)]
        dones = [ended or cut for _, _, ended, cut, _ in told]
        obs = [env.reset()[0] if done else row[0] for env, row, done in zip(self.envs, told, dones, strict=True)]
        return self._stacked(obs), np.array([row[1] for row in told]), np.array(dones)

    @staticmethod
    def _stacked(rows: list[Any]) -> Any:
        if isinstance(rows[0], dict):
            return {name: np.stack([row[name] for row in rows]) for name in rows[0]}
        return np.stack(rows)


def mean_return(policy: Any, env: VectorOf, episodes: int, *, deterministic: bool) -> float:
    """What evaluate_policy does: it never looks at anything but `predict`."""
    obs, state, start = env.reset(), None, np.ones(env.num_envs, bool)
    running = np.zeros(env.num_envs)
    ended: list[float] = []
    while len(ended) < episodes:
        actions, state = policy.predict(obs, state=state, episode_start=start, deterministic=deterministic)
        obs, rewards, start = env.step(actions)
        running += rewards
        ended += running[start].tolist()
        running[start] = 0.0
    return float(np.mean(ended))


def test_a_policy_plays_where_predict_is_all_that_is_asked() -> None:
    policy = quell.load(ZOO).policy
    env = VectorOf(lambda: gymnasium.make("CartPole-v1"), 3)
    assert mean_return(policy, env, 3, deterministic=True) == 500.0
    ours = quell.load("zoo:halfcheetah").policy
    assert mean_return(ours, VectorOf(lambda: gymnasium.make("HalfCheetah-v5"), 1), 1, deterministic=True) > 3000


def test_one_observation_or_many() -> None:
    policy = quell.load("zoo:swimmer").policy
    rows = np.random.default_rng(0).standard_normal((5, policy.task.obs_size))
    many, state = policy.predict(rows)
    assert state is None
    assert many.shape == (5, policy.task.action_size)
    for row, action in zip(rows, many, strict=True):
        np.testing.assert_array_equal(policy.predict(row)[0], action)
    np.testing.assert_array_equal(many, policy(rows))


def test_sampled_actions_are_repeatable() -> None:
    """Without a generator the policy has its own, which begins at 0; one that is given is used."""
    obs = np.zeros(8)
    drawn = [[quell.load("zoo:swimmer").policy.predict(obs, deterministic=False)[0] for _ in range(2)] for _ in "ab"]
    np.testing.assert_array_equal(drawn[0], drawn[1])
    policy = quell.load("zoo:swimmer").policy
    first, second = (policy.predict(obs, deterministic=False)[0] for _ in range(2))
    assert (first != second).any()
    given, own = np.random.default_rng(5), np.random.default_rng(5)
    np.testing.assert_array_equal(policy.predict(obs, deterministic=False, rng=given)[0], policy(obs, rng=own))


class Pointing(gymnasium.Env[Any, Any]):
    """Dictionaries of arrays and choices as observations."""

    observation_space: Any = gymnasium.spaces.Dict(
        {"at": gymnasium.spaces.Box(-1, 1, (2,)), "goal": gymnasium.spaces.Discrete(3)}
    )
    action_space: Any = gymnasium.spaces.Box(-1, 1, (1,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.t = 0
        return self._seen(), {}

    def _seen(self) -> dict[str, Any]:
        return {"at": self.np_random.uniform(-1, 1, 2).astype(np.float32), "goal": np.int64(self.np_random.integers(3))}

    def step(self, action: Any) -> Any:
        self.t += 1
        return self._seen(), float(action[0]), False, self.t >= 5, {}


@pytest.mark.usefixtures("in_process")
def test_dictionaries_of_many_observations(tmp_path: Path) -> None:
    small: dict[str, Any] = {"steps": 20, "pairs": 1, "horizon": 5, "eval_episodes": 1, "progress": False}
    policy = quell.train(Pointing, method="es", out=tmp_path, **small).policy
    rng = np.random.default_rng(0)
    rows: list[dict[str, Any]] = [
        {"at": rng.uniform(-1, 1, 2).astype(np.float32), "goal": int(rng.integers(3))} for _ in range(4)
    ]
    many = {"at": np.stack([row["at"] for row in rows]), "goal": np.array([row["goal"] for row in rows])}
    np.testing.assert_array_equal(policy.predict(many)[0], [policy.predict(row)[0] for row in rows])
    assert np.isfinite(mean_return(policy, VectorOf(Pointing, 2), 2, deterministic=False))


@pytest.mark.usefixtures("in_process")
def test_a_policy_is_evaluated_on_another_environment(tmp_path: Path) -> None:
    heavier = lambda: gymnasium.make("CartPole-v1", sutton_barto_reward=True)  # noqa: E731
    for given in (ZOO, quell.load(ZOO), quell.load(ZOO).policy):
        assert quell.evaluate(given, env=heavier, episodes=1).returns.tolist() == [0.0]
        assert quell.evaluate(given, env="gym:CartPole-v1", episodes=1).returns.tolist() == [500.0]
    with pytest.raises(UsageError, match=r"has observations of 3 numbers, and a policy of gym:CartPole-v1 needs .* 4 "):
        quell.evaluate(ZOO, env="gym:Pendulum-v1")
    with pytest.raises(UsageError, match="has a choice of 3, and a policy of gym:CartPole-v1 needs a choice of 2"):
        quell.load(ZOO).policy.on(
            lambda: gymnasium.wrappers.TransformAction(  # what has another number of choices
                gymnasium.make("CartPole-v1"), int, gymnasium.spaces.Discrete(3)
            )
        )
    small: dict[str, Any] = {"steps": 20, "pairs": 1, "horizon": 5, "eval_episodes": 1, "progress": False}
    own = quell.train(Pointing, method="es", out=tmp_path, **small)
    expected = quell.evaluate(own, episodes=2).returns
    np.testing.assert_array_equal(quell.evaluate(own.path, env=Pointing, episodes=2).returns, expected)


@pytest.mark.usefixtures("in_process")
def test_a_result_is_three_lines_and_a_picture(tmp_path: Path) -> None:
    small: dict[str, Any] = {"steps": 60, "pairs": 1, "horizon": 10, "eval_episodes": 1, "progress": False}
    result = quell.train("lqr-302", method="es", out=tmp_path, **small)
    who, reached, where = repr(result).splitlines()
    assert who == "lqr-302  es  seed 0: 60 steps, 3 iterations"
    assert reached.startswith("return ")
    assert "mean action; best " in reached
    assert where.endswith(str(result.path))
    assert repr(result.policy) == f"<policy of lqr-302: gaussian, 3 x 32 x 32 x 3, {len(result.theta):,} parameters>"
    shown = result._repr_html_()
    assert "<b>lqr-302  es" in shown
    assert shown.count("<polyline") == 2
    hostile = dataclasses.replace(result, path=Path("/<script>"))
    assert "<script>" not in hostile._repr_html_()


@pytest.mark.filterwarnings("default")
def test_stable_baselines3_itself_evaluates_a_policy() -> None:
    """Where it is installed (CONTRIBUTING.md: before a release); results/habits records what came of it there."""
    evaluation = pytest.importorskip("stable_baselines3.common.evaluation")
    policy = quell.load(ZOO).policy
    assert evaluation.evaluate_policy(policy, gymnasium.make("CartPole-v1"), n_eval_episodes=2)[0] == 500.0


def test_the_environment_may_be_named_as_evaluate_policy_takes_it() -> None:
    """Second, without its name; and what train returned stands for its folder."""
    result = quell.load(ZOO)
    assert quell.evaluate(result, gymnasium.make("CartPole-v1"), episodes=1).returns.tolist() == [500.0]
    np.testing.assert_array_equal(quell.load(result).theta, result.theta)
    with pytest.raises(UsageError, match="can be played, not resumed"):
        quell.resume(ZOO)
