"""Films of policies, rendered off screen, and a window that shows them as they act."""

import importlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

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
PICTURES_PER_SECOND = 20
COLOURS = 32  # of a GIF: half the size of 64, and the difference cannot be seen
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

    It is the first episode of `evaluate` with this seed (of `bipedalwalker`, whose simulator draws nothing, another).
    Environments of others are drawn in their own size.
    """
    seed = whole("seed", seed)
    check_film(path)
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # no window
    frames, fps, total = episode(result, seed=seed, sample=sample, size=size, seconds=seconds)
    with naming(path):
        _write(path, list(frames), fps)
    return total


def episode(
    result: Result, *, seed: int, sample: bool, size: Size, seconds: float
) -> tuple[Iterator[Array], float, float]:
    """Pictures of an episode's first seconds, which may be drawn as they are taken; how many a second; its return."""
    task = result.task.filmed()
    choose_renderer(task)
    simulator: Any = task.simulator(1)
    later = hasattr(simulator, "pose")  # drawn when all poses are known: the camera is to suit them all
    take = simulator.pose if later else getattr(simulator, "picture", None)
    if take is None:
        raise UsageError(f"task {task.name!r} has nothing to show: it has no pictures")
    speed = simulator.steps_per_second
    every = 1 if later else max(1, round(speed / PICTURES_PER_SECOND))
    environment, noise = (generator(seed, one, 0, 0) for one in (Purpose.FRESH_ENVIRONMENT, Purpose.FRESH_ACTION))
    bounded = to_environment(result.policy.policy, getattr(simulator, "bounds", None)) or (lambda actions: actions)
    obs, total, taken = simulator.reset([environment]), 0.0, []
    for t in range(task.horizon):
        if t % every == 0 and t < seconds * speed:
            taken.append(take() if later else _drawn(take, *size))
        action = result.policy.draw(obs, noise if sample else None)
        obs, reward, ended = simulator.step(bounded(action), np.ones(1, bool))
        total += float(reward[0])
        if ended[0] or getattr(simulator, "truncated", ended)[0]:
            break
    frames = _one_by_one(lambda: simulator.pictures(taken, PICTURES_PER_SECOND, *size)) if later else iter(taken)
    return frames, PICTURES_PER_SECOND if later else speed / every, total


def _one_by_one(make: Callable[[], Iterable[Array]]) -> Iterator[Array]:
    pictures = iter(_drawn(make))
    while (picture := _drawn(next, pictures, None)) is not None:
        yield picture


def check_screen() -> None:
    """Raise UsageError if no window can be opened here."""
    if find_spec("pygame") is None:
        raise MissingExtra("video", "a window")
    seen = sys.platform == "darwin" or {"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys()
    if not seen:
        advice = "without --live, `quell play` writes a film"
        raise UsageError(f"there is no screen here to open a window on (DISPLAY is not set): {advice}")


def live(result: Result, *, seed: int = 0, sample: bool = False, size: Size = (480, 360), seconds: float = 10) -> int:
    """Show one episode after the other in a window, in real time, until it is closed (or Escape or Q is pressed);
    returns how many were begun."""
    check_screen()
    count = 0
    with _Window(f"quell: {result.config.task} {result.config.combination}") as window:
        while window.open:
            frames, fps, total = episode(result, seed=seed + count, sample=sample, size=size, seconds=seconds)
            count += 1
            for frame in frames:
                window.show(frame, fps, f"episode {count}, return {total:.1f}")
                if not window.open:
                    break
    return count


class _Window:
    """A window of pygame's."""

    def __init__(self, title: str) -> None:
        os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
        import pygame

        self._pygame, self._title, self.open = pygame, title, True
        self._clock = pygame.time.Clock()

    def __enter__(self) -> Self:
        try:
            self._pygame.display.init()
        except self._pygame.error as error:
            raise UsageError(f"no window can be opened here ({error}): without --live, a film is written") from None
        return self

    def __exit__(self, *_: object) -> None:
        self._pygame.display.quit()

    def show(self, frame: Array, fps: float, text: str) -> None:
        """A picture, for as long as it lasts; notices that the window was closed."""
        pygame = self._pygame
        size = frame.shape[1], frame.shape[0]
        screen = pygame.display.get_surface()
        if screen is None or screen.get_size() != size:
            screen = pygame.display.set_mode(size)
        pygame.display.set_caption(f"{self._title}: {text}")
        screen.blit(pygame.surfarray.make_surface(frame.swapaxes(0, 1)), (0, 0))
        pygame.display.flip()
        self._clock.tick(fps)
        for event in pygame.event.get():
            keys = (pygame.K_ESCAPE, pygame.K_q)
            if event.type == pygame.QUIT or (event.type == pygame.KEYDOWN and event.key in keys):
                self.open = False


def choose_renderer(task: Task) -> None:
    """For what is drawn by MuJoCo, which reads the choice when it is first imported."""
    if task.engine in ("mujoco", "gymnasium") and "MUJOCO_GL" not in os.environ:
        try:
            os.environ["MUJOCO_GL"] = working_renderer()
            if chosen := sys.modules.get("mujoco.rendering.classic.gl_context"):  # a program imported MuJoCo before
                importlib.reload(chosen)
        except QuellError:
            if task.engine == "mujoco":  # another library's environment may draw without
                raise


def _drawn(draw: Callable[..., Any], *given: Any) -> Any:
    try:
        return draw(*given)
    except UsageError:
        raise
    except Exception as error:
        if "pygame is not installed" in str(error):  # Gymnasium's own error, of its simple environments
            raise MissingExtra("video", "drawing this environment") from error
        chosen = os.environ.get("MUJOCO_GL", "its default renderer")
        raise QuellError(f"drawing failed with {chosen} ({error}): {WHAT_TO_INSTALL}") from error


def _write(path: Path, frames: list[Array], fps: float) -> None:
    if path.suffix == ".gif":
        _write_gif(path, frames, fps)
        return
    import imageio.v3 as imageio

    imageio.imwrite(path, np.stack(frames), fps=fps, codec="libx264", macro_block_size=2)


def _write_gif(path: Path, frames: list[Array], fps: float) -> None:
    """One palette for the whole film: a colour that stands still costs nothing, and nothing flickers."""
    from PIL import Image

    some = frames[:: max(1, len(frames) // 8)]
    palette = Image.fromarray(np.concatenate(some)).quantize(COLOURS, kmeans=2, dither=Image.Dither.NONE)
    first, *rest = [Image.fromarray(frame).quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    hundredths = max(2, round(100 / fps))  # a GIF's clock; browsers play what is faster than 2 slowly
    first.save(path, save_all=True, append_images=rest, palette=palette.getpalette(), duration=10 * hundredths, loop=0)
