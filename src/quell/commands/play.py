"""quell play RUN: film a run's policy."""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import tyro

from quell.api import Checkpoint, load
from quell.commands.arguments import UNSET, parse
from quell.commands.common import described, find_run, run_horizon, take_trusted
from quell.errors import EXTRAS, UsageError
from quell.video import check_film, film

LONGEST = 600.0
"""Seconds of film: its pictures are kept until all are there."""


@dataclass(frozen=True)
class Arguments:
    """Film one episode of RUN's policy, without a screen."""

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """A run folder, a folder with runs (then the newest), or zoo:NAME."""
    video: Path = Path("video.mp4" if find_spec(EXTRAS["video"]) else "video.gif")
    """Where to write it; the ending says what: .mp4 (needs the extra video) or .gif."""
    sample: bool = False
    """Sample actions instead of taking the mean (most likely) one."""
    seed: int = 0
    """Of the episode, which is the first one of `quell eval` with this seed."""
    checkpoint: Checkpoint = "newest"
    """Whose policy: the newest, or that of the best evaluation so far."""
    at: Annotated[int | None, UNSET] = None
    """As of this iteration: from the newest checkpoint up to it."""
    seconds: float = 10.0
    """Length of the film, in simulated time."""
    size: tuple[int, int] = (480, 360)
    """Width and height in pixels; environments that are not ours draw in their own size."""


def main(arguments: list[str]) -> int:
    given, arguments = take_trusted(arguments, run_horizon(arguments))
    parsed = parse(Arguments, arguments, prog="quell play")
    check_film(parsed.video)
    if min(parsed.size) < 16 or max(parsed.size) > 4096:
        raise UsageError(f"--size must lie between 16 and 4096 pixels, got {parsed.size}")
    if not 0 < parsed.seconds <= LONGEST:
        raise UsageError(f"--seconds {parsed.seconds} must be greater than 0, and at most {LONGEST}")
    result = load(find_run(parsed.run), at=parsed.at, checkpoint=parsed.checkpoint, env=given)
    look: dict[str, Any] = {"size": parsed.size, "seconds": parsed.seconds}
    total = film(result, parsed.video, seed=parsed.seed, sample=parsed.sample, **look)
    print(f"{described(result)}\n  {parsed.video}: an episode whose return is {total:.1f}")
    return 0
