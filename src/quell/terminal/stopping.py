"""Signals that end a program, heard while it is busy.

Python runs a handler only between two instructions of its own, and a compilation or a large sum may be a minute away
from the next. The system does tell a descriptor at once, and a thread that listens there can speak, and end it all.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from quell.terminal.streams import say

GRACE = 0.6  # seconds to tidy up in, after the second signal
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
INTERRUPTED = "interrupted; a run goes on from its last checkpoint with `quell resume RUN`"


class Listener:
    """What there is to say: `first` after the first signal, and `last` when the second ends the process."""

    def __init__(self) -> None:
        self.first: Callable[[int], None] = lambda number: None
        self.last = INTERRUPTED

    def listen(self, ears: socket.socket) -> None:
        heard = 0
        while numbers := ears.recv(16):
            for number in numbers:
                if number in ENDING:
                    heard += 1
                    if heard == 1:
                        self.first(number)
                    elif heard > 2 or not self._ends(ears):
                        say(f"quell: error: {self.last}")
                        os._exit(128 + number)

    def _ends(self, ears: socket.socket) -> bool:
        """Whether the program ends by itself, within the time that it has."""
        ready, _, _ = select.select([ears], [], [], GRACE)
        return bool(ready) and not ears.recv(16, socket.MSG_PEEK)


listener: Listener | None = None
"""Whoever listens now: there is one while a command of the command line runs, and none in a user's own program."""


@contextmanager
def heard() -> Iterator[None]:
    """While it lasts, a second SIGINT, SIGTERM or SIGHUP ends this process within a second."""
    global listener
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    mouth, ears = socket.socketpair()
    mouth.setblocking(False)
    before = signal.set_wakeup_fd(mouth.fileno(), warn_on_full_buffer=False)
    listener = Listener()
    thread = threading.Thread(target=listener.listen, args=(ears,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        mouth.close()
        thread.join()
        ears.close()
        listener = None
