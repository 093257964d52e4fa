"""A worker process of the CPU engine: `python -P -m quell.rollout.cpu.worker`.

Started as a plain subprocess (not a multiprocessing child), so that a user's script needs no `__main__` guard. It talks
over an inherited pipe, computes in inherited shared memory, and ends with the pipe, also if the engine was killed.
"""

import ctypes
import os
import signal
import sys
import traceback
import warnings
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import mujoco

from quell.errors import QuellError
from quell.rollout.cpu.memory import Ledger, SharedArrays
from quell.rollout.simulate import LocalSimulator
from quell.tasks.mujoco import without_clock
from quell.terminal.streams import Steady
from quell.types import Episodes

PR_SET_PDEATHSIG = 1


def main(pipe: int, memory: int, place: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the engine's to handle
    # Unstable physics is data here; by default MuJoCo would write a log file into the working directory.
    mujoco.set_mju_user_warning(lambda message: None)
    sys.stdout, sys.stderr = Steady(sys.stdout), Steady(sys.stderr)  # a lost terminal is no environment's failure
    connection, said = Connection(pipe), Said()
    warnings.showwarning = said.take
    try:
        serve(connection, memory, place, said)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return
    except Exception as error:  # it could not even begin
        connection.send((_told(error), said.give()))


class Said:
    """Warnings, kept until the next answer takes them to the engine: every worker and environment has the same ones."""

    def __init__(self) -> None:
        self._texts: dict[str, None] = {}

    def take(self, message: Warning | str, *_: Any, **__: Any) -> None:
        """As `warnings.showwarning` is called."""
        self._texts[str(message)] = None

    def give(self) -> list[str]:
        texts, self._texts = list(self._texts), {}
        return texts


def serve(connection: Connection, memory: int, place: int, said: Said) -> None:
    """Do what the engine asks for until it asks no more."""
    task, problem, layout = connection.recv()
    arrays = SharedArrays(memory, layout)
    new_simulator = partial(LocalSimulator, task, problem, memoryview(arrays["pulse"][place]))
    simulator = new_simulator()
    connection.send((None, said.give()))
    while True:
        request, episodes, indices, normalise = connection.recv()
        assert isinstance(episodes, Episodes)
        normaliser = (arrays["obs_mean"], arrays["obs_scale"]) if normalise else None
        try:
            theta, results = arrays["theta"].copy(), arrays.rollouts(episodes)
            for group in Ledger(arrays["marks"], request).groups(indices, simulator.together):
                simulator.run(theta, episodes, group, normaliser, results)
            connection.send((None, said.give()))
        except MemoryError:
            os._exit(1)  # a new process has more to begin with
        except Exception as error:
            simulator = new_simulator()  # who knows what state the old one is in
            connection.send((_told(error), said.give()))


def _told(error: Exception) -> tuple[QuellError | None, str]:
    """An error as it travels: our own classes alone, since the engine may not have the others."""
    return error if isinstance(error, QuellError) else None, traceback.format_exc()


def die_with(parent: int) -> None:
    """Have the kernel kill this process with the thread that started it, even if it hangs by then."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it was quicker
            sys.exit()


if __name__ == "__main__":
    die_with(int(sys.argv[4]))
    with without_clock():
        main(*map(int, sys.argv[1:4]))
