"""How far normalising returns by their own batch turns the expected ES gradient.

    python benchmarks/normalisation.py --json results/variance/normalisation.json

Dividing a batch's returns by their standard deviation weighs batches by something that the same episodes decide, so the
mean of the estimates need not point where the mean of the raw ones does. Both are formed here from the same episodes
(of a small linear system, and of untrained linear policies), many iterations each, and compared: sine of the angle
between their means, from products between two halves of the iterations, so that noise has no square; the error is that
of a jackknife.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from against import make_trainer

BLOCKS = 20
LINEAR = "linear-system"


@dataclass
class Arguments:
    """Direction of the normalised ES gradient."""

    tasks: tuple[str, ...] = (LINEAR, "inverted-pendulum", "inverted-double-pendulum", "hopper")
    pairs: tuple[int, ...] = (5, 40)
    iterations: int = 20_000
    """Of five pairs; with more pairs, fewer."""
    sigma: float = 0.1
    json: Path | None = None
    """Also write the figures here."""


def block_sums(task: str, pairs: int, iterations: int, sigma: float) -> np.ndarray:
    """Sums [blocks, 2, d] of raw and normalised estimates."""
    from quell.perturb import Draw, draw_pair
    from quell.types import Episodes

    settings = {"policy.hidden": [], "sigma": sigma, "pairs": pairs, "shared_reset": True}
    trainer = make_trainer(task, "es", "paper", workers=2, **settings)
    try:
        theta = trainer.initial_state().theta
        sums = np.zeros((BLOCKS, 2, len(theta)))
        for iteration in range(iterations):
            rollouts = trainer.engine.rollout(theta, Episodes.of_pairs(iteration, pairs, shared_reset=True))
            returns = rollouts.returns.reshape(pairs, 2)
            draw = Draw(seed=0, iteration=iteration, pairs=pairs, dim=len(theta))
            eps = np.stack([draw_pair(trainer.problem.directions, draw, pair)[0] for pair in range(pairs)])
            raw = (returns[:, 0] - returns[:, 1]) @ eps / (2 * sigma * pairs)
            sums[iteration % BLOCKS] += np.stack([raw, raw / max(returns.std(), 1e-8)])
    finally:
        trainer.close()
    return sums


def linear_system(pairs: int, iterations: int, sigma: float) -> np.ndarray:
    """The same for a linear system that is pushed by a constant policy with action noise: episodes of six steps."""
    rng, size = np.random.default_rng(0), iterations // BLOCKS
    system, start = np.array([[0.9, 0.3], [-0.2, 0.8]]), np.array([1.0, -0.5])
    sums = np.zeros((BLOCKS, 2, 4))
    for block in range(BLOCKS):
        eps = rng.standard_normal((size, pairs, 1, 4)) * np.array([[1.0], [-1.0]])
        theta = np.array([0.25, -0.1, -0.4, -0.2]) + sigma * eps  # mean and log std of the push
        x, returns = np.broadcast_to(start, theta[..., :2].shape), np.zeros(theta.shape[:-1])
        for _ in range(6):
            x = x @ system.T + theta[..., :2] + np.exp(theta[..., 2:]) * rng.standard_normal(x.shape)
            returns -= np.square(x).sum(axis=-1)
        raw = np.einsum("bp,bpd->bd", returns[..., 0] - returns[..., 1], eps[:, :, 0]) / (2 * sigma * pairs)
        sums[block] = raw.sum(axis=0), (raw / returns.reshape(size, -1).std(axis=1)[:, None]).sum(axis=0)
    return sums


def off(sums: np.ndarray) -> float:
    """Sine of the angle between the two means."""
    halves = sums[::2].sum(axis=0), sums[1::2].sum(axis=0)  # [2, d] each
    (raw, normalised), (other_raw, other_normalised) = halves
    across = (raw @ other_normalised + normalised @ other_raw) / 2
    cosine = across / math.sqrt(max(raw @ other_raw, 1e-300) * max(normalised @ other_normalised, 1e-300))
    return math.sqrt(max(0.0, 1 - cosine**2)) * math.copysign(1, 1 - cosine)


def main(arguments: Arguments) -> None:
    facts: list[dict[str, Any]] = []
    for task in arguments.tasks:
        for pairs in arguments.pairs:
            iterations = arguments.iterations * arguments.pairs[0] // pairs
            make = linear_system if task == LINEAR else partial(block_sums, task)
            iterations *= 20 if task == LINEAR else 1
            sums = make(pairs, iterations, arguments.sigma)
            left_out = [off(np.delete(sums, [k, k + 1], axis=0)) for k in range(0, BLOCKS, 2)]
            spread = np.std(left_out) * math.sqrt(len(left_out) - 1)
            value = off(sums)
            facts.append({"task": task, "pairs": pairs, "iterations": iterations, "off": value, "error": float(spread)})
            print(f"{task}, {pairs} pairs: {100 * value:.1f}% +- {100 * spread:.1f}%", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps({"sigma": arguments.sigma, "rows": facts}, indent=1) + "\n")


if __name__ == "__main__":
    main(tyro.cli(Arguments))
