"""Named arrays in anonymous shared memory that dies with its last user: nothing to clean up after kill -9."""

import math
import mmap
import os
import tempfile
from collections.abc import Mapping

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


def bytes_of(shape: tuple[int, ...], dtype: str) -> int:
    return math.prod(shape) * np.dtype(dtype).itemsize
