"""gym:, envpool: and users' own environments: flattening, seeds, ends, and every way to fail."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import cloudpickle
import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import quell
from quell import tasks
from quell.errors import EnvironmentFailure, MissingExtra, UsageError
from quell.tasks.foreign.gym import from_env, trusted
from quell.tasks.foreign.spaces import ActionReader, observation_filler
from quell.training.methods import make_config

sys.path.insert(0, str(Path(__file__).parent))

import user_envs  # as if next to the user's script


def generators(seeds):
    return [np.random.default_rng(seed) for seed in seeds]


def actions_for(task, steps, members, seed=0):
    rng = np.random.default_rng(seed)
    if task.discrete:
        return rng.integers(task.action_size, size=(steps, members, 1)).astype(np.float32)
    return rng.uniform(-1, 1, (steps, members, task.action_size)).astype(np.float32)


def episodes(task, seeds, actions):
    """(observations, rewards, lengths, terminated), zero after each member's end."""
    count, simulator = len(seeds), task.simulator(len(seeds))
    observations = np.zeros((len(actions) + 1, count, task.obs_size))
    rewards, active = np.zeros((len(actions), count)), np.ones(count, bool)
    lengths, ended = np.zeros(count, int), np.zeros(count, bool)
    observations[0] = simulator.reset(generators(seeds))
    for t, action in enumerate(actions):
        observation, reward, terminated = simulator.step(action, active)
        observations[t + 1, active], rewards[t, active] = observation[active], reward[active]
        lengths += active
        ended |= active & terminated
        active &= ~(terminated | simulator.truncated)
    return observations, rewards, lengths, ended


NAMES = [
    "gym:CartPole-v1",
    "gym:Pendulum-v1",
    "gym:LunarLander-v3",
    "envpool:CartPole-v1",
    "envpool:CheetahRun-v1",
    "bipedalwalker",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_member_depends_on_its_generator_alone(name):
    if name == "gym:LunarLander-v3":
        pytest.importorskip("pygame", reason="gymnasium's Box2D environments import it")
    task = tasks.get(name, horizon=60)
    actions = actions_for(task, 60, 4)
    first = episodes(task, range(4), actions)
    again = episodes(task, range(4), actions)
    fewer = episodes(task, [3, 1], actions[:, [3, 1]])
    other = episodes(task, range(4, 8), actions)
    for whole, same, part in zip(first, again, fewer, strict=True):
        np.testing.assert_array_equal(whole, same)
        np.testing.assert_array_equal(whole[..., [3, 1], :] if whole.ndim == 3 else whole[..., [3, 1]], part)
    assert (first[0][0] != other[0][0]).any(axis=1).all()
    assert np.isfinite(first[0]).all()


@pytest.mark.parametrize("name", ["gym:CartPole-v1", "envpool:CartPole-v1", "bipedalwalker"])
def test_a_used_simulator_starts_afresh(name):
    task = tasks.get(name, horizon=40)
    actions = actions_for(task, 40, 2)
    simulator = task.simulator(3)
    simulator.reset(generators([8, 9, 10]))
    for action in actions_for(task, 40, 3, seed=1):
        simulator.step(action, np.ones(3, bool))
    observation = simulator.reset(generators([0, 1])).copy()
    expected = episodes(task, [0, 1], actions)[0]
    np.testing.assert_array_equal(observation, expected[0])
    np.testing.assert_array_equal(simulator.step(actions[0], np.ones(2, bool))[0], expected[1])


def test_gym_steps_are_those_of_gymnasium():
    task = tasks.get("gym:Pendulum-v1")
    assert (task.name, task.obs_size, task.action_size, task.horizon) == ("gym:Pendulum-v1", 3, 1, 200)
    actions = 4 * actions_for(task, 30, 1)  # beyond the bounds of +-2: clipped
    observations, rewards, *_ = episodes(task, [5], actions)
    env = gymnasium.make("Pendulum-v1")
    expected, _ = env.reset(seed=int(np.random.default_rng(5).integers(2**31 - 1)))
    np.testing.assert_array_equal(observations[0, 0], expected)
    for t, action in enumerate(actions):
        expected, reward, *_ = env.step(np.clip(action[0], -2, 2))
        np.testing.assert_array_equal(observations[t + 1, 0], expected)
        assert rewards[t, 0] == reward


def test_cartpole_ends_terminated_and_at_its_own_limit_or_ours():
    task = tasks.get("gym:CartPole-v1")
    assert task.discrete
    assert (task.action_size, task.horizon, task.can_terminate) == (2, 500, True)
    always_left = np.zeros((30, 3, 1), np.float32)
    _, rewards, lengths, terminated = episodes(task, range(3), always_left)
    assert terminated.all()
    assert (lengths < 15).all()
    np.testing.assert_array_equal(rewards.sum(axis=0), lengths)
    assert tasks.get("gym:CartPole-v1", horizon=700).horizon == 700
    assert tasks.get("envpool:CartPole-v1").horizon == 500


def test_keywords_reach_the_environment():
    assert tasks.get("gym:Pendulum-v1", g=1.0).source.kwargs == (("g", 1.0),)  # type: ignore[attr-defined]
    gentle = episodes(tasks.get("gym:Pendulum-v1", g=1.0), [0], np.zeros((5, 1, 1), np.float32))
    usual = episodes(tasks.get("gym:Pendulum-v1"), [0], np.zeros((5, 1, 1), np.float32))
    np.testing.assert_array_equal(gentle[0][0], usual[0][0])
    assert not np.array_equal(gentle[0], usual[0])
    with pytest.raises(UsageError, match="gravity"):
        tasks.get("gym:Pendulum-v1", gravity=1.0)


def test_bipedalwalker_starts_above_flat_ground_with_a_random_push():
    task = tasks.get("bipedalwalker")
    assert (task.obs_size, task.action_size, task.horizon) == (24, 4, 1600)
    observations, _, lengths, _ = episodes(task, range(40), np.zeros((20, 40, 4), np.float32))
    assert (lengths == 20).all()
    np.testing.assert_allclose(observations[0, :, 14], 0.4408, atol=1e-3)  # lidar straight down from the hull
    pushed = observations[0, :, 2]
    assert len(set(pushed.tolist())) == 40
    assert abs(pushed.mean()) < 5 * pushed.std() / np.sqrt(40)


def test_bipedalwalker_moves_like_gymnasiums():
    """From the same first push, on the flat start, before terrain can matter."""
    pytest.importorskip("pygame", reason="gymnasium's Box2D environments import it")
    actions = np.random.default_rng(1).uniform(-1, 1, (40, 1, 4)).astype(np.float32)
    ours, our_rewards, *_ = episodes(tasks.get("bipedalwalker"), [5], actions)

    class Pushed:
        """The environment's generator, but for the push."""

        def __init__(self, generator, push):
            self.generator, self.push = generator, push

        def uniform(self, low, high):
            return self.push if (low, high) == (-5, 5) else self.generator.uniform(low, high)

        def __getattr__(self, name):
            return getattr(self.generator, name)

    def theirs(push):
        env = tasks.get("gym:BipedalWalker-v3").source.make().unwrapped  # type: ignore[attr-defined]
        env.reset(seed=0)
        env.np_random = Pushed(env.np_random, push)
        first, _ = env.reset()
        return env, first

    at_rest, unit = theirs(0.0)[1][2], theirs(1.0)[1][2]
    env, first = theirs(float((ours[0, 0, 2] - at_rest) / (unit - at_rest)))
    np.testing.assert_allclose(first[:14], ours[0, 0, :14], atol=1e-3)
    for t, action in enumerate(actions):
        observation, reward, *_ = env.step(action[0])
        np.testing.assert_allclose(observation[:14], ours[t + 1, 0, :14], atol=3e-3)
        assert reward == pytest.approx(our_rewards[t, 0], abs=1e-3)


def test_observations_flatten_in_the_order_of_the_space():
    task = from_env(user_envs.make_toy)
    assert task.name == "user_envs:make_toy"
    assert (task.obs_size, task.action_size, task.discrete, task.horizon) == (3 + 4 + 2 + 3 + 2, 2, False, 50)
    observation = task.simulator(1).reset(generators([0]))[0]
    keys = list(user_envs.Toy().observation_space.spaces)
    parts: dict[str, list[Any]] = {"alpha": [1, 2, 3, None, 0, 1, 0, 0, 1], "bits": [1, 0], "zeta": [0, 0, 1]}
    start = observation[sum(len(parts[key]) for key in keys[: keys.index("alpha")]) + 3]
    parts["alpha"][3] = start
    np.testing.assert_array_equal(observation, [value for key in keys for value in parts[key]])
    assert 0 < start < 1


def test_unknown_kinds_of_spaces_are_refused():
    with pytest.raises(UsageError, match="cannot be flattened"):
        observation_filler(spaces.Text(5))
    with pytest.raises(UsageError, match="only Box, Discrete, MultiDiscrete and MultiBinary"):
        from_env(user_envs.make_with_actions, horizon=5, kind="text")


def test_actions_are_clipped_cast_and_counted_from_the_start():
    reader = ActionReader(user_envs.Toy.action_space)
    given = reader(np.array([[-2, 1e6]], np.float32))
    assert given.dtype == np.float32
    np.testing.assert_array_equal(given, [[-0.5, 1e6]])  # the second has no upper bound
    whole = ActionReader(spaces.Box(-3, 3, (2, 1), np.int64))
    np.testing.assert_array_equal(whole(np.array([[0.6, -9]], np.float32)), [[[1], [-3]]])
    np.testing.assert_array_equal(ActionReader(spaces.Discrete(4, start=2))(np.array([[3.0]])), [5])


@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        ("raise", r"RuntimeError: the leg came off .*user_envs\.py:\d+ in step"),
        ("nan", "NaN or infinite at flat positions"),
        ("shape", r"shape \(1, 2\) where the space says \(2, 2\)"),
        ("key", "KeyError: 'bits'"),
        ("one-hot", "observation 7 outside"),
        ("reward", "TypeError"),
        ("old api", "step returned 4 values"),
    ],
)
def test_a_broken_environment_says_who_when_and_how_to_replay(trouble, said):
    task = from_env(user_envs.Toy, name="my toy", horizon=50, trouble=trouble)
    simulator = task.simulator(2)
    simulator.reset(generators([7, 8]))
    action, active = np.zeros((2, 2), np.float32), np.array([False, True])
    for _ in range(2):
        simulator.step(action, active)
    with pytest.raises(EnvironmentFailure, match=said) as failure:
        simulator.step(action, active)
    seed = int(np.random.default_rng(8).integers(2**31 - 1))
    message = str(failure.value)
    assert f"my toy, episode seed {seed}, at step 3:" in message
    assert (
        f"env = user_envs.Toy(trouble={trouble!r}); env.reset(seed={seed}), then the episode's first 3 actions"
        in message
    )
    assert str(pickle.loads(pickle.dumps(failure.value))) == message  # it crosses from a worker process


def test_a_broken_reset_is_named_too():
    simulator = from_env(user_envs.make_toy, trouble="reset").simulator(1)
    with pytest.raises(EnvironmentFailure, match="at reset: RuntimeError: no ground to stand on"):
        simulator.reset(generators([0]))


@pytest.mark.parametrize("name", ["gym", "envpool"])
def test_nan_actions_become_nan_rewards_and_touch_no_environment(name):
    task = from_env(user_envs.make_toy) if name == "gym" else tasks.get("envpool:CheetahRun-v1")
    simulator = task.simulator(2)
    simulator.reset(generators([0, 1]))
    actions = np.zeros((2, task.action_size), np.float32)
    actions[1, 0] = np.nan
    observation, reward, terminated = simulator.step(actions, np.ones(2, bool))
    assert np.isfinite(reward[0])
    assert np.isnan(reward[1])
    assert np.isfinite(observation).all()
    assert not terminated.any()
    np.testing.assert_array_equal(simulator.truncated, [False, True])  # type: ignore[attr-defined]


def test_nan_rewards_pass_and_truncation_is_not_termination():
    action = np.zeros((6, 1, 2), np.float32)
    for trouble, length, ended in [("nan reward", 6, False), ("truncate", 3, False), ("terminate", 3, True)]:
        _, rewards, lengths, terminated = episodes(from_env(user_envs.make_toy, trouble=trouble), [0], action)
        assert np.isnan(rewards[2, 0]) == (trouble == "nan reward")
        assert (lengths[0], terminated[0]) == (length, ended)


def test_after_its_end_an_environment_is_left_alone_even_if_the_engine_goes_on():
    simulator = from_env(user_envs.make_toy, trouble="truncate").simulator(1)
    simulator.reset(generators([0]))
    for _ in range(5):
        _, reward, _ = simulator.step(np.full((1, 2), 0.25, np.float32), np.ones(1, bool))
    assert reward[0] == 0
    assert len(simulator._envs[0].unwrapped.actions) == 3


def test_a_function_that_makes_no_environment_is_refused():
    with pytest.raises(UsageError, match=r"not a gymnasium\.Env"):
        from_env(user_envs.make_nothing, horizon=5)
    with pytest.raises(UsageError, match=r"lambda returned NoneType, not a gymnasium\.Env"):
        from_env(lambda: None, horizon=5, name="nothing")
    with pytest.raises(UsageError, match="got int"):
        from_env(5, horizon=5)
    with pytest.raises(UsageError, match="this one is already made"):
        from_env(user_envs.Toy(), horizon=5, colour="red")
    env = user_envs.Toy()
    env.lock = threading.Lock()
    with pytest.raises(UsageError, match=r"Toy cannot be sent to worker processes .* pass a function that makes it"):
        from_env(env, horizon=5)


def test_code_that_workers_cannot_import_is_sent_to_them():
    """A lambda, a function in a function, one of the script being run, an environment: all as the class itself."""

    def nested(trouble=""):
        return user_envs.Toy(trouble=trouble)

    script = type(sys)("__main__")
    exec("def make(trouble=''):\n    import user_envs\n    return user_envs.Toy(trouble=trouble)", script.__dict__)
    actions = actions_for(from_env(user_envs.Toy, horizon=20), 20, 3)
    expected = episodes(from_env(user_envs.Toy, horizon=20), range(3), actions)
    made = {"own:lambda": lambda: user_envs.Toy(), "own:nested": nested, "own:make": script.make}
    for name, env in {**made, "own:Toy": user_envs.Toy()}.items():
        task = cloudpickle.loads(cloudpickle.dumps(from_env(env, horizon=20)))
        assert task.name == name
        for ours, theirs in zip(episodes(task, range(3), actions), expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)
        with pytest.raises(UsageError, match=r"pass it again, as in quell.load\(path, env=make_env\), quell.resume"):
            tasks.get(name)
    with pytest.raises(EnvironmentFailure, match=r"env = nested\(trouble='raise'\); env.reset\(seed="):
        episodes(from_env(nested, horizon=20, trouble="raise"), [0], actions[:, :1])


def test_a_factory_that_raises_is_named():
    with pytest.raises(EnvironmentFailure, match=r"make_toy could not make .*TypeError.*'colour'.*user_envs"):
        from_env(user_envs.make_toy, colour="red")


def test_an_id_without_its_version_is_the_newest():
    with pytest.warns(UserWarning, match="the newest is used: gym:CartPole-v1") as said:
        found = [tasks.get("gym:CartPole") for _ in range(3)]
    assert len(said) == 1, "whoever asks again"
    assert {(task.name, task.horizon, task.original) for task in found} == {
        ("gym:CartPole-v1", 500, "gymnasium:CartPole-v1")
    }
    found[0].simulator(3).reset(generators([1, 2, 3]))  # would fail if Gymnasium said it again, for each


def test_an_id_with_its_version_needs_nothing_in_front():
    task = tasks.get("CartPole-v1", horizon=7)
    assert task == tasks.get("gym:CartPole-v1", horizon=7)
    assert make_config("CartPole-v1") == make_config("gym:CartPole-v1"), "one name in records, and one preset"
    with pytest.warns(
        UserWarning, match=r"Hopper-v5 is trained as quell's task 'hopper', .*; gym:Hopper-v5 is Gymnasium's"
    ):
        assert tasks.get("Hopper-v5", horizon=7) == tasks.get("hopper", horizon=7)
    assert tasks.get("Hopper-v5", frame_skip=8).name == "gym:Hopper-v5", "whose settings these are"
    with pytest.raises(UsageError, match=r"task 'hopper' has no setting 'frame_skip' \(gym:Hopper-v5 takes"):
        tasks.get("hopper", frame_skip=8)


def test_an_id_that_a_script_registered_is_known_to_its_workers(tmp_path, monkeypatch):
    monkeypatch.setattr(gymnasium.envs.registration, "registry", dict(gymnasium.registry))
    gymnasium.register("Mine-v0", entry_point=lambda: user_envs.Toy(), max_episode_steps=10)
    monkeypatch.setattr(gymnasium, "registry", gymnasium.envs.registration.registry)
    small: dict[str, Any] = {"steps": 20, "pairs": 1, "eval_episodes": 1, "workers": 1, "progress": False}
    assert quell.train("Mine-v0", method="es", out=tmp_path, **small).config.task == "gym:Mine-v0"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("CartPole", "did you mean 'gym:CartPole-v1'"),
        ("LunarLander-v2", "there are: gym:LunarLander-v3"),
        ("Pendulum-v9", "there are: gym:Pendulum-v1"),
        ("ALE/Pong-v5", "those of ALE/ are in a separate package.*--trust-import"),
        ("gym:ALE/Pong-v5", "those of ALE/ are in a separate package.*--trust-import"),
        ("Breakout-v4", "Gymnasium has no environment 'Breakout-v4'"),
        ("Hopper", "did you mean 'hopper'"),
        ("nope", "unknown task 'nope'; "),
    ],
)
def test_names_that_nothing_has(name, said):
    with pytest.raises(UsageError, match=said):
        tasks.get(name)


def test_a_warning_of_all_workers_is_shown_once(tmp_path):
    small: dict[str, Any] = {"steps": 20, "pairs": 2, "eval_episodes": 1, "horizon": 5, "workers": 2, "progress": False}
    with pytest.warns(UserWarning, match="made|begun") as said:
        quell.train(user_envs.Warns, method="es", out=tmp_path, **small)
    assert [str(warning.message) for warning in said] == ["made", "begun"]


@pytest.mark.parametrize("name", ["gym:CartPole-v1", "envpool:CartPole-v1"])
def test_the_length_of_an_episode_has_one_name(name):
    with pytest.raises(UsageError, match="`horizon`"):
        tasks.get(name, max_episode_steps=10)


def test_an_episode_needs_a_length():
    with pytest.raises(UsageError, match="horizon=1000"):
        from_env(user_envs.make_endless)
    assert from_env(user_envs.make_endless, horizon=7).horizon == 7
    with pytest.raises(UsageError, match="at least 1"):
        tasks.get("gym:CartPole-v1", horizon=0)


def test_an_environment_made_by_gymnasium_is_made_again_from_its_spec():
    env = gymnasium.make("Pendulum-v1", g=2.0)
    task = from_env(env)
    assert (task.name, task.horizon) == ("own:PendulumEnv", 200), "gym:Pendulum-v1 has another g"
    assert from_env(gymnasium.make("Pendulum-v1", render_mode="rgb_array")).name == "gym:Pendulum-v1"
    actions = actions_for(task, 5, 1)
    expected = episodes(tasks.get("gym:Pendulum-v1", g=2.0), [0], actions)
    for ours, theirs in zip(episodes(task, [0], actions), expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_tasks_travel_to_a_process_that_has_not_seen_the_module(tmp_path):
    task = from_env(user_envs.make_toy, name="my toy")
    file = tmp_path / "task"
    file.write_bytes(pickle.dumps(task))
    program = (
        "import pickle, sys, numpy; task = pickle.load(open(sys.argv[1], 'rb'));"
        "print(task.name, task.obs_size, task.simulator(1).reset([numpy.random.default_rng(0)]).tolist())"
    )
    told = subprocess.run(
        [sys.executable, "-c", program, str(file)], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    here = task.simulator(1).reset(generators([0])).tolist()
    assert told.stdout.strip() == f"my toy 14 {here}"


def test_sizes_travel_without_an_environment(monkeypatch):
    """A worker makes environments when it plays, not to learn what its task is."""
    ours, theirs = from_env(user_envs.make_toy, name="my toy"), tasks.get("envpool:CartPole-v1")
    texts = [pickle.dumps(task) for task in (ours, theirs)]
    monkeypatch.setattr("quell.tasks.foreign.gym.Source.make", None)
    monkeypatch.setattr("quell.tasks.foreign.envpool.describe", None)
    found = [pickle.loads(text) for text in texts]
    assert found == [ours, theirs]
    assert [(task.obs_size, task.action_size, task.horizon, task.discrete) for task in found] == [
        (14, 2, 50, False),
        (4, 2, 500, True),
    ]


def test_names_of_originals():
    assert tasks.get("gym:CartPole-v1").original == "gymnasium:CartPole-v1"
    assert tasks.get("envpool:CartPole-v1").original == "envpool:CartPole-v1"
    assert from_env(user_envs.make_toy).original is None


def test_trusted_imports_what_it_is_told_to(tmp_path, monkeypatch):
    (tmp_path / "walkers_of_mine.py").write_text(
        "import gymnasium\n\ndef make(g=10.0):\n    return gymnasium.make('Pendulum-v1', g=g)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    task = trusted("walkers_of_mine:make", g=3.0)
    assert (task.name, task.horizon) == ("walkers_of_mine:make", 200)
    for text, said in [
        ("walkers_of_mine", "module:function"),
        ("walkers_of_mine:nothing", "cannot import"),
        ("no_such_module_here:make", "cannot import"),
        ("walkers_of_mine:__name__", "not a function"),
    ]:
        with pytest.raises(UsageError, match=said):
            trusted(text)


def test_task_names_run_no_code(tmp_path, monkeypatch):
    (tmp_path / "evil_module_of_mine.py").write_text("raise SystemExit('ran')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UsageError, match="--trust-import"):
        tasks.get("gym:evil_module_of_mine:Env-v0")
    with pytest.raises(UsageError, match="unknown task"):
        tasks.get("evil_module_of_mine:make")


def test_unknown_ids_get_a_suggestion():
    with pytest.raises(UsageError, match=r"'CartPool-v1' \(did you mean 'CartPole-v1'\?\)"):
        tasks.get("gym:CartPool-v1")
    with pytest.raises(UsageError, match=r"did you mean 'CartPole-v1'"):
        tasks.get("envpool:CartPool-v1")


@pytest.mark.parametrize("name", ["envpool:CartPole-v1", "bipedalwalker"])
def test_a_missing_extra_is_said_at_once(name, monkeypatch):
    monkeypatch.setattr("quell.errors.find_spec", lambda module: None)
    with pytest.raises(MissingExtra, match=r"pip install 'quell\[envpool\]'"):
        tasks.get(name).simulator(1)
