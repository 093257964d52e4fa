"""Errors that a user can act on."""

import difflib
import errno
import os
import re
import resource
import shlex
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path


class QuellError(Exception):
    """Something went wrong that has a plain explanation; the command line prints it without a traceback."""

    exit_code = 1

    def as_flags(self) -> str:
        """What it says, in the words of the command line."""
        return as_flags(str(self))


class UsageError(QuellError):
    """The request itself cannot be carried out; nothing was changed."""

    exit_code = 2


class TroubleError(QuellError):
    """A run stopped itself because its numbers went bad too often; its last good checkpoint is kept."""


class EngineFailure(QuellError):
    """Episodes can no longer be run; the run so far is saved and can be resumed."""


class WorkerLost(EngineFailure):
    """A worker ended without an answer, so that the same request may well succeed elsewhere."""


class EnvironmentFailure(EngineFailure):
    """An environment raised, or returned what its own spaces rule out; the message says how to replay it."""


EXTRAS = {
    **{"plot": "matplotlib", "report": "jinja2", "video": "imageio_ffmpeg"},
    **{"dm": "dm_control", "robo": "pybullet_envs_gymnasium", "box2d": "Box2D"},
    **{name: name for name in ("envpool", "ray", "wandb", "mlflow", "onnx")},
    "tune": "optuna",
    **{"mjx": "mujoco.mjx", "mjx-warp": "warp", "brax": "brax", "playground": "mujoco_playground"},
}
"""Optional dependency group -> the module that shows whether it is installed."""
NEWER_PYTHON = {
    "dm": (
        (3, 13),
        "pip install --no-deps dm_control (quell needs only its models; its dependencies have no wheels here)",
    ),
    "robo": ((3, 12), "that needs Python 3.11: PyBullet has no wheels for newer ones"),
}
"""Groups that are empty from a version of Python on (the markers in pyproject.toml), and what there is to do then."""


class MissingExtra(UsageError):
    """An optional dependency group is not installed: which, and what needs it."""

    def __str__(self) -> str:
        extra, what = self.args
        return f"{what} needs the optional dependency group {extra!r}: {installing(extra)}"


def installing(extra: str) -> str:
    """What to type to have an optional dependency group, or why it cannot be had."""
    return NEWER_PYTHON[extra][1] if is_empty(extra) else f"pip install 'quell[{extra}]'"


def is_empty(extra: str) -> bool:
    """Whether a group brings nothing on this Python."""
    return extra in NEWER_PYTHON and sys.version_info >= NEWER_PYTHON[extra][0]


def require(extra: str, what: str) -> None:
    """Raise MissingExtra unless the group is installed; imports nothing."""
    if not installed(extra):
        raise MissingExtra(extra, what)


def installed(extra: str) -> bool:
    """Whether an optional dependency group is there; imports nothing."""
    return find_spec(EXTRAS[extra]) is not None


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Errors of the system get this path where they have none: a full disk is noticed on writing, which knows none."""
    try:
        yield
    except OSError as error:
        if error.filename is None or isinstance(error.filename, int):  # a descriptor says nothing to anybody
            error.filename = str(path)
        raise


def explained(error: OSError) -> str:
    """An error of the system in words: where, and what."""
    named = isinstance(error.filename, str | bytes | os.PathLike)
    where = f"{shown(Path(os.fsdecode(error.filename)))!r}: " if named else ""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = f" (`ulimit -n` allows {most})" if error.errno == errno.EMFILE else ""
    return f"{where}{error.strerror or error}{limit}"


def shown(path: Path) -> str:
    """A path as a person would type it: from the working directory, if it lies there."""
    with suppress(OSError, ValueError):
        return str(path.relative_to(Path.cwd()))
    return str(path)


ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
"""Colours and the like, as a terminal receives them."""
_warned: set[str] = set()


def warn_once(text: str, category: type[Warning] = UserWarning) -> None:
    """A warning that this process gives once, however many environments or workers have the same to say."""
    plain = ESCAPES.sub("", text).removeprefix("WARN: ")
    if plain not in _warned:
        _warned.add(plain)
        warnings.warn(plain, category, stacklevel=3)


def as_flags(text: str) -> str:
    """A message with Python's spelling (`pairs=0`, `fork=True`), spelled as flags (`--pairs 0`, `--fork`)."""
    return re.sub(r"`([a-z][\w.]*)=([^`]*)`", _as_flag, text)


def _as_flag(match: re.Match[str]) -> str:
    name, value = match[1].replace("_", "-"), match[2]
    parents, dot, last = name.rpartition(".")
    if parents == "task-settings":
        name = f"task-settings {match[1].partition('.')[2]}"  # as the environment spells it
        value = value.lower() if value in ("True", "False", "None") else value
    elif value in ("True", "False"):
        return f"`--{parents}{dot}{'' if value == 'True' else 'no-'}{last}`"
    quoted = re.fullmatch(r"\(.*\)|\[.*\]|'.*'", value)
    return f"`--{name} {value[1:-1].replace(',', '') if quoted else value}`"


def resuming(folder: Path, task: str) -> str:
    """The command that continues a run, or the line of Python if a script has the environment."""
    if task.startswith("own:"):
        return f"quell.resume({shown(folder)!r}, env=...) with the environment as it was given"
    trust = f" --trust-import {shlex.quote(task)}" if is_users_own(task) else ""
    return f"quell resume {shlex.quote(shown(folder))}{trust}"


LIBRARIES = ("gym:", "envpool:", "brax:", "playground:")
"""How names of tasks begin that are other libraries'."""


def is_users_own(task: str) -> bool:
    """Whether a task's name is that of an environment which its user has to pass again: own:Class, module:function."""
    return ":" in task and not task.startswith(LIBRARIES)


def flag(name: str) -> str:
    """A setting's name on the command line."""
    return "--" + name.replace("_", "-")


CLOSE = 0.65
"""Of two words, as difflib has it: 'nope' and 'hopper' are less."""


def did_you_mean(word: str, known: Iterable[str], show: Callable[[str], str] = repr) -> str:
    """' (did you mean ...?)' when something close is known, else ''."""
    names = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), names, n=1, cutoff=CLOSE)
    return f" (did you mean {show(names[close[0]])}?)" if close else ""
