"""Signals that end a program of the command line, heard while it is busy.

Python runs a handler only between two instructions of its own, and a compilation or a large sum may be a minute away
from the next; an exception raised amid an import may get lost there, or crash it. So the process ends on the spot: what
it leaves is what a kill leaves. Runs are the exception: the first signal has them saved (`handled`).
"""

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from quell.terminal.streams import Steady, say

Action = Callable[..., object]  # what is called with a signal's number
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SHOW_CURSOR = "\x1b[?25h"
_ending = threading.Lock()


class Listener:
    """Hears every signal at once, in a thread of its own: says what follows from the first, and ends at the second."""

    def __init__(self) -> None:
        self.first: Action = end
        self.second: Action = end
        self.resuming = ""
        """What goes on with the run that is being trained, once it has begun."""

    def listen(self, ears: socket.socket) -> None:
        count = 0
        while numbers := ears.recv(16):
            for number in numbers:
                if number in ENDING:
                    count += 1
                    (self.first if count == 1 else self.second)(number)


listener: Listener | None = None
"""There is one while a command of the command line runs, and none in a user's own program."""


def end(number: int, frame: FrameType | None = None) -> None:
    """The last words, and the end of this process and its children."""
    if not _ending.acquire(blocking=False):
        return
    if Steady(sys.stderr).isatty():
        Steady(sys.stderr).write(SHOW_CURSOR)  # which a progress bar hides
    say(f"quell: error: {last_words('ended at once' if listener and listener.resuming else 'interrupted')}")
    with suppress(OSError):  # where there is no such file, workers notice by themselves that the driver is gone
        for children in Path("/proc/self/task").glob("*/children"):
            for child in children.read_text().split():
                os.kill(int(child), signal.SIGKILL)
    os._exit(128 + number)


def begun(resuming: str) -> None:
    """From here on, the last words say what goes on with this run."""
    if listener is not None:
        listener.resuming = resuming


def last_words(how: str) -> str:
    """How the process ended, and how to go on."""
    if listener is None or not listener.resuming:
        return f"{how}; `quell resume RUN` continues a run from its last checkpoint"
    return f"{how}; `{listener.resuming}` continues the run from its last checkpoint"


@contextmanager
def handlers_kept(*numbers: int) -> Iterator[None]:
    """While it lasts, handlers may be replaced; then they are what they were. Only the main thread may do either."""
    main = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in numbers} if main else {}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def handled(
    handler: Action, first: Action = end, second: Action = end, numbers: tuple[int, ...] = ENDING
) -> Iterator[None]:
    """While it lasts, signals lead to `handler`, once Python gets to it, and to `first` and then `second` at once."""
    with handlers_kept(*numbers):
        with suppress(ValueError):  # not the main thread: the application owns its signals
            for number in numbers:
                if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # as nohup has it
                    signal.signal(number, handler)
        if listener is not None:
            listener.first, listener.second = first, second
        try:
            yield
        finally:
            if listener is not None:
                listener.first = listener.second = end


@contextmanager
def heard() -> Iterator[None]:
    """While it lasts, a signal ends this process, or, during a run, the second one does, within a second."""
    global listener
    mouth, ears = socket.socketpair()
    mouth.setblocking(False)
    listener = Listener()
    thread = threading.Thread(target=listener.listen, args=(ears,), daemon=True)
    thread.start()
    signal.set_wakeup_fd(mouth.fileno(), warn_on_full_buffer=False)
    try:
        with handled(end):
            yield
    finally:
        signal.set_wakeup_fd(-1)
        mouth.close()
        thread.join()
        ears.close()
        listener = None
