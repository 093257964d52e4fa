"""quell list methods: list the methods."""

from dataclasses import dataclass

from quell import registry
from quell.commands.arguments import parse
from quell.presets import METHODS
from quell.terminal.streams import tell


@dataclass(frozen=True)
class Arguments:
    """List the methods. Switches of ppo-paper are the paper's: S, A and M, in any combination."""


def main(arguments: list[str]) -> int:
    parse(Arguments, arguments, prog="quell list methods")
    width = max(map(len, METHODS))
    for name, method in METHODS.items():
        tell(f"{name:<{width}}  {method.summary}")
    tell("\nA method is a choice of strategies, and each can be replaced: cv with orthogonal directions and SGD is")
    tell("  quell train TASK --method cv --directions orthogonal --step sgd")
    tell("Other choices are called custom. `quell train TASK --show` prints all settings and their origin")
    for kind in ("directions", "estimator", "coefficients", "step"):
        tell(f"--{kind:<14}{', '.join(registry.table(kind))}")
    tell("`quell variance TASK` compares estimators at a fixed policy")
    return 0
