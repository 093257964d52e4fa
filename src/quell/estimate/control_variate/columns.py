"""The columns of a control variate: Y_k = ES - R_k, where R_k is a policy gradient at the perturbed members.

Both estimate the gradient of the smoothed objective, so a column has mean zero (or a bias that it declares).
"""

from typing import Any, NamedTuple, Protocol

from quell.estimate import Problem, Rows
from quell.types import Array, Batch, Metrics, Pair, State, Sums


class Scale(NamedTuple):
    """What rewards are multiplied by, and its inverse; 0 and 0 where there is nothing to learn."""

    times: Any
    unit: Any


class Columns(Protocol):
    """One kind of columns; a frozen dataclass whose fields are its settings."""

    @property
    def count(self) -> int:
        """How many columns there are."""

    @property
    def together(self) -> bool:
        """Whether `terms` takes several pairs too."""

    @property
    def traceable(self) -> bool:
        """Whether all of it runs on JAX arrays too, as `Needs.traceable` says."""

    @property
    def biased(self) -> bool:
        """Whether a column's mean is not zero."""

    def init(self, problem: Problem) -> State: ...

    def prepare(self, problem: Problem, batch: Batch, good: Array, state: State, scale: Scale) -> Rows:
        """What is global about a batch."""

    def sight(self, batch: Batch) -> Any:
        """Share of the gradient that a batch's rewards let it see at most; 1 where nothing is too far ahead."""
        return 1.0

    def terms(
        self, xp: Any, problem: Problem, pair: Pair, row: dict[str, Any], theta: Any, x: Any
    ) -> tuple[Any, dict[str, Any]]:
        """(Y_k [..., K, d] of a pair whose ES estimate is x [..., d], other terms that `update` needs)."""

    def update(self, problem: Problem, state: State, sums: Sums, rows: Rows, beta: Array) -> State:
        """What is learned from a batch that was estimated with beta [K, d]."""

    def share(self, state: State, rows: Rows, sums: Sums) -> Any:
        """How much of its usual length a step shall have (`quell.estimate.flat`), given the state before the batch."""

    def metrics(self, rows: Rows) -> Metrics:
        """What is worth knowing of a batch."""
