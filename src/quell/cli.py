"""The `quell` command. Each subcommand lives in quell.commands and is imported only when it is called."""

import importlib
import os
import signal
import sys
import warnings
from collections.abc import Callable
from contextlib import nullcontext

from quell import __version__, words
from quell.errors import QuellError, as_flags, did_you_mean, explained
from quell.limits import free_memory, gib
from quell.terminal.stopping import heard
from quell.terminal.streams import open_all, say, spell_out

COMMANDS = {
    "train": "train a policy: quell train TASK --method es",
    "resume": "continue a run from its newest checkpoint",
    "eval": "play many episodes with a run's policy and report the returns",
    "play": "film a run's policy (mp4 or gif)",
    "export": "write a run's policy as files that work without quell (NumPy, ONNX)",
    "list": "list tasks, methods, runs or the zoo: quell list tasks",
    "sweep": "train many settings and seeds of one method on one task, and print a table",
    "benchmark": "compare methods on many tasks",
    "tune": "search for a method's settings by a documented protocol",
    "variance": "compare gradient estimators at a fixed policy",
    "advise": "measure whether a task suits ES or the policy gradient",
    "paper": "reproduce the paper's tables, figures and theorem",
    "report": "write one HTML page about a run, many runs, or a results folder",
    "doctor": "check this installation",
}

RENAMED = {
    **{kind: f"`quell list {kind}`" for kind in ("tasks", "methods", "runs")},
    "zoo": "`quell list zoo`, and `quell export RUN --zoo NAME` adds to it",
    "theory": "`quell paper theorem`",
}
"""What earlier versions called a command -> what it is now."""

HELP = """quell: low-variance evolution strategies for reinforcement learning

usage: quell COMMAND [OPTIONS]      quell help COMMAND

commands:
{commands}

example: quell train halfcheetah --method natural-cv --steps 1000000
"""


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns its exit code.

    0 done, 1 failed, 2 a request that cannot be carried out, 130 stopped by Ctrl-C, 143 by SIGTERM.
    """
    open_all()
    spell_out()
    alone = arguments is None
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments in ([], ["help"]) or arguments[0] in ("-h", "--help"):
        print(HELP.format(commands="\n".join(f"  {name:<10}{text}" for name, text in COMMANDS.items())))
        return 0
    if arguments[0] in ("-V", "-v", "--version", "version"):
        print(f"quell {__version__}")
        return 0
    command, *rest = [*arguments[1:], "--help"] if arguments[0] == "help" else arguments
    if command in RENAMED:
        return _fail(f"`quell {command}` is now {RENAMED[command]}", 2)
    if command not in COMMANDS and command in words.COMMANDS:
        return _fail(f"what other libraries call {command!r} is `quell {words.COMMANDS[command]}` here", 2)
    if command not in COMMANDS:
        return _fail(f"unknown command {command!r}{did_you_mean(command, COMMANDS)}; `quell --help` lists them", 2)
    if "" in rest:
        return _fail("an argument is empty: is a shell variable not set?", 2)
    return guarded(lambda: int(importlib.import_module(f"quell.commands.{command}").main(rest)), alone=alone)


def guarded(command: Callable[[], int], *, alone: bool = False) -> int:
    """A command's exit code; what goes wrong is said in one line, which speaks of flags.

    `alone`: the process has nothing else to do, so that signals may end it.
    """
    warnings.showwarning = lambda message, *_: say(f"quell: warning: {as_flags(str(message))}")
    try:
        with heard() if alone else nullcontext():
            return command()
    except QuellError as error:
        return _fail(error.as_flags(), error.exit_code)
    except KeyboardInterrupt as error:
        return _fail(str(error) or "interrupted", 128 + getattr(error, "signal", signal.SIGINT), error)
    except BrokenPipeError:  # the reader of our output went away, as `quell ... | head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:  # a disk that is full, a folder that cannot be written
        return _fail(explained(error), 1, error)
    except OverflowError as error:  # a size that nothing can hold
        return _fail(f"the request is too large for this machine: {error}", 1, error)
    except MemoryError as error:
        free, where = free_memory()
        told = "; ".join(filter(None, [str(error), f"{gib(free)} GiB of memory are free {where}"]))
        return _fail(f"out of memory: {told}", 1, error)


def _fail(message: str, code: int, error: BaseException | None = None) -> int:
    """Say what is wrong; an error's notes say what was saved before it got here."""
    say("\n".join([f"quell: error: {message}", *getattr(error, "__notes__", [])]))
    return code
