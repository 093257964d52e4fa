"""Every metric, defined once; metrics.jsonl, TensorBoard, the docs and the progress display all use these names."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path

from quell.runs import files

METRICS: dict[str, str] = {
    "iteration": "Iterations done, counting from 1.",
    "steps": "Real environment steps of training so far; what the budget counts.",
    "seconds": "Time spent training so far, over all sessions of the run, without evaluation.",
    "speed": "Training steps per second in this iteration.",
    "return/mean": "Mean undiscounted return of this iteration's (perturbed) members.",
    "return/std": "Standard deviation of those returns.",
    "return/min": "Lowest of those returns.",
    "return/max": "Highest of those returns.",
    "episode_length": "Mean length of this iteration's episodes.",
    "eval/return": "Mean return of the unperturbed policy, actions sampled.",
    "eval/return_std": "Standard deviation of those returns over episodes.",
    "eval/mean_action": "Mean return of the unperturbed policy, acting with its mean (most likely) action.",
    "eval/mean_action_std": "Standard deviation of those returns over episodes.",
    "eval/steps": "Environment steps spent on evaluation so far; not part of the budget.",
    "gradient/norm": "Euclidean norm of the estimated gradient.",
    "update/ratio": "Norm of the update divided by the norm of theta.",
    "update/kl": "KL divergence between the policies after and before a natural step, on states of the batch.",
    "action_std": "Mean standard deviation of the policy's actions (0 if deterministic).",
    "learning_rate": "Learning rate in use.",
    "variance/es": "Estimated total variance V[g] of plain ES on this batch, from its pairs' contributions.",
    "variance/method": "Estimated total variance of the gradient in use, from the same contributions.",
    "variance/ratio": "variance/method divided by variance/es; below 1 the control variate helps.",
    "eta/mean": "Mean of the control variate's coefficients eta.",
    "eta/min": "Smallest coefficient.",
    "eta/max": "Largest coefficient.",
    "eta/guarded": "Share of coordinates whose sgd step the guard shortened.",
    "auto/plain": "Share of coordinates for which auto uses plain ES.",
    "gamma": "Discount of the control variate.",
    "pg/kl": "Mean KL divergence between the policy being updated and the one that acted (last update of the batch).",
    "trouble/bad_pairs": "Pairs left out because a return was not finite.",
    "trouble/flat": "1 when all returns were equal, so that the batch carries no gradient.",
    "trouble/cv_dropped": "1 when the policy gradient overflowed and the batch fell back to plain ES.",
    "trouble/skipped": "1 when no finite gradient could be formed, or the step's state would overflow: nothing was changed.",
    "cluster/workers": "Ray workers at hand.",
    "cluster/lost": "Ray workers lost in this session (dead, silent or overdue); others did their work.",
    "cluster/reissued": "Pieces of work given to a second worker in this session.",
    "cluster/bytes_out": "Bytes of arrays broadcast in this iteration, counted once however many workers read them.",
    "cluster/bytes_in": "Bytes of arrays that came back from the workers in this iteration.",
    "trouble/total": "Iterations so far with any of the above.",
}


class MetricsWriter:
    """Appends rows to metrics.jsonl and to TensorBoard."""

    def __init__(self, folder: Path, *, after: int = 0) -> None:
        """Continue behind iteration `after`: rows of later iterations, from before a kill, are dropped."""
        from tensorboardX import SummaryWriter

        path = folder / "metrics.jsonl"
        files.write_atomically(path, "".join(_rows_up_to(path, after)).encode())
        self._file = os.fdopen(files.append_to(path), "a")
        board = files.make_folder(folder / "tensorboard")
        self._board = SummaryWriter(str(board), purge_step=after, flush_secs=30)

    def write(self, row: Mapping[str, float]) -> None:
        unknown = row.keys() - METRICS.keys()
        assert not unknown, f"metrics without a definition: {sorted(unknown)}"
        self._file.write(json.dumps({name: _json_number(value) for name, value in row.items()}) + "\n")
        self._file.flush()
        for name, value in row.items():
            if name not in ("iteration", "steps") and math.isfinite(value):
                self._board.add_scalar(name, value, int(row["iteration"]))

    def close(self) -> None:
        self._file.close()
        self._board.close()


def _json_number(value: float) -> float | None:
    """JSON has no NaN or infinity: they become null."""
    return value if math.isfinite(value) else None


def _rows_up_to(path: Path, iteration: int) -> list[str]:
    kept = []
    for line in files.read_lines(path):
        row = files.as_table(line)
        if row is None or row["iteration"] > iteration:
            break
        kept.append(line)
    return kept
