"""Training until the budget is spent: evaluation, saving, stopping."""

import warnings
from contextlib import closing

from quell.config import Config
from quell.errors import EngineFailure, QuellError, TroubleError, resuming, shown
from quell.rollout import Compute
from quell.runs import Run, checkpoint
from quell.runs.metrics import MetricsWriter, metrics_of
from quell.tasks.base import Task
from quell.training.callbacks import Callbacks, Training
from quell.training.iteration import Trainer
from quell.training.methods import make_problem, make_task
from quell.training.state import TrainState

FAILED_SAVES = 3
"""In a row, after which training stops."""


def run_training(
    config: Config, run: Run, *, compute: Compute, callbacks: Callbacks = (), task: Task | None = None
) -> TrainState:
    """Train on from the newest checkpoint, if any, until budget, target or a callback ends it; always leaves one."""
    task = make_task(config, task)
    saved = checkpoint.load_newest(run.checkpoints)
    state = TrainState.from_checkpoint(config, make_problem(config, task), saved) if saved else None
    done = state.iteration if state else 0
    writer = MetricsWriter(run.path, after=done, metrics=metrics_of(config))  # its errors are reported first
    with closing(writer), closing(Trainer(config, compute, task)) as trainer:
        if state is None:
            state = trainer.initial_state()
            _save(run, state, config)
        watched = Training(run.path, config, trainer.task, trainer.problem.policy, state)
        for callback in callbacks:
            callback.training = watched

        def tell(text: str) -> None:
            for callback in callbacks:
                callback.on_note(text)

        trainer.engine.tell = tell
        return _loop(trainer, watched, run, writer, callbacks)


def _loop(trainer: Trainer, watched: Training, run: Run, writer: MetricsWriter, callbacks: Callbacks) -> TrainState:
    config, state, failed = trainer.config, watched.state, 0

    def stopping() -> bool:
        return any(callback.stop_requested for callback in callbacks)

    while not state.finished(config) and not stopping():
        try:
            following, row = trainer.iterate(state)
            if following.steps >= config.steps or (config.eval_every and following.iteration % config.eval_every == 0):
                following, evaluation = trainer.evaluate(following)
                row |= evaluation
            writer.write(row)
            watched.state = state = following
            for callback in callbacks:
                callback.on_iteration(row)
                if "eval/return" in row:
                    callback.on_evaluation(row)
                state = watched.state  # with what it has changed
        except BaseException as error:  # an iteration that was not finished is repeated on resuming
            saved = _saved_in_need(run, state, config)
            if isinstance(error, EngineFailure):
                raise type(error)(f"{error}\n{saved}") from None
            error.add_note(saved)
            raise
        if state.trouble_in_a_row >= config.max_trouble:
            had = "had a return or gradient that was not finite, or too large to square"
            kept = f"the last good checkpoint is kept in {shown(run.checkpoints)}"
            advice = "(--max-norm, smaller --lr or --sigma often help)"
            raise TroubleError(f"stopped: {state.trouble_in_a_row} iterations in a row {had}; {kept} {advice}")
        last = state.finished(config)
        if last or stopping() or state.iteration % config.checkpoint_every == 0:
            try:
                _save(run, state, config)
                failed = 0
            except OSError as error:  # a disk that is full may have room again by the next time
                failed += 1
                text = f"iteration {state.iteration} could not be saved: {error.strerror or error}"
                if last or stopping() or failed >= FAILED_SAVES:
                    raise QuellError(
                        f"{text}; the last checkpoint is intact: {resuming(run.path, config.task)}"
                    ) from None
                warnings.warn(text, stacklevel=2)
    return state


def _saved_in_need(run: Run, state: TrainState, config: Config) -> str:
    """Save what is done, whatever ends the run; says in words whether that went well, and how to go on."""
    try:
        _save(run, state, config)
    except OSError as error:
        failed = (
            f"iteration {state.iteration} could not be saved: {error.strerror or error}; the last checkpoint is intact"
        )
        return f"{failed}: {resuming(run.path, config.task)}"
    return f"saved after iteration {state.iteration}: {resuming(run.path, config.task)}"


def _save(run: Run, state: TrainState, config: Config) -> None:
    arrays, facts = state.to_checkpoint(config)
    checkpoint.save(run.checkpoints, state.iteration, arrays, facts, config.keep_checkpoints)
