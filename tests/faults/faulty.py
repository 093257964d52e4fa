"""An environment that breaks once for every token (a file named after a fault) laid into a folder.

A token `raise-3` breaks three times: it is laid again as `raise-2` when it does its work.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np


class Faulty(gymnasium.Env[Any, Any]):
    """A walk on a line; the tokens are taken at reset and do their work at the third step."""

    def __init__(self, folder: str, pause: float = 0.0) -> None:
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,))
        self.action_space = gymnasium.spaces.Box(-1, 1, (1,))
        self.folder, self.pause = Path(folder), pause

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.at, self.time, self.fault = self.np_random.normal(size=2), 0, self._token()
        return self.at.copy(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.time += 1
        time.sleep(self.pause)
        if self.fault and self.time == 3:
            token, self.fault = self.fault, ""
            fault, _, times = token.partition("-")
            if times and int(times) > 1:
                (self.folder / f"{fault}-{int(times) - 1}").touch()
            self._break(fault)
        self.at = 0.9 * self.at + 0.1 * float(action[0]) + self.np_random.normal(size=2)
        return self.at.copy(), float(-(self.at**2).sum()), False, self.time >= 10, {}

    def _break(self, fault: str) -> None:
        if fault == "raise":
            raise RuntimeError("one of those days")
        if fault == "memory":
            raise MemoryError
        os.kill(os.getpid(), {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "crash": signal.SIGSEGV}[fault])

    def _token(self) -> str:
        for path in sorted(self.folder.iterdir()):
            try:
                path.unlink()
            except FileNotFoundError:
                continue
            return path.name
        return ""


class Tires(Faulty):
    """Breaks at every `every`-th step that its process takes, whichever episode that is in."""

    taken = 0

    def __init__(self, folder: str, every: int, fault: str) -> None:
        super().__init__(folder)
        self.every, self.kind = every, fault

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        Tires.taken += 1
        if Tires.taken % self.every == 0:
            self._break(self.kind)
        return super().step(action)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        with (self.folder / "resets").open("a") as log:
            log.write(f"{seed}\n")
        return super().reset(seed=seed)

    def _token(self) -> str:
        return ""


def make(folder: str, pause: float = 0.0) -> Faulty:
    return Faulty(folder, pause)


def tires(folder: str, every: int, fault: str) -> Tires:
    return Tires(folder, every, fault)
