"""quell methods: list the methods."""

from __future__ import annotations

from dataclasses import dataclass

import tyro

from quell.training.methods import METHODS


@dataclass(frozen=True)
class Arguments:
    """List the methods. PPO's switches are the paper's: S, A and M, in any combination."""


def main(arguments: list[str]) -> int:
    tyro.cli(Arguments, args=arguments, prog="quell methods")
    width = max(map(len, METHODS))
    for name, method in METHODS.items():
        print(f"{name:<{width}}  {method.summary}")
    print("\n--directions gaussian|orthogonal|gcmc|qmc goes with es, det and cv alike: cv on orthogonal directions is")
    print("  quell train TASK --method cv --directions orthogonal")
    print("--cv.eta auto chooses among control variates (and plain ES) online; `quell variance TASK` compares them all")
    return 0
