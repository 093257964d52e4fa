"""What an engine relies on: members do not see each other, episodes leave no trace, functions run under JAX."""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from originals import CASES, Case, every_case

from quell import tasks
from quell.errors import MissingExtra, UsageError, installing
from quell.tasks import MujocoTask
from quell.tasks.base import PaysLater
from quell.tasks.mujoco import Member, load_model, without_clock

STEPS = 25
ISLANDS, CONTACTS = (int(getattr(mujoco.mjtDisableBit, f"mjDSBL_{stage}")) for stage in ("ISLAND", "CONTACT"))
TOUCHLESS = {"inverted-pendulum", "inverted-double-pendulum", "swimmer"}


def test_every_mujoco_task_is_covered() -> None:
    ours = {name for name in tasks.names() if isinstance(tasks.get(name), MujocoTask)}
    assert ours == {case.name for case in CASES}


@every_case
def test_members_do_not_see_each_other(case: Case) -> None:
    """Bit for bit the same episode alone, in a group, in a part-filled simulator, and beside a stopped member."""
    task = case.task()
    actions = _actions(task, members=9)  # more than a vector register holds
    together = _play(task, task.simulator(9), list(range(9)), actions)
    for member in (0, 5, 8):
        alone = _play(task, task.simulator(1), [member], actions[:, [member]])
        for name, values in alone.items():
            np.testing.assert_array_equal(values[:, 0], together[name][:, member], err_msg=name)
    partly = _play(task, task.simulator(5), [2, 0], actions[:, [2, 0]], stop=1)
    for name, values in partly.items():
        np.testing.assert_array_equal(values[:, 0], together[name][:, 2], err_msg=name)


@every_case
def test_an_episode_leaves_no_trace_in_the_next(case: Case) -> None:
    task = case.task()
    actions = _actions(task, members=1)
    used = task.simulator(1)
    _play(task, used, [5], actions)
    again = _play(task, used, [6], actions)
    fresh = _play(task, task.simulator(1), [6], actions)
    for name, values in again.items():
        np.testing.assert_array_equal(values, fresh[name], err_msg=name)


@every_case
def test_rewards_come_late_but_the_same(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bit for bit those of `step`, whether the history holds all steps or is emptied several times on the way."""
    task = case.task()
    actions = _actions(task, members=3).astype(np.float32)  # as a policy draws them
    expected = _play(task, task.simulator(3), [0, 1, 2], actions)
    for room in (STEPS + 1, STEPS, 7, 1):
        monkeypatch.setattr("quell.tasks.mujoco.HISTORY_STEPS", room)
        simulator: Any = task.simulator(3)
        assert isinstance(simulator, PaysLater)
        simulator.reset([np.random.default_rng(seed) for seed in range(3)])
        found = [[x.copy() for x in simulator.advance(action, np.ones(3, bool))] for action in actions[:11]]
        early = simulator.rewards().copy()  # asked for in between
        found += [[x.copy() for x in simulator.advance(action, np.ones(3, bool))] for action in actions[11:]]
        np.testing.assert_array_equal(np.concatenate([early, simulator.rewards()]), expected["reward"])
        np.testing.assert_array_equal([obs for obs, _ in found], expected["observation"][1:])
        np.testing.assert_array_equal([ended for _, ended in found], expected["terminated"])


@every_case
def test_stages_left_out_change_nothing(case: Case) -> None:
    """Physics as the model asks for it, and without the stages that quell switches off: the same, to the last bit."""
    task = case.task()

    def walk(model: Any) -> list[np.ndarray]:
        member, states = Member(task, model, mujoco.MjData(model)), []
        member.start(np.random.default_rng(0))
        for action in np.random.default_rng(1).standard_normal((4 * STEPS, model.nu)):
            member.data.ctrl[:] = action
            member.advance()
            states.append(np.concatenate([np.ravel(getattr(member.data, field)) for field in task.fields]))
        return states

    lean, whole = task.model(), task.model()
    assert lean.opt.disableflags & ISLANDS  # all our models are one tree
    assert case.name not in TOUCHLESS or lean.opt.disableflags & CONTACTS
    whole.opt.disableflags &= ~(ISLANDS | (CONTACTS if case.name in TOUCHLESS else 0))
    np.testing.assert_array_equal(walk(lean), walk(whole))


def test_a_model_keeps_the_stages_it_may_need() -> None:
    """Two bodies that may drift apart or touch: islands and contacts stay on."""
    body = "<body><freejoint/><geom size='1'/></body>"
    flags = load_model(f"<mujoco><worldbody>{body * 2}</worldbody></mujoco>").opt.disableflags
    assert not flags & (ISLANDS | CONTACTS)


def test_physics_is_the_same_without_its_clock() -> None:
    """MuJoCo's profiling clock is gone while asked, back afterwards, and no part of the physics."""

    def walk() -> tuple[np.ndarray, float]:
        task = tasks.get("halfcheetah")
        assert isinstance(task, MujocoTask)
        model = task.model()
        data = mujoco.MjData(model)
        advance = Member(task, model, data).advance
        for action in np.random.default_rng(0).standard_normal((STEPS, model.nu)):
            data.ctrl[:] = action
            advance()
        return np.concatenate([data.qpos, data.qvel]), float(data.timer[mujoco.mjtTimer.mjTIMER_STEP].duration)

    timed, seconds = walk()
    with without_clock():
        untimed, none = walk()
    assert seconds > 0 == none  # seconds without the clock would mean that nothing was gained
    np.testing.assert_array_equal(timed, untimed)
    assert walk()[1] > 0


@every_case
def test_functions_agree_under_jax(case: Case) -> None:
    """numpy and traced jax.numpy give the same initial state and, in real episodes, observation, reward and end."""
    task = case.task()
    simulator: Any = task.simulator(3)
    simulator.reset([np.random.default_rng(seed) for seed in range(3)])
    actions = _actions(task, members=3)
    draws = task.draw(simulator.models[0], np.random.default_rng(0))
    with jax.enable_x64(True):
        initial = jax.jit(lambda draws: task.initial(jnp, simulator.models[0], draws))
        for traced, plain in zip(initial(draws), task.initial(np, simulator.models[0], draws), strict=True):
            np.testing.assert_allclose(traced, plain, rtol=1e-13)
        observe = jax.jit(lambda state: task.observe(jnp, state))
        reward = jax.jit(lambda before, action, after, ended: task.reward(jnp, before, action, after, ended))
        terminated = jax.jit(lambda state: task.terminated(jnp, state))
        before = _state(task, simulator)
        for action in actions:
            observation, rewards, ended = (x.copy() for x in simulator.step(action, np.ones(3, bool)))
            after = _state(task, simulator)
            np.testing.assert_allclose(observe(after), observation, rtol=1e-13, atol=1e-13)
            np.testing.assert_allclose(reward(before, action, after, ended), rewards, rtol=1e-12, atol=1e-12)
            if task.can_terminate:
                np.testing.assert_array_equal(terminated(after), ended)
            before = after


def test_unknown_version_is_refused() -> None:
    with pytest.raises(UsageError, match="v5, v4"):
        tasks.get("walker2d", version="v3")


def test_missing_control_suite_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quell.errors.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=f"dm-hopper-hop.*{re.escape(installing('dm'))}"):
        tasks.get("dm-hopper-hop").simulator(1)


def test_escape_members_have_their_own_terrain() -> None:
    simulator: Any = tasks.get("dm-quadruped-escape").simulator(2)
    simulator.reset([np.random.default_rng(seed) for seed in range(2)])
    first, second = (model.hfield_data.copy() for model in simulator.models)
    assert np.abs(first - second).max() > 0.1
    simulator.reset([np.random.default_rng(seed) for seed in (1, 0)])
    np.testing.assert_array_equal(simulator.models[0].hfield_data, second)
    np.testing.assert_array_equal(simulator.models[1].hfield_data, first)


def _actions(task: MujocoTask, members: int) -> Any:
    low, high = task.model().actuator_ctrlrange.T
    return np.random.default_rng(0).uniform(low, high, (STEPS, members, task.action_size))


def _play(task: MujocoTask, simulator: Any, seeds: list[int], actions: Any, stop: int | None = None) -> Any:
    """Everything a simulator returns over some steps; member `stop` is inactive from the fifth step on."""
    first = simulator.reset([np.random.default_rng(seed) for seed in seeds])
    record: dict[str, list[Any]] = {"observation": [first.copy()], "reward": [], "terminated": []}
    active = np.ones(len(seeds), bool)
    for t, action in enumerate(actions):
        if stop is not None and t == 4:
            active[stop] = False
        for name, value in zip(record, simulator.step(action, active), strict=True):
            record[name].append(value.copy())
    return {name: np.array(values) for name, values in record.items()}


def _state(task: MujocoTask, simulator: Any) -> Any:
    return {field: np.array([getattr(data, field) for data in simulator.data]) for field in task.fields}
