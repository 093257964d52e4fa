"""What looks on while a run goes on, and may stop it."""

from collections.abc import Sequence
from typing import Any


class Callback:
    """Told about every iteration and evaluation; derive from it what you need.

    `row` holds the iteration's metrics by name (`quell.metrics.METRICS`). Setting `self.stop_requested = True` ends the
    run after the present iteration, saved, so that `quell.resume` can go on. An error raised here ends it at once, also
    saved.
    """

    stop_requested = False

    def on_iteration(self, row: dict[str, Any]) -> None:
        """Called after every iteration, once its row is written."""

    def on_evaluation(self, row: dict[str, Any]) -> None:
        """Called after `on_iteration` where the row has an evaluation (`eval/...`)."""

    def __enter__(self) -> "Callback":
        """The run begins."""
        return self

    def __exit__(self, *_: object) -> None:
        """The run has ended, or failed."""


Callbacks = Sequence[Callback]
