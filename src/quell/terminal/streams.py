"""Standard streams that may be lost: a closed terminal, `| head -1`, a full disk behind `2> log`."""

import codecs
import os
import sys
from contextlib import suppress
from typing import Any

from quell.errors import ESCAPES

PLAIN = {"±": "+-", "²": "^2", "×": "x", "σ": "sigma", "α": "alpha", "ε": "eps", "…": "...", "–": "-"}
"""Signs that every encoding has, for some that not every one has."""
LONGEST, CUT = 4_000, 1_500
"""Characters of a message, and what is shown of a longer one."""
LOST = (OSError, ValueError, AttributeError, RuntimeError)
"""What writing may raise: it is broken, closed, was never there, or a signal interrupted a write to it."""


class Steady:
    """A stream whose loss does no harm: what cannot be written is dropped."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with suppress(*LOST):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(*LOST):
            self._stream.flush()

    def isatty(self) -> bool:
        return bool(self._stream is not None and self._stream.isatty())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def open_all() -> None:
    """Give closed descriptors (`2>&-`) something to be, or a run's files would take their numbers, and their text."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free


def spell_out() -> None:
    """Have stdout and stderr write what their encoding lacks (PYTHONIOENCODING=ascii) in other signs: no result may be
    lost over the sign in its line."""
    codecs.register_error("quell", lambda error: (_spelt(error), error.end))  # type: ignore[attr-defined]
    for stream in (sys.stdout, sys.stderr):
        with suppress(*LOST):
            stream.reconfigure(errors="quell")  # type: ignore[union-attr]


def _spelt(error: UnicodeError) -> str:
    assert isinstance(error, UnicodeEncodeError)
    return "".join(PLAIN.get(sign, "?") for sign in error.object[error.start : error.end])


def printable(text: str, breaks: str = "\n\t") -> str:
    """A text without what may steer a terminal: names and settings may come from a made-up folder."""
    return "".join(c if c.isprintable() or c in breaks else "?" for c in ESCAPES.sub("", text))


def tell(text: object = "") -> None:
    """A line on stdout, for people and programs."""
    print(printable(str(text)), flush=True)


def say(text: str) -> None:
    """A line on stderr, whatever has become of it; foreign text may be in it, of any length."""
    text = text if len(text) <= LONGEST else f"{text[:CUT]}... ({len(text):,} characters in all)"
    print(printable(text), file=Steady(sys.stderr), flush=True)
