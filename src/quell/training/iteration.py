"""One iteration: perturb -> rollout -> estimate -> update, and what there is to log about it."""

import dataclasses
import functools
import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np

from quell.config import Config
from quell.estimate import Total, estimate
from quell.estimate.reduce import calm
from quell.estimate.returns import alike, finite_pairs
from quell.keys import Purpose, Stream, generator
from quell.perturb import alone
from quell.rollout import Compute, Played
from quell.stats import mean, spread
from quell.tasks.base import Task
from quell.training.methods import make_problem, make_task
from quell.training.state import TrainState
from quell.types import Array, Batch, Episodes, ObsStats, Rollouts, Shape, namespace
from quell.update import STATES, Context, is_finite, where

Row = dict[str, float]
MOST_PAIRS = 512
"""Of a batch that is counted in steps, unless episodes of full length need more to fill it."""
SHORTEST = 8  # steps: no more pairs than would be needed of episodes so short
LENGTH_MEMORY = 0.7  # half forgotten in two batches: episodes grow as a policy learns to stand


class Trainer:
    """One run's fixed parts (task, problem, strategies, engine), and its iteration."""

    def __init__(self, config: Config, compute: Compute, task: Task | None = None) -> None:
        self.config = config
        self.task = make_task(config, task)
        self.problem = make_problem(config, self.task)
        self.longest = min(self.task.horizon, config.train_horizon or self.task.horizon)
        short, full = config.batch_steps // (2 * SHORTEST), math.ceil(config.batch_steps / (2 * self.longest))
        self.most_pairs = max(config.pairs, min(MOST_PAIRS, short), full)
        members = max(2 * self.most_pairs, config.eval_episodes)
        self.engine = compute.make(self.task, self.problem, members=members, states=config.step.states)

    def pairs(self, state: TrainState) -> int:
        """So many that they take about `batch_steps`, going by the episodes so far; at least `pairs`."""
        config, length = self.config, state.episode_length
        if not config.batch_steps:
            return config.pairs
        length = length or (self.task.first_length if self.task.can_terminate else self.task.horizon)
        length = min(length, config.train_horizon or length)
        wanted = self.engine.sized(math.ceil(config.batch_steps / (2 * length)))
        return min(max(config.pairs, wanted), self.most_pairs)

    def close(self) -> None:
        self.engine.close()

    def initial_state(self) -> TrainState:
        policy = self.problem.policy
        theta = policy.init(generator(self.config.seed, Purpose.INIT))
        estimator = self.config.estimator.init(self.problem)
        return TrainState(theta, self.config.step.init(policy, theta), estimator, ObsStats.empty(policy.obs_size))

    def iterate(self, state: TrainState) -> tuple[TrainState, Row]:
        """One iteration, as the engine does it: the next state, and its metrics."""
        return self.engine.iterate(self, state)

    def in_turn(self, state: TrainState) -> tuple[TrainState, Row]:
        """One iteration, stage by stage."""
        started = time.perf_counter()
        with calm():
            metric = state.current(self.config.step).metric(self.problem.policy, state.step)
            shape = self.shape(state, metric)
        episodes, rollouts = self._play(state, shape)
        batch = Batch(state.theta, episodes, rollouts, metric)
        states = None if rollouts.states is None else visited(rollouts)
        with calm():
            moved, row = self.updated(state, batch, states, self.engine.total)
        obs = state.obs.add(rollouts.obs_sums, rollouts.steps)
        nats = 0.0 if shape is None else shape.nats
        return self.following(state, moved, row, Played(rollouts, obs, nats, started))

    def following(self, state: TrainState, moved: TrainState, row: Row, played: Played) -> tuple[TrainState, Row]:
        """The next state and all that is logged of an iteration, given the state that `updated` made."""
        rollouts, row = played.rollouts, {name: float(value) for name, value in row.items()}
        bad = bool(row["trouble/bad_pairs"] or row["trouble/skipped"])
        troubled = bad or bool(row.get("trouble/cv_dropped"))
        elapsed, steps = time.perf_counter() - played.started, int(rollouts.steps.sum())
        past, fresh = state.episode_length, float(rollouts.steps.mean())
        following = dataclasses.replace(
            moved,
            obs=played.obs,
            iteration=state.iteration + 1,
            steps=state.steps + steps,
            seconds=state.seconds + elapsed,
            trouble=state.trouble + troubled,
            trouble_in_a_row=state.trouble_in_a_row + 1 if bad else 0,
            episode_length=LENGTH_MEMORY * past + (1 - LENGTH_MEMORY) * fresh if past else fresh,
        )
        row = {
            **{name: getattr(following, name) for name in ("iteration", "steps", "seconds")},
            "speed": steps / elapsed,
            **_return_metrics(rollouts),
            "episode_length": fresh,
            "action_std": float(self.problem.policy.std(np.asarray(following.theta)).mean()),
            **row,
            **({"perturbation/nats": float(played.nats)} if played.nats else {}),
            **self.engine.metrics(),
            "trouble/total": following.trouble,
        }
        return following, row

    def shape(self, state: TrainState, metric: Any) -> Shape | None:
        """What directions take from the run: the metric, and what ES is worth where their size follows that."""
        weigh = getattr(self.config.estimator, "weight_of_es", None)
        weight = alone if weigh is None else partial(weigh, self.problem, state.estimator)
        return self.config.directions.prepare(metric, weight)

    def _play(self, state: TrainState, shape: Shape | None) -> tuple[Episodes, Rollouts]:
        """The batch's episodes: in the order of pairs, none begun once the budget is spent.

        All at once where even the longest episodes do not spend it, else in parts for which that holds, or pair by
        pair: which pairs are played depends on the lengths of those before them alone, never on the engine.
        """
        config = self.config
        looks = {"record": config.estimator.needs.trajectories, "states": config.step.states}
        looks |= {"mean_action": config.mean_actions}
        shared = {"shared_reset": config.shared_reset, "shared_noise": config.shared_noise, "shape": shape}
        planned = Episodes.of_pairs(state.iteration, self.pairs(state), longest=config.train_horizon, **looks, **shared)
        normaliser = state.obs if config.normalise_obs else None
        played, left = 0, config.steps - state.steps
        while True:
            upto = min(planned.pairs, played + max(1, left // (2 * self.longest)))
            episodes, rows = planned.first(upto), range(2 * played, 2 * upto)
            rollouts = self.engine.rollout(state.theta, episodes, normaliser, rows)
            played, left = upto, config.steps - state.steps - int(rollouts.steps.sum())
            if played == planned.pairs or left <= 0:
                return episodes, rollouts

    def updated(
        self, state: TrainState, batch: Batch, states: Array | None, total: Total
    ) -> tuple[TrainState, dict[str, Any]]:
        """The estimator's updates on one batch; `states` are what the step may look at.

        A gradient that is not finite, or that the step's state cannot hold, changes nothing and is counted.
        """
        returns, xp = batch.rollouts.returns, namespace(batch.theta)
        good, before = finite_pairs(returns), state.theta
        row: dict[str, Any] = {"trouble/bad_pairs": (~good).sum(), "trouble/flat": alike(returns, xp.repeat(good, 2))}
        row["trouble/skipped"] = 0.0
        context = Context(self.problem.policy, state.steps, self.config.steps, state.theta, states)
        norm, rule = 0.0, state.current(self.config.step)
        for _ in range(self.config.estimator.needs.updates):
            theta, memory = state.theta, state.estimator
            if xp is np and (look := getattr(rule, "look", None)):
                context = dataclasses.replace(
                    context, looked=_beside().submit(_calmly, look, state.step, context).result
                )
            estimated = estimate(self.config.estimator, self.problem, batch, memory, total=total, theta=theta)
            norm = xp.linalg.norm(estimated.gradient.astype(np.float64 if xp is np else np.float32))
            seen = dataclasses.replace(context, caution=estimated.caution)
            theta, step, facts = rule.step(theta, estimated.gradient, state.step, seen)
            theta = xp.asarray(theta, np.float32)  # a user's step may compute in double precision
            row |= facts | {"update/share": estimated.caution.share}
            sound = good.any() & xp.isfinite(norm) & xp.isfinite(theta).all() & is_finite(xp, step)
            row["trouble/skipped"] = 1.0 - sound
            if xp is np and not sound:
                break
            fresh = (theta, step, estimated.state)
            if xp is not np:
                fresh = where(sound, fresh, (state.theta, state.step, state.estimator))
            state = dataclasses.replace(state, **dict(zip(("theta", "step", "estimator"), fresh, strict=True)))
            row |= estimated.metrics
        row["gradient/norm"] = norm
        row["update/ratio"] = xp.linalg.norm(state.theta - before) / (xp.linalg.norm(before) + 1e-12)
        return state, row

    def evaluate(self, state: TrainState) -> tuple[TrainState, Row]:
        """Returns of the unperturbed policy, with sampled and with mean actions; the state then has the best so far."""
        row: Row = {}
        steps, count = 0, self.config.eval_episodes
        for mean_action, name in ((False, "eval/return"), (True, "eval/mean_action")):
            episodes = Episodes.unperturbed(state.iteration, count, Stream.EVALUATE, mean_action=mean_action)
            rollouts = self.engine.rollout(state.theta, episodes, state.obs if self.config.normalise_obs else None)
            row[name], row[f"{name}_std"] = mean(rollouts.returns), spread(rollouts.returns)
            steps += int(rollouts.steps.sum())
        state = dataclasses.replace(state, eval_steps=state.eval_steps + steps).judged(row["eval/mean_action"])
        row |= {"eval/steps": state.eval_steps, "eval/best": state.best.score if state.best else math.nan}
        target = self.config.target
        return state, row if target is None else {**row, "eval/reached": float(row["eval/best"] >= target)}


@functools.lru_cache(maxsize=1)
def _beside() -> ThreadPoolExecutor:
    """For what a step finds out while the gradient is estimated: the workers have nothing to do meanwhile."""
    return ThreadPoolExecutor(1, thread_name_prefix="quell-step")


def _calmly(look: Callable[..., Any], *arguments: Any) -> Any:
    with np.errstate(all="ignore"):  # a thread has its own
        return look(*arguments)


def visited(rollouts: Rollouts, count: int = STATES) -> Array:
    """`count` of a batch's states, evenly spread over all its steps, from those that every episode brought back."""
    seen, steps = rollouts.states, rollouts.steps
    assert seen is not None
    ends = np.cumsum(steps)
    positions = (int(ends[-1]) - 1) * np.arange(count) // max(count - 1, 1)
    episode = np.searchsorted(ends, positions, side="right")
    step = positions - (ends - steps)[episode]
    return np.asarray(seen[episode, step * (seen.shape[1] - 1) // np.maximum(steps[episode] - 1, 1)])


def _return_metrics(rollouts: Rollouts) -> Row:
    returns = rollouts.returns
    finite = returns[np.isfinite(returns)] if np.isfinite(returns).any() else np.array([np.nan])
    ends = {"return/min": float(finite.min()), "return/max": float(finite.max())}
    return {"return/mean": mean(returns), "return/std": spread(returns), **ends}
