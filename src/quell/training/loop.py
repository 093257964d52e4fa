"""Training until the budget is spent: evaluation, saving, stopping."""

from __future__ import annotations

import warnings

from quell.config import Config
from quell.errors import EngineFailure, QuellError, TroubleError
from quell.rollout import Compute
from quell.runs import Run, checkpoint
from quell.runs.metrics import MetricsWriter
from quell.tasks.base import Task
from quell.terminal.progress import Progress
from quell.training.iteration import Trainer
from quell.training.methods import make_problem, make_task
from quell.training.state import TrainState

FAILED_SAVES = 3
"""In a row, after which training stops."""


def run_training(
    config: Config, run: Run, *, compute: Compute, progress: Progress, resume: bool = False, task: Task | None = None
) -> TrainState:
    """Train until the step budget is spent, or until `progress.stop_requested`; always leaves a checkpoint behind."""
    task = task or make_task(config)
    saved = checkpoint.load_newest(run.checkpoints) if resume else None
    state = TrainState.from_checkpoint(config, make_problem(config, task), *saved) if saved else None
    writer = MetricsWriter(
        run.path, after=state.iteration if state else 0
    )  # whatever is wrong with a folder comes first
    try:
        trainer = Trainer(config, compute, task)
        try:
            if state is None:
                state = trainer.initial_state()
                _save(run, state, config)
            return _loop(trainer, state, run, writer, progress)
        finally:
            trainer.close()
    finally:
        writer.close()


def _loop(trainer: Trainer, state: TrainState, run: Run, writer: MetricsWriter, progress: Progress) -> TrainState:
    config, failed = trainer.config, 0
    while state.steps < config.steps and not progress.stop_requested:
        before = state
        try:
            state, row = trainer.iterate(state)
            last = state.steps >= config.steps
            if last or (config.eval_every and state.iteration % config.eval_every == 0):
                state, evaluation = trainer.evaluate(state)
                row |= evaluation
        except EngineFailure as error:  # the iteration is repeated on resuming, as it would have been
            _save(run, before, config)
            saved = f"saved after iteration {before.iteration}: quell resume {run.path}"
            raise type(error)(f"{error}\n{saved}") from None
        writer.write(row)
        progress.show(row)
        if state.trouble_in_a_row >= config.max_trouble:
            raise TroubleError(
                f"stopped: {state.trouble_in_a_row} iterations in a row had a return or gradient that was not finite, "
                "or too large for the step to square; "
                f"the last good checkpoint is kept in {run.checkpoints} "
                "(--max-norm, smaller --lr or --sigma often help)"
            )
        if last or progress.stop_requested or state.iteration % config.checkpoint_every == 0:
            try:
                _save(run, state, config)
                failed = 0
            except OSError as error:  # a disk that is full may have room again by the next time
                failed += 1
                text = f"iteration {state.iteration} could not be saved: {error.strerror or error}"
                if last or progress.stop_requested or failed >= FAILED_SAVES:
                    raise QuellError(f"{text}; the last checkpoint is intact: quell resume {run.path}") from None
                warnings.warn(text, stacklevel=2)
    return state


def _save(run: Run, state: TrainState, config: Config) -> None:
    arrays, facts = state.to_checkpoint(config)
    checkpoint.save(run.checkpoints, state.iteration, arrays, facts, config.keep_checkpoints)
