"""Numbers in words."""

from __future__ import annotations


def clock(seconds: float) -> str:
    """1:02:03, or 2 d 3 h for long times."""
    if seconds >= 48 * 3600:
        return f"{int(seconds // 86400)} d {int(seconds % 86400 // 3600)} h"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"


def score(value: float) -> str:
    """As the paper prints: whole from 20 on, one decimal below; far out, with an exponent."""
    if abs(value) >= 1e6:
        return f"{value:.1e}".replace("e+0", "e").replace("e+", "e")
    return f"{value:.0f}" if abs(value) >= 20 else f"{value:.1f}"


def steps(count: int) -> str:
    """1e6, 2e7; 123,456 where that would round."""
    short = f"{count:.0e}".replace("e+0", "e").replace("e+", "e")
    return short if float(short) == count else f"{count:,}"
