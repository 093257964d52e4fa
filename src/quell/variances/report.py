"""A measurement as a table, and as plain values for JSON."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from quell.stats import Interval
from quell.variances.gain import Gain
from quell.variances.measure import Measurement
from quell.variances.summary import Summary


@dataclass(frozen=True)
class Report:
    """What is known of one point, ready to be shown."""

    measurement: Measurement
    summaries: list[Summary]
    gains: list[Gain]
    label: str = ""

    def values(self) -> dict[str, Any]:
        """Plain values; NaN becomes None."""
        m = self.measurement
        config = m.point.config
        facts = {
            "task": config.task,
            "at": m.point.where,
            "label": self.label,
            "preset": config.preset,
            "seed": config.seed,
            "pairs_per_iteration": config.pairs,
            "iterations": len(m.rows[0].gradients),
            "sigma": config.sigma,
            "action_std": float(m.point.policy.std(m.point.theta).mean()),
            "parameters": len(m.point.theta),
            "horizon": m.point.task.horizon,
            "mean_return": m.mean_return,
            "return_std": m.return_std,
            "steps": m.steps,
            "rollout_seconds": m.rollout_seconds,
        }
        rows, gains = [asdict(s) | {"step": s.step} for s in self.summaries], [asdict(g) for g in self.gains]
        return dict(_plain({**facts, "rows": rows, "gains": gains}))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value


def lines(report: Report) -> list[str]:
    """The table as text."""
    m, config = report.measurement, report.measurement.point.config
    std = float(m.point.policy.std(m.point.theta).mean())
    title = f"{config.task} at {m.point.where}" + (f", {report.label}" if report.label else "")
    found = [
        f"{title}: return {m.mean_return:.4g} ± {m.return_std:.3g}, action std {std:.3g}, sigma {config.sigma:g}, "
        f"d = {len(m.point.theta):,}",
        f"{len(m.rows[0].gradients)} iterations of {config.pairs} pairs; 95% intervals; ratios relative to ES",
        f"{'':<16}{'V[g]':>10}  {'ratio':<27}{'Fisher ratio':<25}{'cosine':>7}{'bias z':>8}{'max z':>7}"
        f"{'step':>7}{'cost':>8}",
    ]
    found += map(_line, report.summaries)
    for s in report.summaries:
        if s.eta:
            found.append(f"eta of {s.name:<12} " + "  ".join(f"{layer} {value:.2f}" for layer, value in s.eta.items()))
    found.append(
        "max z: along the gradient or its part in one layer; step: how long a step it bears, relative to ES; "
        "cost: ratio x time of an iteration"
    )
    if report.gains:
        found += ["", f"{'gain of one step':<24}{'return':<30}less that of ES"]
        found += [f"{g.name:<12}{g.kind:<5}{g.size:<7g}{_gain(g.gain):<30}{_gain(g.over_es)}" for g in report.gains]
    return found


def _line(s: Summary) -> str:
    line = f"{s.name:<16}{s.variance.value:>10.3g}  {_interval(s.ratio):<27}{_interval(s.fisher_ratio):<25}"
    line += f"{s.cosine.value:>7.3f}{s.bias.along:>8.1f}{s.bias.worst:>7.1f}{s.step:>7.2g}{s.cost:>8.2g}"
    return line + ("  biased?" if s.bias.p < 1e-4 or abs(s.bias.worst) > 4 else "")


def _interval(x: Interval) -> str:
    return f"{x.value:.3g} [{x.low:.3g}, {x.high:.3g}]"


def _gain(x: Interval) -> str:
    return f"{x.value:+.3g} [{x.low:+.3g}, {x.high:+.3g}]"
