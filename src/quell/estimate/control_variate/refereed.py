"""CV with several discounts, of which the undiscounted return itself chooses: one setting for all tasks.

A discounted policy gradient is precise and aims elsewhere; returns are noisy and aim right. So a discount is kept for a
round of a few batches, and its score is what the mean return gained meanwhile: a finite difference of the objective
itself, along the way the steps took. The next round's discount is drawn by Thompson's rule:

    k = argmax_k m_k + s z_k / sqrt(n_k),    z_k ~ N(0, 1)    m_k, n_k: mean, number of k's past gains, s: their spread

Gains fade round by round, since the discount that helps a policy to stand need not be the one that makes it run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from quell.errors import UsageError
from quell.estimate import Estimate, Problem, Rows
from quell.estimate.control_variate.advantage import AdvantageControlVariate
from quell.estimate.returns import finite_pairs
from quell.keys import Purpose, generator
from quell.registry import COUNT
from quell.types import Batch, Pair, State, Sums

FADING = 0.8  # of a gain, round by round
FIRST = 0.5  # rounds that a discount is taken to have had before its first: its gain is not known, but not wild either
HUGE = 1e100  # a gain that cannot be squared says nothing; nor does the first, which is not a number


@dataclass(frozen=True, kw_only=True)
class RefereedControlVariate(AdvantageControlVariate):
    """Natural CV whose discount is the one that has raised the undiscounted return most of late."""

    gamma: ClassVar[float] = 1.0  # type: ignore[misc]  # these two are several here, and do not rise
    trace: ClassVar[float] = 1.0  # type: ignore[misc]
    last_gamma: ClassVar[None] = None  # type: ignore[misc]
    last_trace: ClassVar[None] = None  # type: ignore[misc]
    rise: ClassVar[float] = 1.0  # type: ignore[misc]
    gammas: tuple[float, ...] = (0.995, 1.0)
    """Discounts to choose from."""
    traces: tuple[float, ...] = (0.97, 0.995)
    """lambda of GAE for each of them."""
    batches: Annotated[int, COUNT] = 5
    """Batches in a round; 0 mixes all discounts evenly in every batch."""

    name: ClassVar[str] = "refereed"

    @property
    def biased(self) -> bool:
        return min(self.gammas) < 1 or min(self.traces) < 1

    def check(self) -> None:
        if not self.gammas or len(self.gammas) != len(self.traces) or not all(0 < g <= 1 for g in self.gammas):
            raise UsageError(f"estimator.gammas {self.gammas} and estimator.traces {self.traces} need a number each")

    def init(self, problem: Problem) -> State:
        n = len(self.gammas)
        others = {f"{k}/{name}": a for k in range(1, n) for name, a in self.critic.init(problem).items()}
        known = {"chosen": np.zeros((), np.int64), "begun": np.full((), np.nan), "gains": np.zeros((n, 3))}
        return {**super().init(problem), **others, **known}

    def prepare(self, problem: Problem, batch: Batch, state: State) -> Rows:
        rows = super().prepare(problem, batch, state)
        for k in range(1, len(self.gammas)):
            rows.shared.update({f"{k}/{n}": v for n, v in self.critic.shared(_of(state, k), batch.pairs).items()})
        judged = self._judge(problem, batch, state)
        chosen = np.eye(len(self.gammas))[int(judged["chosen"])]
        rows.shared.update({f"referee/{name}": value for name, value in judged.items()})
        rows.shared["shares"] = chosen if self.batches else np.full_like(chosen, 1 / len(chosen))
        return rows

    def _judge(self, problem: Problem, batch: Batch, state: State) -> State:
        """What is known of each discount, and the one to use; both change where a round ends."""
        kept = {name: state[name] for name in ("chosen", "begun", "gains")}
        iteration = batch.episodes.iteration
        good = np.repeat(finite_pairs(batch.rollouts.rewards), 2)
        if not self.batches or iteration % self.batches or not good.any():
            return kept
        level, gains = batch.rollouts.returns[good].mean(), FADING * state["gains"]
        gain = float(level - state["begun"])
        if abs(gain) < HUGE:
            gains[int(state["chosen"])] += (1.0, gain, gain**2)
        count, total, squares = gains.T
        mean = total / (count + FIRST)
        noise = np.sqrt(squares.sum() / max(count.sum(), FIRST))
        draws = generator(problem.seed, Purpose.DISCOUNT, iteration).standard_normal(len(mean))
        chosen = np.argmax(mean + noise * draws / np.sqrt(count + FIRST))
        return {"chosen": np.asarray(chosen), "begun": np.asarray(level), "gains": gains}

    def advantages(self, xp: Any, pair: Pair, row: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Those of the discount in use, in units of their own spread; every critic learns from its own."""
        mixed: Any = 0.0
        learned: dict[str, Any] = {}
        for k, (gamma, trace) in enumerate(zip(self.gammas, self.traces, strict=True)):
            own = row if k == 0 else {**row, **_of(row, k)}
            found, terms = self.advantages_at(gamma, trace, xp, pair, own)
            learned |= terms if k == 0 else {f"{name}/{k}": value for name, value in terms.items()}
            mixed = mixed + row["shares"][k] * np.sqrt(1 - min(gamma * trace, 0.9999) ** 2) * found
        return mixed, learned

    def combine(self, problem: Problem, sums: Sums, rows: Rows, state: State) -> Estimate:
        found = super().combine(problem, sums, rows, state)
        state = {**found.state, **{name: rows.shared[f"referee/{name}"] for name in ("chosen", "begun", "gains")}}
        sound = not found.metrics.get("trouble/cv_dropped") and sums["count"]
        for k in range(1, len(self.gammas)) if sound else ():
            own = {name.removesuffix(f"/{k}"): value for name, value in sums.items() if name.endswith(f"/{k}")}
            updated = self.critic.update(problem, _of(state, k), own, int(rows.shared["iteration"]))
            state |= {f"{k}/{name}": value for name, value in updated.items()}
        gamma = float(rows.shared["shares"] @ np.asarray(self.gammas))
        return Estimate(found.gradient, state, {**found.metrics, "gamma": gamma})


def _of(state: State, k: int) -> State:
    """The part of a state, or of a row, that is critic k's."""
    return {name.removeprefix(f"{k}/"): value for name, value in state.items() if name.startswith(f"{k}/")}


ESTIMATORS = [RefereedControlVariate]
