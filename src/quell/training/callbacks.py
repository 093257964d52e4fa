"""What looks on while a run goes on, and may stop it or change its rates."""

import functools
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quell.config import Config
from quell.policy.network import Policy
from quell.tasks.base import Task
from quell.terminal.streams import say
from quell.training.state import TrainState
from quell.training.trained import TrainedPolicy
from quell.update import Step

LEAVING = 60.0  # seconds that a program which ends waits for a run to be saved


@dataclass
class Training:
    """A run while it goes on, as callbacks see it."""

    path: Path
    config: Config
    """What it was begun with."""
    task: Task
    _network: Policy
    state: TrainState
    """All that changes in it."""

    @property
    def policy(self) -> TrainedPolicy:
        """The policy after this iteration, to act with."""
        stats = self.state.obs if self.config.normalise_obs else None
        return TrainedPolicy(self._network, self.state.theta, stats, self.task)

    @property
    def step(self) -> Step:
        """The step with its settings as they are now: `training.step.lr`."""
        return self.state.current(self.config.step)

    def change(self, **settings: float) -> None:
        """Other numbers for the step from the next iteration on: `training.change(lr=0.001)`.

        A schedule continues from the new value. Checkpoints hold these numbers, so a resumed run has them too. Other
        variables of a callback are not saved.
        """
        self.state = self.state.change(self.config.step, settings)


class Callback:
    """Called at every iteration and evaluation; derive your own class from it.

    `row` holds the iteration's metrics by name (`quell.metrics.METRICS`), and `self.training` the run: its path, its
    policy, and the step's settings, which it may change. Setting `self.stop_requested = True` ends the run after the
    present iteration; it is saved, and `quell.resume` can continue it. An error raised here ends and saves it at once.
    """

    stop_requested = False
    training: Training
    """Set from the first iteration on."""

    def on_iteration(self, row: dict[str, Any]) -> None:
        """Called after every iteration, once its row is written."""

    def on_evaluation(self, row: dict[str, Any]) -> None:
        """Called after `on_iteration` where the row has an evaluation (`eval/...`)."""

    def on_note(self, text: str) -> None:
        """Called with what takes a while, such as a program that is compiled."""

    def __enter__(self) -> "Callback":
        """The run begins."""
        return self

    def __exit__(self, *_: object) -> None:
        """The run has ended, or failed."""


class SavedAtExit(Callback):
    """Has a run in a daemon thread stop, and be saved, when the program ends.

    Python ends such threads wherever they are by then, and one amid compiled code takes the whole process with it
    (SIGABRT). It is asked before threads that are not daemons are joined, as those that the engine uses are.
    """

    def __init__(self) -> None:
        self._over = threading.Event()

    def __enter__(self) -> "SavedAtExit":
        if threading.current_thread().daemon:
            _save_all_at_exit()
            _running.add(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        _running.discard(self)

    def wait(self) -> None:
        self._over.wait(LEAVING)


_running: set[SavedAtExit] = set()  # in daemon threads


@functools.cache
def _save_all_at_exit() -> None:
    """Register what does so, once."""

    def save_all() -> None:
        running = tuple(_running)
        for one in running:
            one.stop_requested = True
        for one in running:
            one.wait()

    threading._register_atexit(save_all)  # type: ignore[attr-defined]


class Said(Callback):
    """A line that is said once the first iteration is done: what is refused before gets a line of its own alone."""

    def __init__(self, text: str) -> None:
        self._text = text

    def on_iteration(self, row: dict[str, Any]) -> None:
        if self._text:
            say(self._text)
        self._text = ""


Callbacks = Sequence[Callback]
