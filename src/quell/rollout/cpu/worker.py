"""A worker process of the CPU engine: `python -m quell.rollout.cpu.worker`.

Started as a plain subprocess (not a multiprocessing child), so that a user's script needs no `__main__` guard. It talks
over an inherited pipe, computes in inherited anonymous shared memory, and ends when the pipe closes, also when the
engine's process was killed.
"""

from __future__ import annotations

import signal
import sys
import traceback
from multiprocessing.connection import Connection

import mujoco
import numpy as np

from quell.rollout.cpu.memory import SharedArrays
from quell.rollout.simulate import LocalSimulator, Results, Setting
from quell.tasks.mujoco import without_clock
from quell.types import Episodes


def main(pipe: int, memory: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the engine's to handle
    # Unstable physics is data here; by default MuJoCo would write a log file into the working directory.
    mujoco.set_mju_user_warning(lambda message: None)
    connection = Connection(pipe)
    try:
        setting, layout = connection.recv()
        assert isinstance(setting, Setting)
        arrays = SharedArrays.attach(memory, layout)
        results = Results(**{name: arrays[name] for name in Results.__dataclass_fields__})
        simulator = LocalSimulator(setting)
        connection.send(None)
        while True:
            episodes, indices, normalise = connection.recv()
            assert isinstance(episodes, Episodes)
            normaliser = (arrays["obs_mean"], arrays["obs_scale"]) if normalise else None
            try:
                simulator.run(np.array(arrays["theta"]), episodes, indices, normaliser, results)
                connection.send(None)
            except Exception as error:
                connection.send((error if isinstance(error, Exception) else None, traceback.format_exc()))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return


if __name__ == "__main__":
    with without_clock():
        main(int(sys.argv[1]), int(sys.argv[2]))
