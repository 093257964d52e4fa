"""Two ways to choose coefficients, and a judge that picks one of them for each batch.

Coefficients of least total variance (choose.py) let small steps climb fastest, because an optimiser that rescales every
coordinate follows only what stands out from that coordinate's noise. But they may move the policy at random far more
than ES does; coefficients that avoid this (choose_policy.py) keep more total variance. With F_a and T_a the recent
variance of arm a's estimates in the policy's metric and in total, the next batch uses the arm with the least

    log F_a + WEIGHT log T_a

so a factor of 16 in total variance buys a factor of 2 in the policy's, and plain ES wins where neither helps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quell.adapt import State
from quell.choose import Chooser, second_moment
from quell.choose_policy import PolicyChooser
from quell.reduce import Sums

Array = NDArray[Any]
WEIGHT = 0.25


@dataclass(frozen=True)
class BothChooser:
    """Arms: plain ES, the policy's choice, the parameters' choice. State: both choosers', and the arms' scores."""

    parameters: Chooser
    policy: PolicyChooser
    memory: float = 0.9  # decay of the scores: about the last ten batches decide

    @property
    def size(self) -> int:
        """Rows of the products: those of the policy's chooser, and the parameters' choice as a whole."""
        return self.policy.size + 1

    def init(self) -> State:
        return {
            **_prefixed("parameters", self.parameters.init()),
            **_prefixed("policy", self.policy.init()),
            "arms": np.zeros((3, 2)),
        }

    def watched(self, state: State) -> Array:
        """Coefficients [K, d] whose effect on the policy is to be measured on the next batch."""
        return self.parameters.coefficients(_part(state, "parameters"))[0]

    def split(self, columns: Array, watched: Array) -> Array:
        """What is mapped to the policy: the policy chooser's parts, and X + sum_k watched_k Y_k."""
        whole = columns[0] + (watched * columns[1:]).sum(axis=0)
        return np.concatenate([self.policy.split(columns), whole[None]])

    def coefficients(self, state: State) -> tuple[Array, Array]:
        """(beta [K, d], what each coordinate uses [d]: 0 for plain ES)."""
        with np.errstate(divide="ignore"):
            in_policy, in_total = np.log(state["arms"]).T
        best = int(np.nan_to_num(in_policy + WEIGHT * in_total).argmin())  # the first of equals: plain ES at the start
        if best == 0:
            return np.zeros((self.policy.columns, self.policy.dim)), np.zeros(self.policy.dim, np.int64)
        if best == 1:
            return self.policy.coefficients(_part(state, "policy"))
        return self.parameters.coefficients(_part(state, "parameters"))

    def update(self, state: State, sums: Sums, ready: Array) -> State:
        """Score the arms on a batch, then let both choosers learn from it."""
        cc, gram = sums["cc"], sums["gram"][:-1, :-1]
        own, plain = _part(state, "policy"), np.zeros((self.policy.columns, self.policy.dim))
        betas = plain, self.policy.coefficients(own)[0], self.watched(state)
        in_policy = self.policy.measure(gram, plain), self.policy.measure(gram, betas[1]), float(sums["gram"][-1, -1])
        in_total = [float(second_moment(cc, beta).sum()) for beta in betas]
        return {
            **_prefixed("parameters", self.parameters.update(_part(state, "parameters"), sums, ready)),
            **_prefixed("policy", self.policy.update(own, {**sums, "gram": gram}, ready)),
            "arms": self.memory * state["arms"] + np.stack([in_policy, in_total], axis=1),
        }


def _prefixed(name: str, state: State) -> State:
    return {f"{name}.{key}": value for key, value in state.items()}


def _part(state: State, name: str) -> State:
    return {key.removeprefix(f"{name}."): value for key, value in state.items() if key.startswith(f"{name}.")}
