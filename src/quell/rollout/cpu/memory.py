"""Named arrays in anonymous shared memory that dies with its last user: nothing to clean up after kill -9."""

import mmap
import os
import tempfile
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Layout = Mapping[str, tuple[tuple[int, ...], str]]
ALIGN = 64


class SharedArrays:
    """`arrays["name"]`, laid out one after the other in one mapping."""

    def __init__(self, fd: int, layout: Layout) -> None:
        self.fd, self.layout = fd, dict(layout)
        offsets, size = {}, 0
        for name, (shape, dtype) in layout.items():
            offsets[name] = size
            size += -(-int(np.prod(shape)) * np.dtype(dtype).itemsize // ALIGN) * ALIGN
        if os.fstat(fd).st_size < size:
            os.ftruncate(fd, size)
        self._map = mmap.mmap(fd, max(size, 1))
        self._arrays: dict[str, NDArray[Any]] = {
            name: np.ndarray(shape, dtype, buffer=self._map, offset=offsets[name])
            for name, (shape, dtype) in layout.items()
        }

    @staticmethod
    def create(layout: Layout) -> "SharedArrays":
        if hasattr(os, "memfd_create"):
            return SharedArrays(os.memfd_create("quell"), layout)
        with tempfile.TemporaryFile() as file:  # elsewhere (macOS): an unlinked file
            return SharedArrays(os.dup(file.fileno()), layout)

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._arrays[name]

    def close(self) -> None:
        """Release the descriptor; memory goes once the last array over it does."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
