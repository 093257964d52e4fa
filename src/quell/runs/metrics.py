"""Every metric, defined once; metrics.jsonl, TensorBoard, the docs and the progress display all use these names."""

import errno
import itertools
import json
import math
import os
import socket
import struct
import time
import warnings
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from quell import registry
from quell.errors import shown
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
    "eval/best": "Highest eval/mean_action so far; that policy is kept in the checkpoint, as `best`.",
    "eval/reached": "1 when eval/best has reached --target, which ends the run.",
    "eval/steps": "Environment steps spent on evaluation so far; not part of the budget.",
    "gradient/norm": "Euclidean norm of the estimated gradient.",
    "update/ratio": "Norm of the update divided by the norm of theta.",
    "update/kl": "KL divergence between the policies after and before a natural step, on states of the batch.",
    "update/shortened": "How often a natural step was shortened to keep its KL divergence, or to improve a surrogate.",
    "update/share": "Share of a step's usual length that was taken. It is below 1 if all episodes earned the same and "
    "the most so far, and their advantages are smaller than in batches whose returns differ.",
    "perturbation/nats": "Mean KL between the perturbed and the plain policy, from which sigma follows (`--nats`).",
    "action_std": "Mean standard deviation of the policy's actions (0 if deterministic).",
    "learning_rate": "Learning rate in use.",
    "variance/es": "Estimated variance of plain ES on this batch, on the same directions, in the metric in which "
    "the estimator minimises it (`--metric`): that of the parameters, or of the natural step.",
    "variance/method": "Estimated variance of the gradient in use, in the same metric; from its pairs, or from two "
    "batches if pairs are drawn jointly (orthogonal, shifted qmc); unknown for unshifted qmc, whose batches depend on "
    "each other.",
    "variance/ratio": "variance/method divided by variance/es; below 1 the control variate helps. Unknown if all "
    "returns were equal. For a whole run both are summed over the other batches first.",
    "variance/in_step_metric": "1 where these variances are in the natural step's metric, 0 in that of parameters.",
    "eta/mean": "Mean of the control variate's coefficients eta.",
    "eta/min": "Smallest coefficient.",
    "eta/max": "Largest coefficient.",
    "eta/guarded": "Share of coordinates whose sgd step the guard shortened.",
    "gamma": "Discount of the control variate.",
    "pg/kl": "Mean KL divergence between the policy being updated and the one that acted (last update of the batch).",
    "pg/updates": "Minibatch updates made on the batch.",
    "trouble/bad_pairs": "Pairs left out because a return was not finite.",
    "trouble/flat": "1 when all returns were equal: without a critic such a batch carries no gradient.",
    "trouble/cv_dropped": "1 when the policy gradient overflowed and the batch fell back to plain ES.",
    "trouble/skipped": "1 when nothing was changed: no finite gradient could be formed, or no finite step with a "
    "divergence within its limit.",
    "trouble/overflow": "Episodes with more contacts than fit (`--engine device --impl warp`): raise --contacts.",
    "cluster/workers": "Ray workers available.",
    "cluster/lost": "Ray workers lost in this session (dead, silent or overdue); others did their work.",
    "cluster/reissued": "Pieces of work given to a second worker in this session.",
    "cluster/bytes_out": "Bytes of arrays broadcast in this iteration, counted once however many workers read them.",
    "cluster/bytes_in": "Bytes of arrays that came back from the workers in this iteration.",
    "trouble/total": "Iterations so far in which something went wrong: bad pairs, nothing changed, or plain ES in "
    "place of the control variate. Flat batches are not counted: a solved task has them too.",
}


def metrics_of(config: Any) -> dict[str, str]:
    """Name -> meaning of every metric of a run: ours, and those that its strategies define (`METRICS` of a class)."""
    found = dict(METRICS)
    waiting = [config]
    while waiting:
        one = waiting.pop()
        found |= getattr(type(one), "METRICS", {})
        waiting += [value for value in registry.settings_of(one).values() if registry.is_strategy(value)]
    return found


class MetricsWriter:
    """Appends rows to metrics.jsonl, metrics.csv and TensorBoard. A disk that is full stops neither it nor the run."""

    def __init__(self, folder: Path, *, after: int = 0, metrics: Iterable[str] = METRICS) -> None:
        """Continue behind iteration `after`: rows of later iterations, from before a kill, are dropped. metrics.csv has
        the columns given; a metric without a definition is in the other two files alone."""
        self._columns = ("steps", *(name for name in metrics if name != "steps"))
        names, steps = ("metrics.jsonl", "metrics.csv"), 0.0
        found = files.read_rows(folder / names[0])
        with files.replaced(folder / names[0]) as lines, files.replaced(folder / names[1]) as table:
            table.write((",".join(self._columns) + "\n").encode())
            for line, row in itertools.takewhile(lambda pair: pair[1]["iteration"] <= after, found):
                lines.write(line.encode())
                table.write(self._as_csv(row).encode())
                steps = row.get("steps") or 0
        self._files = [Lines(folder / name) for name in names]
        behind = int(steps) if 0 < steps < 2**62 else 0
        self._board: Board | None = Board(files.make_folder(folder / "tensorboard"), behind)

    def write(self, row: Mapping[str, float]) -> None:
        numbers = {name: value if math.isfinite(value) else None for name, value in row.items()}  # JSON has no NaN
        for file, line in zip(self._files, (json.dumps(numbers) + "\n", self._as_csv(numbers)), strict=True):
            file.write(line)
        try:
            if self._board is not None:
                self._board.write(row)
        except OSError as error:
            self._close_board()
            warnings.warn(f"nothing more is written to TensorBoard: {error.strerror or error}", stacklevel=2)

    def close(self) -> None:
        for file in self._files:
            file.close()
        self._close_board()

    def _as_csv(self, row: Mapping[str, float | None]) -> str:
        """One line, empty where the row has no such number."""
        return ",".join("" if row.get(name) is None else str(row[name]) for name in self._columns) + "\n"

    def _close_board(self) -> None:
        board, self._board = self._board, None
        if board is not None:
            with suppress(OSError):
                board.close()


class Lines:
    """A file that grows by whole lines; what the disk has no room for waits."""

    def __init__(self, path: Path) -> None:
        self._path, self._file, self._pending = path, files.append_to(path), b""

    def write(self, line: str) -> None:
        waiting, self._pending = self._pending, self._pending + line.encode()
        try:
            self._append()
        except OSError as error:
            if not waiting:
                warnings.warn(f"{shown(self._path)} waits in memory: {error.strerror or error}", stacklevel=3)

    def close(self) -> None:
        with suppress(OSError):
            self._append()
        os.close(self._file)

    def _append(self) -> None:
        """Write all that waits, or nothing: half a line would end the history for its readers."""
        size = os.fstat(self._file).st_size
        try:
            written = os.write(self._file, self._pending)
            if written < len(self._pending):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            os.ftruncate(self._file, size)
            raise
        self._pending = b""


class Board:
    """A TensorBoard event file over environment steps, continued behind `after` of them.

    Written at once, a row as one event, and not flushed to disk: tensorboardX's own writers wait for ever once their
    thread has died, or take a millisecond or two an iteration.
    """

    def __init__(self, folder: Path, after: int) -> None:
        from tensorboardX.proto.event_pb2 import Event, SessionLog
        from tensorboardX.proto.summary_pb2 import Summary
        from tensorboardX.record_writer import masked_crc32c

        self._event, self._summary, self._checked = Event, Summary, masked_crc32c
        # Files are read in the order of their names, which have the second they are made in: a clock may be set back.
        stamp = f"{int(time.time())}.{socket.gethostname()}"
        name = f"events.{sum(1 for _ in folder.iterdir()):06d}.out.tfevents.{stamp}"
        self._file = (folder / name).open("xb", buffering=0)
        self._append(file_version="brain.Event:2")
        # A reader forgets the steps from here on, which a run that was killed does again.
        self._append(step=after + 1, session_log=SessionLog(status=SessionLog.START))

    def write(self, row: Mapping[str, float]) -> None:
        told = {name: float(value) for name, value in row.items() if name != "steps" and math.isfinite(value)}
        values = [self._summary.Value(tag=name, simple_value=value) for name, value in told.items()]
        self._append(step=int(row["steps"]), summary=self._summary(value=values))

    def close(self) -> None:
        self._file.close()

    def _append(self, **facts: Any) -> None:
        """One record: its length and its bytes, each with a checksum."""
        data = self._event(wall_time=time.time(), **facts).SerializeToString()
        length = struct.pack("<Q", len(data))
        sums = (struct.pack("<I", self._checked(part)) for part in (length, data))
        self._file.write(b"".join((length, next(sums), data, next(sums))))
