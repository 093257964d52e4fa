"""One line that counts: on a terminal, for as long as the work goes on; nothing elsewhere."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.status import Status


class Counter:
    """`with Counter() as tell: tell("episodes", 3, 40)`"""

    def __init__(self, *, plain: bool | None = None) -> None:
        self.plain = not sys.stderr.isatty() if plain is None else plain
        self._line = Status("", console=Console(stderr=True))

    def __enter__(self) -> Counter:
        if not self.plain:
            self._line.start()
        return self

    def __call__(self, what: str, done: int, total: int) -> None:
        if not self.plain:
            self._line.update(f"{what}: {done} of {total}")

    def __exit__(self, *_: object) -> None:
        if not self.plain:
            self._line.stop()
