"""Named arrays in anonymous shared memory that dies with its last user: nothing to clean up after kill -9."""

import math
import mmap
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from quell.types import Array, Episodes, Rollouts, Trajectories

Layout = Mapping[str, tuple[tuple[int, ...], str]]
ALIGN = 64


class SharedArrays(dict[str, Array]):
    """`arrays["name"]`, laid out one after the other in one mapping."""

    def __init__(self, fd: int, layout: Layout) -> None:
        self.fd, self.layout = fd, layout
        room = {name: -(-bytes_of(*array) // ALIGN) * ALIGN for name, array in layout.items()}
        size, start = sum(room.values()), 0
        if os.fstat(fd).st_size < size:
            os.ftruncate(fd, size)
        memory = mmap.mmap(fd, max(size, 1))
        for name, (shape, dtype) in layout.items():
            self[name] = np.ndarray(shape, dtype, buffer=memory, offset=start)
            start += room[name]

    @staticmethod
    def create(layout: Layout) -> "SharedArrays":
        if hasattr(os, "memfd_create"):
            return SharedArrays(os.memfd_create("quell"), layout)
        with tempfile.TemporaryFile() as file:  # elsewhere (macOS): an unlinked file
            return SharedArrays(os.dup(file.fileno()), layout)

    def rollouts(self, episodes: Episodes) -> Rollouts:
        """The arrays of results, cut to the members of a request."""
        cut = {name: array[: len(episodes.members)] for name, array in self.items()}
        paths = Trajectories(cut["obs"], cut["actions"]) if episodes.record else None
        states = cut["states"] if episodes.states else None
        return Rollouts(cut["rewards"], cut["steps"], cut["terminated"], paths, cut["obs_sums"], states)

    def close(self) -> None:
        """Release the descriptor; memory goes once the last array over it does."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class Ledger:
    """Which episodes of a request are begun and which are done, in shared memory: it outlives a worker that fails.

    Every request has a number from 1 up, so that what an earlier one left behind counts for nothing.
    """

    def __init__(self, marks: Array, request: int) -> None:
        self._marks = marks
        self._begun, self._alone, self._done = range(3 * request, 3 * request + 3)

    def groups(self, rows: Sequence[int], size: int) -> Iterator[Sequence[int]]:
        """Episodes that are not done, several to be played together, marked before and after they are.

        Those begun before are what some worker failed over: each alone, so that whichever can be finished stays done.
        """
        suspects = [row for row in rows if self._marks[row] in (self._begun, self._alone)]
        fresh = [row for row in rows if self._marks[row] not in (self._begun, self._alone, self._done)]
        for row in suspects:
            self._marks[row] = self._alone
            yield [row]
            self._marks[row] = self._done
        for group in (fresh[start : start + size] for start in range(0, len(fresh), size)):
            self._marks[group] = self._begun
            yield group
            self._marks[group] = self._done

    def done(self, rows: Sequence[int]) -> int:
        """How many are done."""
        return int((self._marks[rows] == self._done).sum())

    def at_work(self, rows: Sequence[int]) -> list[int]:
        """Those being played, as far as is known."""
        alone = [row for row in rows if self._marks[row] == self._alone]
        return alone or [row for row in rows if self._marks[row] == self._begun]


def bytes_of(shape: tuple[int, ...], dtype: str) -> int:
    return math.prod(shape) * np.dtype(dtype).itemsize
