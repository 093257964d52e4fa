"""quell play RUN: film a run's policy."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from quell.api import Checkpoint, load
from quell.commands.common import described, run_horizon, take_trusted
from quell.errors import UsageError, require
from quell.video import film, working_renderer


@dataclass(frozen=True)
class Arguments:
    """Film one episode of RUN's policy, without a screen."""

    run: Annotated[Path, tyro.conf.Positional]
    """Run folder."""
    video: Path = Path("video.mp4")
    """Where to write it; the ending says what: .mp4 or .gif."""
    sample: bool = False
    """Sample actions instead of taking the mean (most likely) one."""
    seed: int = 0
    checkpoint: Checkpoint = "newest"
    """Whose policy: the newest, or that of the best evaluation so far."""
    at: int | None = None
    """As of this iteration: from the newest checkpoint up to it."""
    seconds: float = 10.0
    """Length of the film, in simulated time."""
    size: tuple[int, int] = (480, 360)
    """Width and height in pixels."""


def main(arguments: list[str]) -> int:
    given, arguments = take_trusted(arguments, run_horizon(arguments))
    parsed = tyro.cli(Arguments, args=arguments, prog="quell play")
    if parsed.video.suffix not in (".mp4", ".gif"):
        raise UsageError(f"--video must end in .mp4 or .gif, got {str(parsed.video)!r}")
    if min(parsed.size) < 16 or max(parsed.size) > 4096:
        raise UsageError(f"--size must lie between 16 and 4096 pixels, got {parsed.size}")
    if not parsed.seconds > 0:
        raise UsageError(f"--seconds must be greater than 0, got {parsed.seconds}")
    require("video", "`quell play`")
    if "MUJOCO_GL" not in os.environ:
        os.environ["MUJOCO_GL"] = working_renderer()  # read by mujoco when it is first imported

    result = load(parsed.run, at=parsed.at, checkpoint=parsed.checkpoint, env=given)
    look: dict[str, Any] = {"size": parsed.size, "seconds": parsed.seconds}
    total = film(result, parsed.video, seed=parsed.seed, sample=parsed.sample, **look)
    print(f"{described(result)}\n  {parsed.video}: an episode whose return is {total:.1f}")
    return 0
