"""Errors that a user can act on."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from importlib.util import find_spec
from typing import Any


class QuellError(Exception):
    """Something went wrong that has a plain explanation; the command line prints it without a traceback."""

    exit_code = 1


class UsageError(QuellError):
    """The request itself cannot be carried out; nothing was changed."""

    exit_code = 2


class TroubleError(QuellError):
    """A run stopped itself because its numbers went bad too often; its last good checkpoint is kept."""


class EngineFailure(QuellError):
    """Episodes can no longer be run; the run so far is saved and can be resumed.

    `lost`: a worker ended without an answer, so the same request may well succeed elsewhere.
    """

    def __init__(self, message: str, *, lost: bool = False) -> None:
        super().__init__(message)
        self.lost = lost

    def __reduce__(self) -> tuple[Any, ...]:
        return _engine_failure, (type(self), str(self), self.lost)  # so that it crosses from a worker process


def _engine_failure(kind: type[EngineFailure], message: str, lost: bool) -> EngineFailure:
    return kind(message, lost=lost)


class EnvironmentFailure(EngineFailure):
    """An environment raised, or returned what its own spaces rule out; the message says how to replay it."""


EXTRAS = {
    "plot": "matplotlib",
    "report": "jinja2",
    "video": "imageio_ffmpeg",
    "dm": "dm_control",
    "robo": "pybullet_envs_gymnasium",
    "box2d": "Box2D",
    "envpool": "envpool",
    "ray": "ray",
    "wandb": "wandb",
    "mlflow": "mlflow",
    "onnx": "onnx",
}
"""Optional dependency group -> the module that shows whether it is installed."""


class MissingExtra(UsageError):
    """An optional dependency is not installed."""

    def __init__(self, extra: str, what: str) -> None:
        super().__init__(f"{what} needs the optional dependency group {extra!r}: pip install 'quell[{extra}]'")
        self.extra, self.what = extra, what

    def __reduce__(self) -> tuple[type[MissingExtra], tuple[str, str]]:
        return MissingExtra, (self.extra, self.what)  # so that it crosses from a worker process


def require(extra: str, what: str) -> None:
    """Raise MissingExtra unless the group is installed; imports nothing."""
    if find_spec(EXTRAS[extra]) is None:
        raise MissingExtra(extra, what)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """' (did you mean ...?)' when something close is known, else ''."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f" (did you mean {close[0]!r}?)" if close else ""
