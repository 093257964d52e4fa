"""Gymnasium spaces to and from flat arrays.

Observations become one flat float64 row: Box values in C order, a Discrete value one-hot, MultiBinary as it is,
MultiDiscrete as one one-hot per entry, and Tuple and Dict spaces part by part in the order the space lists them.
Actions arrive as float32 rows: for a Box, clipped to its bounds (an infinite bound clips nothing), rounded if the
space holds integers, and cast to its dtype; for Discrete, MultiDiscrete and MultiBinary, the index of every choice,
counted from 0.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from quell.errors import UsageError
from quell.tasks.base import Array

PICTURE = 10_000  # numbers of the largest one that is taken
Fill = Callable[[Array, Any], None]
"""fill(row, observation) writes the flattened observation into the row; ValueError when it does not fit."""


def observation_filler(space: Any) -> tuple[int, Fill]:
    """Size of a space's flat row, and the function that fills it."""
    from gymnasium import spaces

    if isinstance(space, spaces.Box | spaces.MultiBinary):
        if len(space.shape) > 1 and math.prod(space.shape) > PICTURE:
            raise UsageError(_too_large(space.shape))
        return int(np.prod(space.shape)), partial(_fill_box, space.shape)
    if isinstance(space, spaces.Discrete):
        return int(space.n), partial(_fill_one_hot, int(space.n), int(space.start))
    if isinstance(space, spaces.MultiDiscrete):
        entries = zip(space.nvec.reshape(-1).tolist(), space.start.reshape(-1).tolist(), strict=True)
        parts: list[tuple[int, Fill]] = [(n, partial(_fill_one_hot, n, start)) for n, start in entries]
        return _of_parts(parts, lambda value: np.reshape(value, -1))
    if isinstance(space, spaces.Tuple):
        return _of_parts([observation_filler(part) for part in space.spaces], tuple)
    if isinstance(space, spaces.Dict):
        keys = list(space.spaces)
        parts = [observation_filler(space.spaces[key]) for key in keys]
        return _of_parts(parts, lambda value: [value[key] for key in keys])
    raise UsageError(f"observations of the kind {space} cannot be flattened to a fixed number of values")


def unstacked(space: Any, value: Any) -> Any:
    """Several observations one by one, where an array (or a dictionary or tuple of arrays) holds them; None for one."""
    from gymnasium import spaces

    if isinstance(space, spaces.Dict | spaces.Tuple):
        keys = list(space.spaces) if isinstance(space, spaces.Dict) else range(len(space.spaces))
        parts = [unstacked(space.spaces[key], value[key]) for key in keys]
        if not parts or any(part is None for part in parts):
            return None
        rows = zip(*parts, strict=True)
        return [dict(zip(keys, row, strict=True)) for row in rows] if isinstance(space, spaces.Dict) else list(rows)
    return value if space.shape is not None and np.ndim(value) == len(space.shape) + 1 else None


def _too_large(shape: tuple[int, ...]) -> str:
    size = math.prod(shape)
    flat = f"images of {' x '.join(map(str, shape))} = {size:,} numbers, which networks here take as a flat row"
    room = f"ten episodes of 1,000 steps would fill {size * 4e4 / 2**30:.1f} GiB"
    smaller = f"smaller (gymnasium.wrappers.ResizeObservation, up to {PICTURE:,} numbers)"
    return f"observations are {flat}: {room}. Make them {smaller}, or describe the state in numbers"


def _fill_box(shape: tuple[int, ...], row: Array, value: Any) -> None:
    array = np.asarray(value)
    if array.shape != shape:
        raise ValueError(f"observation of shape {array.shape} where the space says {shape}")
    row[:] = array.reshape(-1)


def _fill_one_hot(size: int, start: int, row: Array, value: Any) -> None:
    index = int(value) - start
    if not 0 <= index < size:
        raise ValueError(f"observation {value} outside Discrete({size}, start={start})")
    row[:] = 0
    row[index] = 1


def _of_parts(parts: list[tuple[int, Fill]], split: Callable[[Any], Any]) -> tuple[int, Fill]:
    ends = np.cumsum([size for size, _ in parts]).tolist()
    pieces = [(slice(end - size, end), fill) for end, (size, fill) in zip(ends, parts, strict=True)]
    return (ends[-1] if ends else 0), partial(_fill_parts, pieces, split)


def _fill_parts(pieces: list[tuple[slice, Fill]], split: Callable[[Any], Any], row: Array, value: Any) -> None:
    values = split(value)
    if len(values) != len(pieces):
        raise ValueError(f"observation with {len(values)} parts where the space has {len(pieces)}")
    for (place, fill), part in zip(pieces, values, strict=True):
        fill(row[place], part)


class ActionReader:
    """Turns float32 rows into what an action space holds, [k, ...]; `size` counts values, or all there is to choose."""

    def __init__(self, space: Any) -> None:
        from gymnasium import spaces

        self.discrete = isinstance(space, spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary)
        self.choices: tuple[int, ...] = ()  # of a space with several
        self._shape, self._dtype = space.shape, space.dtype
        self.bounds: tuple[Array, Array] | None = None  # (lowest, highest) values of a Box
        if isinstance(space, spaces.Discrete):
            self.size, self.start = int(space.n), np.int64(space.start)
        elif isinstance(space, spaces.MultiDiscrete):
            self.choices, self.start = tuple(space.nvec.reshape(-1).tolist()), space.start.reshape(-1)
        elif isinstance(space, spaces.MultiBinary):
            self.choices, self.start = (2,) * int(np.prod(space.shape)), np.int64(0)
        elif isinstance(space, spaces.Box):
            self.size = int(np.prod(space.shape))
            self._low, self._high = space.low.reshape(-1), space.high.reshape(-1)
            self.bounds = (self._low.astype(np.float32), self._high.astype(np.float32))
            self._whole = np.issubdtype(space.dtype, np.integer)
        else:
            known = "Box, Discrete, MultiDiscrete and MultiBinary"
            raise UsageError(f"actions of the kind {space} are not supported, only {known}")
        if self.choices:
            self.size = sum(self.choices)

    def __call__(self, actions: Array) -> Array:
        if self.discrete:
            indices = actions.astype(np.int64) if self.choices else actions[:, 0].astype(np.int64)
            return (indices + self.start).astype(self._dtype).reshape(-1, *self._shape)
        bounded = np.minimum(np.maximum(actions, self._low), self._high)
        if self._whole:
            bounded = np.rint(bounded)
        return bounded.astype(self._dtype).reshape(-1, *self._shape)
