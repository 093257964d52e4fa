"""quell methods: list the methods."""

from dataclasses import dataclass

from quell import registry
from quell.commands.arguments import parse
from quell.terminal.streams import tell
from quell.training.methods import METHODS


@dataclass(frozen=True)
class Arguments:
    """List the methods. PPO's switches are the paper's: S, A and M, in any combination."""


def main(arguments: list[str]) -> int:
    parse(Arguments, arguments, prog="quell methods")
    width = max(map(len, METHODS))
    for name, method in METHODS.items():
        tell(f"{name:<{width}}  {method.summary}")
    tell("\nA method names strategies, and each can be exchanged: cv on orthogonal directions with momentum is")
    tell("  quell train TASK --method cv --directions orthogonal --step momentum")
    for kind in ("directions", "estimator", "coefficients", "step"):
        tell(f"--{kind:<14}{', '.join(registry.table(kind))}")
    tell("`quell variance TASK` compares estimators at a fixed policy")
    return 0
