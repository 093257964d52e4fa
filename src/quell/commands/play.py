"""quell play RUN: film a run's policy."""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from quell.commands.arguments import parse
from quell.commands.common import OfRun, acted, described
from quell.errors import EXTRAS, UsageError
from quell.terminal.streams import tell
from quell.video import check_film, check_screen, film, live

LONGEST = 600.0
"""Seconds of film: its pictures are kept until all are there."""


@dataclass(frozen=True)
class Arguments(OfRun):
    """Film one episode of RUN's policy, without a screen; or show it in a window (--live)."""

    video: Path = Path("video.mp4" if find_spec(EXTRAS["video"]) else "video.gif")
    """Where to write it; the ending says what: .mp4 (needs the extra video) or .gif."""
    live: bool = False
    """Show episode after episode in a window, in real time, until it is closed; writes nothing."""
    sample: bool = False
    """Sample actions instead of taking the mean (most likely) one."""
    seed: int = 0
    """Random seed: the film is of the first episode of `quell eval` with this seed (and `--sample`, if it is given)."""
    seconds: float = 10.0
    """Length of the film, in simulated time."""
    size: tuple[int, int] = (480, 360)
    """Width and height in pixels; environments that are not ours draw in their own size."""


def main(arguments: list[str]) -> int:
    parsed = parse(Arguments, arguments, prog="quell play")
    check_screen() if parsed.live else check_film(parsed.video)
    if min(parsed.size) < 16 or max(parsed.size) > 4096:
        raise UsageError(f"--size must lie between 16 and 4096 pixels, got {parsed.size}")
    if not 0 < parsed.seconds <= LONGEST:
        raise UsageError(f"--seconds {parsed.seconds} must be greater than 0, and at most {LONGEST}")
    result = parsed.load()
    asked: dict[str, Any] = {name: getattr(parsed, name) for name in ("seed", "sample", "size", "seconds")}
    if parsed.live:
        count = live(result, **asked)
        tell(f"{described(result)}\n  {count} episode{'s' * (count != 1)} shown ({acted(sample=parsed.sample)})")
        return 0
    total = film(result, parsed.video, **asked)
    how = acted(sample=parsed.sample)
    tell(f"{described(result)}\n  {parsed.video}: an episode whose return is {total:.1f} ({how})")
    return 0
