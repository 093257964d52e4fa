"""A measurement as a table, and as plain values for JSON."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, is_dataclass
from typing import Any

from quell.measure.fisher import METRICS
from quell.measure.gain import Gain
from quell.measure.session import Measurement
from quell.measure.summary import Errors, Summary
from quell.stats import Interval

NAME = 14  # width of the names' column, if they fit


@dataclass(frozen=True)
class Report:
    """What is known of one point, ready to be shown: `print(report)`, or `report.values()` for JSON."""

    measurement: Measurement
    summaries: list[Summary]
    gains: list[Gain] = field(default_factory=list)
    label: str = ""
    reference: str = "es"
    """The estimator whose mean stands for the gradient where biases are measured."""

    def __getitem__(self, name: str) -> Summary:
        """The summary of an estimator."""
        return next(summary for summary in self.summaries if summary.name == name)

    def values(self) -> dict[str, Any]:
        """Plain values; NaN becomes None."""
        m, point, config = self.measurement, self.measurement.point, self.measurement.point.config
        facts: dict[str, Any] = {"task": config.task, "at": point.where, "label": self.label}
        facts |= {"preset": config.preset, "seed": config.seed, "pairs_per_iteration": config.pairs}
        facts |= {"iterations": len(m.rows[0].gradients), "sigma": point.sigma, "action_std": point.action_std}
        facts |= {"parameters": len(point.theta), "horizon": point.task.horizon, "reference": self.reference}
        facts |= {name: getattr(m, name) for name in ("mean_return", "return_std", "steps", "rollout_seconds")}
        derived = ("variance", "ratio", "fisher_ratio", "cost", "step")
        rows = [vars(s) | {name: getattr(s, name) for name in derived} for s in self.summaries]
        return dict(_plain({**facts, "rows": rows, "gains": self.gains}))

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return _plain(vars(value))
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value


def _lines(report: Report) -> Iterator[str]:
    m, config = report.measurement, report.measurement.point.config
    title = f"{config.task} at {m.point.where}" + (f", {report.label}" if report.label else "")
    facts = f"action std {m.point.action_std:.3g}, sigma {m.point.sigma:g}, d = {len(m.point.theta):,}"
    yield f"{title}: return {m.mean_return:.4g} ± {m.return_std:.3g}, {facts}"
    yield f"{len(m.rows[0].gradients)} iterations of {config.pairs} pairs; 95% intervals; 1 is the variance of ES"
    if report.reference != "es":
        yield f"bias is measured against the mean of {report.reference}"
    wide = max(NAME, *(len(_name(s)) + 2 for s in report.summaries))
    for metric, words in METRICS.items():
        yield f"\nin the metric of the {words}"
        yield f"{'':<{wide}}{'variance':<28}{'bias²':<30}variance + bias²"
        yield from (f"{_name(s):<{wide}}{_errors(s, s.metrics[metric])}" for s in report.summaries)
    yield f"\n{'':<{wide}}{'V[g]':>9}{'cosine':>9}{'bias z':>9}{'max z':>9}{'bears':>9}{'cost':>9}"
    for s in report.summaries:
        facts = f"{s.variance.value:>9.3g}{s.cosine.value:>9.3f}{s.bias.along:>9.1f}{s.bias.worst:>9.1f}"
        doubt = "  biased?" if not s.biased and (s.bias.p < 1e-4 or abs(s.bias.worst) > 4) else ""
        yield f"{_name(s):<{wide}}{facts}{s.step:>9.2g}{s.cost:>9.2g}{doubt}"
    for s in report.summaries:
        if s.eta:
            yield f"eta of {s.name:<{wide}}" + " ".join(f"{layer} {value:.2f}" for layer, value in s.eta.items())
    yield "max z: of the bias along the gradient, or along its part in one layer; bears: how long a step of"
    yield "Adam, relative to ES; cost: total variance x time of an iteration"
    if any(s.biased for s in report.summaries):
        yield "*: the estimator declares a bias"
    if report.gains:
        yield f"\n{'gain of one step':<{wide + 16}}{'return':<30}minus that of ES"
        for g in report.gains:
            gain, over = (f"{x:+.3g}" if math.isfinite(x.value) else "" for x in (g.gain, g.over_es))
            yield f"{g.name:<{wide}}{g.kind:<8}{g.size:<8g}{gain:<30}{over if g.name != 'es' else ''}".rstrip()


def _name(s: Summary) -> str:
    return s.name + "*" * s.biased


def _errors(s: Summary, errors: Errors) -> str:
    if s.name == "es" and errors.bias == Interval(0, 0, 0):
        return f"{'1':<28}{'0':<30}1"
    return f"{_interval(errors.ratio):<28}{_interval(errors.bias):<30}{_interval(errors.error)}"


def _interval(x: Interval) -> str:
    return f"{x.value:.3g} [{x.low:.2g}, {x.high:.2g}]"
