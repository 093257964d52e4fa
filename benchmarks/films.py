"""Films of the policies that come with quell, for the documentation, and how much of the picture each robot fills.

    python benchmarks/films.py docs/films            # all, ten seconds each
    python benchmarks/films.py docs/films ant hopper

Environments that others draw (gym:..., and bipedalwalker, which Gymnasium draws) have their own cameras; no share is
measured of them.
"""

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import quell
from quell import zoo
from quell.api import Result
from quell.policy.act import to_environment
from quell.types import Array
from quell.video import choose_renderer, film

SIZE, SECONDS = (360, 270), 8.0  # what is small enough for pages


def masks(result: Result, seconds: float, apart: float, size: tuple[int, int] = SIZE) -> list[Array]:
    """Where the robot is in the pictures of `quell play`, one in `apart` seconds; none where others draw."""
    choose_renderer(result.task)
    simulator: Any = result.task.simulator(1)
    act = to_environment(result.policy.policy, simulator.bounds) or (lambda actions: actions)
    obs, poses, seen = simulator.reset([np.random.default_rng(0)]), [], []
    every = max(1, round(apart * simulator.steps_per_second))
    for step in range(int(seconds * simulator.steps_per_second)):
        if hasattr(simulator, "pose"):
            poses.append(simulator.pose())
        elif step % every == 0:
            seen.append(simulator.mask(*size))
        obs, _, ended = simulator.step(act(result.policy.draw(obs, None)), np.ones(1, bool))
        if ended[0]:
            break
    if poses:
        with simulator.studio(poses, *size) as studio:
            seen = [studio.mask(one / simulator.steps_per_second) for one in range(0, len(poses), every)]
    return seen


def share(mask: Array) -> float:
    """How much of the picture's width or height the mask reaches over, whichever is more."""
    spans = [np.flatnonzero(mask.any(axis=axis)) for axis in (0, 1)]
    return (
        max((float(np.ptp(span)) + 1) / mask.shape[1 - axis] for axis, span in enumerate(spans)) if mask.any() else 0.0
    )


def measured(name: str) -> bool:
    return quell.load(f"zoo:{name}").task.engine in ("mujoco", "pybullet")


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or zoo.names():
        result, path, began = quell.load(f"zoo:{name}"), folder / f"{name}.gif", time.perf_counter()
        film(result, path, size=SIZE, seconds=SECONDS)
        took = time.perf_counter() - began
        shares = [share(mask) for mask in masks(result, SECONDS, 0.5)] if measured(name) else []
        fills = f"fills {min(shares):.2f} to {max(shares):.2f}" if shares else "drawn by its environment"
        print(f"{name:24} {took:5.1f} s  {path.stat().st_size / 1e6:.2f} MB  {fills}", flush=True)
