"""quell export RUN: a run's policy as files that act without quell, or as one of those that come with it."""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from quell import zoo
from quell.api import Result, evaluate
from quell.commands.arguments import UNSET, parse
from quell.commands.common import OfRun, described
from quell.config import check_out, check_run_name
from quell.errors import EXTRAS, UsageError
from quell.export import to_numpy, to_onnx
from quell.registry import SIZE
from quell.stats import spread
from quell.terminal.streams import tell


@dataclass(frozen=True)
class Arguments(OfRun):
    """Write RUN's policy, acting with its mean action, as files that need no quell: policy.npz with an act.py of a few
    lines, and policy.onnx where the extra onnx is installed. With --zoo it joins the policies that come with quell."""

    out: Path = Path("policy")
    """Folder to write to."""
    zoo: Annotated[str | None, UNSET] = None
    """Instead, add it to the zoo under this name, with its score on new episodes."""
    episodes: Annotated[int, SIZE] = 100
    """With --zoo: how many episodes to score it on."""
    replace: bool = False
    """With --zoo: replace a policy that already has this name."""


def main(arguments: list[str]) -> int:
    parsed = parse(Arguments, arguments, prog="quell export")
    if parsed.zoo is not None:
        name = check_run_name(parsed.zoo)
        if name in zoo.names() and not parsed.replace:
            mean = zoo.score(name)["mean"]
            raise UsageError(f"the zoo has a {name!r} already, with return {mean}: give --replace, or another name")
        return _keep(name, parsed.load(), parsed.episodes)
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


def _keep(name: str, result: Result, episodes: int) -> int:
    """Measure a policy and put it into the zoo."""
    returns = evaluate(result, episodes=episodes).returns
    folder = zoo.add(name, result, returns.tolist())
    tell(f"zoo:{name}  return {returns.mean():.1f} ± {spread(returns):.1f} over {episodes} episodes  ({folder})")
    return 0
