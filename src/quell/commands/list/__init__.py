"""quell list WHAT: what there is, one module for each kind."""

import importlib
import sys

from quell.errors import UsageError, did_you_mean
from quell.terminal.streams import tell

KINDS = {
    "tasks": "tasks to train on: sizes, horizon, engine, and the extra each needs",
    "methods": "what --method takes, and the strategies that a method is made of",
    "runs": "runs in a folder: how far each is, and its score",
    "zoo": "trained policies that come with quell: quell play zoo:NAME",
}
HELP = """usage: quell list KIND [OPTIONS]      quell list KIND --help

{kinds}
"""


def main(arguments: list[str]) -> int:
    if set(arguments[:1]) & {"-h", "--help"}:
        tell(HELP.format(kinds="\n".join(f"  {name:<9}{text}" for name, text in KINDS.items())))
        sys.exit(0)
    if not arguments:
        raise UsageError(f"list what? `quell list {'|'.join(KINDS)}`")
    kind, *rest = arguments
    if kind not in KINDS:
        raise UsageError(f"no list of {kind!r}{did_you_mean(kind, KINDS)}; there are: {', '.join(KINDS)}")
    return int(importlib.import_module(f"quell.commands.list.{kind}").main(rest))
