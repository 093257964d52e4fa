"""Repeat whole iterations at a fixed theta and keep every estimator's gradient of each.

First some iterations to warm up (eta, value functions), then the measured ones with all that was learned held fixed, so
that no estimator has seen the pairs it is measured on. Pairs within an iteration may depend on each other (orthogonal
directions, a Halton sequence, baselines); iterations do not. So a variance is always that of whole iterations, never
one guessed from the spread of an iteration's pairs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from quell import registry
from quell.policy.fisher import Metric
from quell.rollout import Compute
from quell.stats import mean, spread
from quell.variances.points import Point
from quell.variances.rows import Row
from quell.variances.session import Facts, Measured, Scale, Session

Tell = Callable[[str, int, int], None]
"""Called with (what, done, total)."""


@dataclass(frozen=True)
class Measurement:
    """Everything measured at one point."""

    point: Point
    rows: list[Measured]
    rollout_seconds: float  # per iteration of plain ES
    mean_return: float
    return_std: float
    scale: float  # what rewards were divided by; V[g] in units of reward is its square times that of `gradients`
    steps: int  # real environment steps spent

    def find(self, name: str) -> Measured:
        return next(measured for measured in self.rows if measured.row.name == name)


def measure(
    point: Point,
    rows: Sequence[Row],
    *,
    iterations: int,
    warmup: int,
    compute: Compute,
    others: int | None = None,
    metric: Metric | None = None,
    tell: Tell | None = None,
) -> Measurement:
    """Measure all rows; those that share directions and action noise are measured on the same episodes.

    `others` is the number of iterations for samplings other than that of plain ES, if not `iterations`; `metric` that
    of a natural step, for estimators that make their noise small there.
    """
    scale = Scale()
    parts: list[Measured] = []
    facts: list[Facts] = []
    for number, sampling in enumerate(dict.fromkeys(row.sampling for row in rows)):
        chosen = [row for row in rows if row.sampling == sampling]
        learn = warmup if any(row.learns for row in chosen) else 0
        turns = iterations if number == 0 or others is None else others

        what = registry.name_of(sampling[0]) + (" shared noise" if sampling[1] else "")

        def count(done: int, total: int = learn + turns, what: str = what) -> None:
            if tell is not None:
                tell(what, done, total)

        session = Session(point, chosen, scale, number=number, compute=compute, metric=metric)
        found, fact = session.run(learn, turns, count)
        parts += found
        facts.append(fact)
    order = {row.name: i for i, row in enumerate(rows)}
    return Measurement(
        point=point,
        rows=sorted(parts, key=lambda measured: order[measured.row.name]),
        rollout_seconds=facts[0].seconds,
        mean_return=mean(facts[0].returns),
        return_std=spread(facts[0].returns, ddof=1),
        scale=scale.value,
        steps=sum(fact.steps for fact in facts),
    )
