"""quell doctor: check this installation."""

import sys
import tempfile
import time
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from quell.commands.arguments import parse
from quell.errors import EXTRAS, QuellError, installing
from quell.terminal.streams import tell
from quell.threads import cores, xla_threads

CORE = (
    *("numpy", "scipy", "jax", "optax", "mujoco", "gymnasium"),
    *("tyro", "rich", "safetensors", "tensorboardX", "cloudpickle", "threadpoolctl"),
)


@dataclass(frozen=True)
class Arguments:
    """Check versions, extras, worker processes, rendering and a two-iteration training run."""


def main(arguments: list[str]) -> int:
    parse(Arguments, arguments, prog="quell doctor")
    tell(f"python {sys.version.split()[0]}, {cores()} cores, XLA on {xla_threads()} threads")
    healthy = True
    for package in CORE:
        try:
            tell(f"  ok       {package} {version(package)}")
        except PackageNotFoundError:
            tell(f"  MISSING  {package}: pip install quell")
            healthy = False
    for extra, module in EXTRAS.items():
        there = find_spec(module) is not None
        tell(f"  ok       extra {extra}" if there else f"  missing  extra {extra}: {installing(extra)}")
    if not healthy:
        return 1
    from quell.video import working_renderer  # here, as below: a missing package is reported above, not raised

    try:
        tell(f"  ok       rendering for `quell play`: MUJOCO_GL={working_renderer()}")
    except QuellError as error:
        tell(f"  missing  rendering for `quell play`: {error}")
    try:
        tell(f"  ok       trained two iterations in {_trains():.1f} s")
    except QuellError as error:
        tell(f"  FAILED   training: {error}")
        return 1
    return 0


def _trains() -> float:
    from quell.front import train

    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        train("lqr-302", steps=2 * 302 * 2, pairs=1, out=Path(folder), progress=False)
    return time.perf_counter() - started
