"""Films of policies, rendered off screen."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quell.api import Result
from quell.errors import QuellError, UsageError
from quell.keys import Purpose, generator
from quell.policy.act import to_environment

RENDERERS = ("egl", "osmesa")
WHAT_TO_INSTALL = (
    "no off-screen renderer works; on Debian or Ubuntu: apt-get install libegl1 libgl1-mesa-dri (MUJOCO_GL=egl) "
    "or libosmesa6 (MUJOCO_GL=osmesa)"
)
PROBE = """
import mujoco
model = mujoco.MjModel.from_xml_string("<mujoco><worldbody><geom size='.1'/></worldbody></mujoco>")
data = mujoco.MjData(model)
with mujoco.Renderer(model, 16, 16) as renderer:
    mujoco.mj_forward(model, data)
    renderer.update_scene(data)
    assert renderer.render().shape == (16, 16, 3)
"""


def working_renderer() -> str:
    """The first renderer that draws, tried in another process because a broken driver can abort."""
    for renderer in RENDERERS:
        environment = {**os.environ, "MUJOCO_GL": renderer}
        if subprocess.run([sys.executable, "-P", "-c", PROBE], env=environment, capture_output=True).returncode == 0:
            return renderer
    raise QuellError(WHAT_TO_INSTALL)


def film(
    result: Result,
    path: Path,
    *,
    seed: int = 0,
    sample: bool = False,
    size: tuple[int, int] = (480, 360),
    seconds: float = 10,
) -> float:
    """Write the first `seconds` (simulated time) of an episode to an mp4 or gif; returns the whole episode's return."""
    task = result.task
    simulator = task.simulator(1)
    picture = getattr(simulator, "picture", None)
    if picture is None:
        raise UsageError(f"task {task.name!r} has nothing to show: it has no pictures")
    speed = simulator.steps_per_second  # type: ignore[attr-defined]
    every = max(1, round(speed / 25))  # about 25 pictures per second
    rng = generator(seed, Purpose.EVAL_ACTION, 0) if sample else None
    obs = simulator.reset([generator(seed, Purpose.EVAL_ENVIRONMENT, 0)])
    bounded = to_environment(result.policy.policy, getattr(simulator, "bounds", None)) or (lambda actions: actions)
    active, frames, total = np.ones(1, bool), [], 0.0
    for t in range(task.horizon):
        if t % every == 0 and t < seconds * speed:
            frames.append(_draw(picture, size))
        action = result.policy.draw(obs, rng)
        obs, reward, ended = simulator.step(bounded(action), active)
        total += float(reward[0])
        if ended[0]:
            break
    _write(path, frames, speed / every)
    return total


def _draw(picture: Any, size: tuple[int, int]) -> NDArray[np.uint8]:
    try:
        return np.asarray(picture(*size))
    except Exception as error:
        chosen = os.environ.get("MUJOCO_GL", "its default renderer")
        raise QuellError(f"drawing failed with {chosen} ({error}): {WHAT_TO_INSTALL}") from error


def _write(path: Path, frames: list[NDArray[np.uint8]], fps: float) -> None:
    import imageio.v3 as imageio

    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".gif":
        imageio.imwrite(path, np.stack(frames), duration=1000 / fps, loop=0)
    else:
        imageio.imwrite(path, np.stack(frames), fps=fps, codec="libx264", macro_block_size=2)
