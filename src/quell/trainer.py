"""Training: perturb -> rollout -> estimate -> update -> log."""

from __future__ import annotations

import dataclasses
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quell.compute import Compute
from quell.config import Config, to_dict
from quell.errors import EngineFailure, QuellError, TroubleError
from quell.estimate import State, estimate
from quell.keys import Purpose, generator
from quell.methods import make_directions, make_estimator, make_policy, make_task
from quell.observations import ObsStats
from quell.optimise import Optimiser
from quell.returns import finite_pairs
from quell.rollout import CpuEngine, Engine
from quell.runs import Run, checkpoint
from quell.runs.metrics import MetricsWriter
from quell.tasks.base import Task
from quell.terminal.progress import Progress
from quell.types import Batch, Episodes, Rollouts

Array = NDArray[Any]
Row = dict[str, float]


@dataclass(frozen=True)
class TrainState:
    """All that changes during a run, and so all that a checkpoint holds."""

    theta: Array
    optimiser: Any
    estimator: State
    obs: ObsStats
    iteration: int = 0
    steps: int = 0
    eval_steps: int = 0
    seconds: float = 0.0
    trouble: int = 0
    trouble_in_a_row: int = 0


COUNTERS = ("iteration", "steps", "eval_steps", "seconds", "trouble", "trouble_in_a_row")


class Trainer:
    """One run's fixed parts (task, policy, directions, estimator, optimiser, engine), and its iteration."""

    def __init__(self, config: Config, compute: Compute | int, task: Task | None = None) -> None:
        self.config = config
        self.task = task or make_task(config)
        self.policy = make_policy(config, self.task)
        self.directions = make_directions(config, self.policy)
        self.estimator = make_estimator(config, self.policy)
        self.optimiser = Optimiser(config)
        self.compute = Compute(compute) if isinstance(compute, int) else compute
        self.engine = self._make_engine()
        self._threads = ThreadPoolExecutor(self.compute.processes, thread_name_prefix="quell-estimate")

    def _make_engine(self) -> Engine:
        compute, parts = self.compute, (self.task, self.policy, self.directions)
        members = max(2 * self.config.pairs, self.config.eval_episodes)
        if compute.engine == "cpu":
            return CpuEngine(*parts, workers=compute.processes, members=members)
        from quell.rollout.cluster.engine import RayEngine

        return RayEngine(*parts, self.estimator, members=members, compute=compute)

    def close(self) -> None:
        self._threads.shutdown()
        self.engine.close()

    def initial_state(self) -> TrainState:
        theta = self.policy.init(generator(self.config.seed, Purpose.INIT))
        return TrainState(
            theta, self.optimiser.init(theta), self.estimator.init(), ObsStats.empty(self.policy.obs_size)
        )

    def iterate(self, state: TrainState) -> tuple[TrainState, Row]:
        """One iteration: the next state, and its metrics."""
        config, started = self.config, time.perf_counter()
        sigma = config.sigma if self.estimator.perturbs else 0.0
        episodes = Episodes.of_pairs(
            state.iteration,
            config.pairs,
            sigma,
            record=self.estimator.records,
            shared_reset=config.shared_reset,
            shared_noise=config.shared_noise,
        )
        rollouts = self.engine.rollout(state.theta, episodes, self._normaliser(state))
        batch = Batch(state.theta, sigma, state.iteration, self.directions, rollouts, config.shared_noise)
        theta, optimiser, estimator, row = self._update(state, batch)
        bad = bool(row["trouble/bad_pairs"] or row["trouble/skipped"])
        troubled = bad or bool(row["trouble/flat"] or row.get("trouble/cv_dropped"))
        elapsed, steps = time.perf_counter() - started, int(rollouts.steps.sum())
        following = TrainState(
            theta,
            optimiser,
            estimator,
            state.obs.add(rollouts.obs_sums, rollouts.steps),
            state.iteration + 1,
            state.steps + steps,
            state.eval_steps,
            state.seconds + elapsed,
            state.trouble + troubled,
            state.trouble_in_a_row + 1 if bad else 0,
        )
        row = {
            "iteration": following.iteration,
            "steps": following.steps,
            "seconds": following.seconds,
            "speed": steps / elapsed,
            **_return_metrics(rollouts),
            "action_std": float(self.policy.std(theta).mean()),
            **row,
            **self.engine.metrics(),
            "trouble/total": following.trouble,
        }
        return following, row

    def _update(self, state: TrainState, batch: Batch) -> tuple[Array, Any, State, Row]:
        """The estimator's updates on one batch. A gradient that is not finite changes nothing and is counted."""
        theta, optimiser, memory = state.theta, state.optimiser, state.estimator
        returns = batch.rollouts.returns
        good = finite_pairs(returns)
        usable = returns[np.repeat(good, 2)]
        row: Row = {
            "trouble/bad_pairs": float((~good).sum()),
            "trouble/flat": float(len(usable) > 0 and usable.min() == usable.max()),
            "trouble/skipped": 0.0,
        }
        rate = self.optimiser.learning_rate(state.steps)
        norm = 0.0
        for _ in range(self.estimator.updates):
            found = estimate(
                self.estimator, batch, memory, theta=theta, mapper=self._threads.map, total=self.engine.total
            )
            norm = float(np.linalg.norm(found.gradient.astype(np.float64)))
            moved, moved_optimiser = self.optimiser.step(theta, found.gradient, optimiser, rate)
            if not good.any() or not np.isfinite(norm) or not np.isfinite(moved).all():
                row["trouble/skipped"] = 1.0
                break
            theta, optimiser, memory = moved, moved_optimiser, found.state
            row |= found.metrics
        row["gradient/norm"] = norm
        row["update/ratio"] = float(np.linalg.norm(theta - state.theta) / (np.linalg.norm(state.theta) + 1e-12))
        row["learning_rate"] = rate
        return theta, optimiser, memory, row

    def evaluate(self, state: TrainState) -> tuple[TrainState, Row]:
        """Returns of the unperturbed policy, with sampled and with mean actions."""
        row, steps = {}, 0
        for mean_action, name in ((False, "eval/return"), (True, "eval/mean_action")):
            episodes = Episodes.of_evaluation(state.iteration, self.config.eval_episodes, mean_action=mean_action)
            rollouts = self.engine.rollout(state.theta, episodes, self._normaliser(state))
            row[name], row[f"{name}_std"] = _mean(rollouts.returns), _std(rollouts.returns)
            steps += int(rollouts.steps.sum())
        state = dataclasses.replace(state, eval_steps=state.eval_steps + steps)
        return state, {**row, "eval/steps": state.eval_steps}

    def _normaliser(self, state: TrainState) -> ObsStats | None:
        return state.obs if self.config.normalise_obs else None

    def save(self, run: Run, state: TrainState) -> None:
        arrays = {
            "theta": state.theta,
            **self.optimiser.to_arrays(state.optimiser),
            **{f"estimator.{name}": value for name, value in state.estimator.items()},
            "obs.total": state.obs.total,
            "obs.squares": state.obs.squares,
        }
        counters = {name: getattr(state, name) for name in COUNTERS}
        facts = {**counters, "obs_count": state.obs.count, "config": to_dict(self.config)}
        checkpoint.save(run.checkpoints, state.iteration, arrays, facts, self.config.keep_checkpoints)

    def restore(self, arrays: checkpoint.Arrays, facts: dict[str, Any]) -> TrainState:
        theta = arrays["theta"]
        if theta.shape != (self.policy.dim,):
            raise QuellError(f"the checkpoint has {theta.size} parameters, this configuration {self.policy.dim}")
        memory = {name.removeprefix("estimator."): a for name, a in arrays.items() if name.startswith("estimator.")}
        fresh = self.estimator.init()
        if {k: v.shape for k, v in fresh.items()} != {k: v.shape for k, v in memory.items()}:
            raise QuellError("the checkpoint's estimator state does not fit this configuration")
        obs = ObsStats(facts["obs_count"], arrays["obs.total"], arrays["obs.squares"])
        optimiser = self.optimiser.from_arrays(theta, arrays)
        return TrainState(theta, optimiser, memory, obs, **{name: facts[name] for name in COUNTERS})


def run_training(
    config: Config, run: Run, *, compute: Compute, progress: Progress, resume: bool = False, task: Task | None = None
) -> TrainState:
    """Train until the step budget is spent, or until `progress.stop_requested`; always leaves a checkpoint behind."""
    trainer = Trainer(config, compute, task)
    try:
        saved = checkpoint.load_newest(run.checkpoints) if resume else None
        state = trainer.restore(*saved) if saved else trainer.initial_state()
        writer = MetricsWriter(run.path, after=state.iteration)
        try:
            if not saved:
                trainer.save(run, state)
            return _loop(trainer, state, run, writer, progress)
        finally:
            writer.close()
    finally:
        trainer.close()


def _loop(trainer: Trainer, state: TrainState, run: Run, writer: MetricsWriter, progress: Progress) -> TrainState:
    config = trainer.config
    while state.steps < config.steps and not progress.stop_requested:
        before = state
        try:
            state, row = trainer.iterate(state)
            last = state.steps >= config.steps
            if last or (config.eval_every and state.iteration % config.eval_every == 0):
                state, evaluation = trainer.evaluate(state)
                row |= evaluation
        except EngineFailure as error:  # the iteration is repeated on resuming, as it would have been
            trainer.save(run, before)
            raise EngineFailure(f"{error}\nsaved after iteration {before.iteration}: quell resume {run.path}") from None
        writer.write(row)
        progress.show(row)
        if state.trouble_in_a_row >= config.max_trouble:
            raise TroubleError(
                f"stopped: {state.trouble_in_a_row} iterations in a row had a return or gradient that was not finite; "
                f"the last good checkpoint is kept in {run.checkpoints} (smaller --lr or --sigma often helps)"
            )
        if last or progress.stop_requested or state.iteration % config.checkpoint_every == 0:
            trainer.save(run, state)
    return state


def _return_metrics(rollouts: Rollouts) -> Row:
    returns = rollouts.returns
    finite = returns[np.isfinite(returns)]
    ends = (float(finite.min()), float(finite.max())) if len(finite) else (float("nan"),) * 2
    return {
        "return/mean": _mean(returns),
        "return/std": _std(returns),
        "return/min": ends[0],
        "return/max": ends[1],
        "episode_length": float(rollouts.steps.mean()),
    }


def _mean(returns: Array) -> float:
    finite = returns[np.isfinite(returns)]
    return float(finite.mean()) if len(finite) else float("nan")


def _std(returns: Array) -> float:
    finite = returns[np.isfinite(returns)]
    if not len(finite):
        return float("nan")
    largest = max(float(np.abs(finite).max()), 1e-300)  # squares of huge returns would overflow
    return float((finite / largest).std() * largest)
