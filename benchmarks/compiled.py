"""What is gained if all that follows the rollout is one compiled program: python benchmarks/compiled.py [TASK]

For each method a batch is played once. Then its update (estimate and step) is done again and again, in turns: stage by
stage as a run does it, and as one program in single precision, whose inputs are copied in each time. Prints seconds per
update and their ratio, by wall and by processor time, and how far the two gradients are apart.
"""

from __future__ import annotations

import dataclasses
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from quell.estimate import Rows, estimate
from quell.estimate.reduce import directions_of, sum_inside
from quell.perturb import sigma_of
from quell.rollout.cpu import Cpu
from quell.training.iteration import Trainer, visited
from quell.training.methods import make_config
from quell.types import Batch, Rollouts, Sums, Trajectories
from quell.update import Context

METHODS, ITERATIONS, ROUNDS = ("es", "cv", "natural-cv", "trpo"), 3, 21


def main(task: str) -> None:
    print(f"{task}: median of {ROUNDS} updates of one batch; {len(jax.devices())} x {jax.devices()[0].device_kind}")
    print(f"{'':12}{'stages':>10}{'program':>10}{'ratio':>8}{'CPU ratio':>11}{'gradients apart':>17}")
    for method in METHODS:
        config = make_config(task, method, overrides={"steps": 1_000_000, "seed": 100})
        trainer = Trainer(config, Cpu())
        state = trainer.initial_state()
        for _ in range(ITERATIONS):
            state, _ = trainer.iterate(state)
        staged, program = _two(trainer, state)
        apart = np.linalg.norm(staged() - program()) / np.linalg.norm(staged())
        times: list[list[tuple[float, float]]] = [[], []]
        for _ in range(ROUNDS):
            for found, update in zip(times, (staged, program), strict=True):
                found.append(_timed(update))
        (wall, cpu), (other, own) = (map(statistics.median, zip(*found, strict=True)) for found in times)
        print(f"{method:12}{wall:9.4f}s{other:9.4f}s{wall / other:8.2f}{cpu / own:11.2f}{apart:17.1e}")
        trainer.close()


def _two(trainer: Trainer, state: Any) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """The update of one batch, stage by stage and as one program; each returns the way that theta goes."""
    config, problem = trainer.config, trainer.problem
    metric = config.step.metric(problem.policy, state.step)
    episodes, rollouts = trainer._play(state, trainer.shape(state, metric))
    rollouts = rollouts.copied()
    batch, states = Batch(state.theta, episodes, rollouts, metric), None
    if rollouts.states is not None:
        states = visited(rollouts)

    def staged() -> Any:
        moved, _ = trainer.updated(state, batch, states, trainer.engine.total)
        return moved.theta - state.theta

    paths = rollouts.trajectories
    arrays = {name: getattr(rollouts, name) for name in ("rewards", "steps", "terminated")}
    arrays |= vars(paths) if paths else {}

    @jax.jit
    def whole(told: Any, theta: Any, eps: Any, memory: Any, step: Any, states: Any, spent: Any) -> Any:
        kept = Trajectories(told["obs"], told["actions"]) if paths else None
        played = Rollouts(told["rewards"], told["steps"], told["terminated"], kept, rollouts.obs_sums)
        here = dataclasses.replace(batch, theta=theta, rollouts=played, metric=config.step.metric(problem.policy, step))
        pairs = {"eps": eps, "steps": told["steps"].reshape(-1, 2)}
        pairs |= {name: a.reshape(-1, 2, *a.shape[1:]) for name, a in vars(kept).items()} if kept else {}

        def total(estimator: Any, _: Batch, rows: Rows, theta: Any) -> Sums:
            return sum_inside(estimator, problem, pairs, rows, theta, sigma_of(problem.directions, episodes.shape))

        found = estimate(config.estimator, problem, here, memory, total=total)
        context = Context(problem.policy, spent, config.steps, theta, states, found.caution)
        moved, step, _ = config.step.step(theta, found.gradient, step, context)
        return moved - theta, found.state, step

    def program() -> Any:
        eps = np.array([directions_of(problem, episodes, pair) for pair in range(batch.pairs)])
        single = jax.tree.map(jnp.asarray, (arrays, state.theta, eps, state.estimator, state.step, states, state.steps))
        return np.asarray(jax.block_until_ready(whole(*single))[0])

    return staged, program


def _timed(update: Callable[[], Any]) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    update()
    return time.perf_counter() - wall, time.process_time() - cpu


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "halfcheetah")
