"""Shared by the tests of the Ray engine: a small run with episodes of different lengths, and its theta's SHA-256."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from quell.rollout import Compute
from quell.rollout.cluster import Ray
from quell.rollout.cluster.engine import RayEngine
from quell.rollout.cluster.fleet import Patience
from quell.rollout.cpu import Cpu
from quell.training.iteration import Trainer
from quell.training.methods import make_config
from quell.training.state import TrainState

SETTINGS: dict[str, Any] = {"horizon": 60, "pairs": 7, "batch_steps": 0, "normalise_obs": True, "eval_episodes": 2}
Between = Callable[[Trainer, int], bool]
"""Called before every iteration with the iterations done; whether to go on."""


def trainer(compute: Compute, method: str = "cv", patience: Patience | None = None, **settings: Any) -> Trainer:
    config = make_config("walker2d", method, overrides=SETTINGS | settings)
    if patience is None:
        return Trainer(config, compute)
    assert isinstance(compute, Ray)
    made = Trainer(config, Cpu(workers=1))
    made.engine.close()
    made.engine = RayEngine(
        made.task,
        made.problem,
        members=2 * made.most_pairs,
        states=config.step.states,
        compute=compute,
        patience=patience,
    )
    return made


def run(made: Trainer, between: Between | int, seconds: float = 300.0) -> tuple[str, int]:
    """Iterate while told to, evaluate, close: (SHA-256 of theta, iterations)."""
    go_on: Between = (lambda _, done: done < between) if isinstance(between, int) else between
    deadline = time.monotonic() + seconds
    try:
        state = made.initial_state()
        while go_on(made, state.iteration):
            state, _ = made.iterate(state)
            assert time.monotonic() < deadline, "took too long"
        state, _ = made.evaluate(state)
        return sha256(state), state.iteration
    finally:
        made.close()


def sha256(state: TrainState) -> str:
    return hashlib.sha256(state.theta.tobytes() + state.obs.total.tobytes()).hexdigest()


def local(iterations: int, method: str = "cv") -> str:
    return run(trainer(Cpu(workers=1), method), iterations)[0]


def listening() -> set[str]:
    """Addresses (hexadecimal, as in /proc/net) of all sockets that accept connections on this machine."""
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            _, address, _, state, *_ = line.split()
            if state == "0A":
                found.add(address)
    return found


def is_loopback(address: str) -> bool:
    host = address.partition(":")[0]
    v4, mapped, v6 = "0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"
    return host in (v4, mapped, v6)


@contextmanager
def no_ray_left() -> Iterator[None]:
    """Whatever happens inside, this process ends up disconnected."""
    import ray

    try:
        yield
    finally:
        ray.shutdown()
