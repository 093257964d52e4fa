"""quell resume RUN: continue a run from its newest intact checkpoint."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from quell.commands.common import report, run_horizon, stopped, take_trusted
from quell.rollout import default_compute
from quell.config import Config, changed, flatten
from quell.errors import UsageError
from quell.runs import Run

PROG = "quell resume RUN"
DESCRIPTION = """Continue RUN bit for bit as if it had never stopped. --steps extends it. Settings that would change its
course need --fork, which continues in a new folder. The defaults below are the run's own."""


@dataclass(frozen=True)
class Arguments:
    config: Annotated[Config, tyro.conf.arg(name="")]
    compute: Annotated[Compute, tyro.conf.arg(name="")] = field(default_factory=Compute)
    fork: bool = False
    """Continue in a new folder, with changed settings allowed."""


def main(arguments: list[str]) -> int:
    given, arguments = take_trusted(arguments, run_horizon(arguments))
    if not arguments or (arguments[0].startswith("-") and not {"-h", "--help"} & set(arguments)):
        raise UsageError("which run? `quell resume RUN [options]`")
    if arguments[0] in ("-h", "--help"):
        tyro.cli(Arguments, args=["--help"], default=Arguments(Config("TASK")), prog=PROG, description=DESCRIPTION)
    run = Run.open(Path(arguments[0]))
    default = Arguments(run.config)
    parsed = tyro.cli(Arguments, args=arguments[1:], default=default, prog=PROG, description=DESCRIPTION)
    wanted = parsed.config.validate()
    settings = {name: flatten(wanted)[name] for name in changed(run.config, wanted)}

    from quell.api import resume

    result = resume(run.path, compute=parsed.compute, fork=parsed.fork, task=given, **settings)
    return report(result, given) if result.finished else stopped(result)
