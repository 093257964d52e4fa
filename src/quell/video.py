"""Films of policies, rendered off screen."""

import importlib
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from quell.api import Result
from quell.config import check_file
from quell.errors import MissingExtra, QuellError, UsageError, naming, require
from quell.keys import Purpose, generator
from quell.policy.act import to_environment
from quell.registry import whole
from quell.tasks.base import Task
from quell.types import Array

Size = tuple[int, int]  # width and height, in pixels
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


def check_film(path: Path) -> Path:
    """Raise UsageError if no film can be written there: mp4 needs ffmpeg, gif only Pillow."""
    if path.suffix not in (".mp4", ".gif"):
        raise UsageError(f"`video={str(path)!r}` must end in .mp4 or .gif")
    if path.suffix == ".mp4":
        require("video", "an mp4 (a .gif needs Pillow alone)")
    elif find_spec("PIL") is None:
        raise MissingExtra("video", "a film")
    return check_file(path, "video")


def film(
    result: Result, path: Path, *, seed: int = 0, sample: bool = False, size: Size = (480, 360), seconds: float = 10
) -> float:
    """Write the first `seconds` (simulated time) of an episode to an mp4 or gif; returns the whole episode's return.

    It is the first episode of `evaluate` with this seed. Environments of others are drawn in their own size.
    """
    seed = whole("seed", seed)
    check_film(path)
    task = result.task.filmed()
    _choose_renderer(task)
    simulator = task.simulator(1)
    picture = getattr(simulator, "picture", None)
    if picture is None:
        raise UsageError(f"task {task.name!r} has nothing to show: it has no pictures")
    speed = simulator.steps_per_second  # type: ignore[attr-defined]
    every = max(1, round(speed / 25))  # about 25 pictures per second
    environment, noise = (generator(seed, one, 0, 0) for one in (Purpose.FRESH_ENVIRONMENT, Purpose.FRESH_ACTION))
    bounded = to_environment(result.policy.policy, getattr(simulator, "bounds", None)) or (lambda actions: actions)
    obs, total, frames = simulator.reset([environment]), 0.0, []
    for t in range(task.horizon):
        if t % every == 0 and t < seconds * speed:
            frames.append(_draw(picture, size))
        action = result.policy.draw(obs, noise if sample else None)
        obs, reward, ended = simulator.step(bounded(action), np.ones(1, bool))
        total += float(reward[0])
        if ended[0] or getattr(simulator, "truncated", ended)[0]:
            break
    with naming(path):
        _write(path, frames, speed / every)
    return total


def _choose_renderer(task: Task) -> None:
    """For what is drawn by MuJoCo, which reads the choice when it is first imported, or by SDL: no window."""
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    if task.engine in ("mujoco", "gymnasium") and "MUJOCO_GL" not in os.environ:
        try:
            os.environ["MUJOCO_GL"] = working_renderer()
            if chosen := sys.modules.get("mujoco.rendering.classic.gl_context"):  # a program imported MuJoCo before
                importlib.reload(chosen)
        except QuellError:
            if task.engine == "mujoco":  # somebody else's environment may draw without
                raise


def _draw(picture: Any, size: Size) -> Array:
    try:
        return np.asarray(picture(*size))
    except UsageError:
        raise
    except Exception as error:
        chosen = os.environ.get("MUJOCO_GL", "its default renderer")
        raise QuellError(f"drawing failed with {chosen} ({error}): {WHAT_TO_INSTALL}") from error


def _write(path: Path, frames: list[Array], fps: float) -> None:
    if path.suffix == ".gif":
        from PIL import Image

        first, *rest = [Image.fromarray(frame).quantize(64, dither=Image.Dither.NONE) for frame in frames]
        first.save(path, save_all=True, append_images=rest, duration=1000 / fps, loop=0)
        return
    import imageio.v3 as imageio

    imageio.imwrite(path, np.stack(frames), fps=fps, codec="libx264", macro_block_size=2)
