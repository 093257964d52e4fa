"""MuJoCo's profiling clock: gone while asked, back afterwards, and no part of the physics."""

import mujoco
import numpy as np

import quell
from quell.tasks.mujoco import without_clock


def walk(steps: int) -> tuple[np.ndarray, float]:
    """The state after `steps` steps, and the seconds MuJoCo says they took."""
    task = quell.task("halfcheetah")
    model = task.model()
    data = mujoco.MjData(model)
    for action in np.random.default_rng(0).standard_normal((steps, model.nu)):
        data.ctrl[:] = action
        task.advance(model, data)
    return np.concatenate([data.qpos, data.qvel]), float(data.timer[mujoco.mjtTimer.mjTIMER_STEP].duration)


def test_physics_is_the_same_without_its_clock():
    timed, seconds = walk(50)
    assert seconds > 0
    with without_clock():
        untimed, none = walk(50)
    assert none == 0  # else nothing was switched off, and steps cost up to half as much again
    np.testing.assert_array_equal(timed, untimed)
    assert walk(1)[1] > 0
