"""quell export RUN: a run's policy as files that act without quell."""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from quell.commands.arguments import parse
from quell.commands.common import OfRun, described
from quell.config import check_out
from quell.errors import EXTRAS
from quell.export import to_numpy, to_onnx
from quell.terminal.streams import tell


@dataclass(frozen=True)
class Arguments(OfRun):
    """Write RUN's policy, acting with its mean action, as files that need no quell: policy.npz with an act.py of a few
    lines, and policy.onnx where the extra onnx is installed."""

    out: Path = Path("policy")
    """Folder to write to."""


def main(arguments: list[str]) -> int:
    parsed = parse(Arguments, arguments, prog="quell export")
    result = parsed.load()
    check_out(parsed.out)
    written = to_numpy(result.policy, parsed.out)
    there = find_spec(EXTRAS["onnx"]) is not None
    written += to_onnx(result.policy, parsed.out) if there else []
    tell(described(result))
    tell(f"  {', '.join(str(path) for path in written)}")
    if not there:
        tell("  no ONNX file: pip install 'quell[onnx]'")
    return 0
